"""`run --estimate`, `devices` and `doctor`: what this machine can hold, and what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spec_cli import __version__
from spec_cli.cli import devices as devices_command
from spec_cli.llama.devices import Device
from tests.cli.conftest import Call, Done, SpecCli
from tests.cli.tiny_models import Models
from tests.fake_hub import FakeHub, serve
from tests.tiny_gguf import bpe_vocab, write_tiny_model

TOO_LARGE = ("-c", "2000000000")


def test_an_estimate_is_on_stdout_and_needs_no_prompt(call: Call, models: Models) -> None:
    run = call("run", "--estimate", *models.pair)
    assert (run.exit_code, run.stderr) == (0, "")
    lines = run.stdout.decode().splitlines()
    assert lines[0] == "target  target.gguf, context 512 tokens"
    assert lines[1] == "draft   draft.gguf, context 512 tokens"
    assert lines[-1] == "fits"
    assert sum(line.startswith(("target  RAM", "draft   RAM")) for line in lines) == 2
    assert any(re.match(r"RAM: .* must stay, and .* for file pages; .* free", x) for x in lines)


def test_an_estimate_as_json_counts_in_bytes(call: Call, models: Models) -> None:
    run = call("run", "--estimate", "--json", *models.pair)
    plan = run.json
    assert (run.exit_code, plan["schema"], plan["fits"]) == (0, "spec-cli/estimate/1", True)
    target, draft = plan["models"]
    assert (target["role"], draft["role"]) == ("target", "draft")
    assert target["memory"]["RAM"]["cache_bytes"] > draft["memory"]["RAM"]["cache_bytes"] > 0
    assert target["n_layers"] == 3
    ram = plan["memory"][0]
    assert ram["needed_bytes"] <= ram["usable_bytes"] < ram["free_bytes"] <= ram["total_bytes"]


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of some megabytes, of which the header is half a one."""
    path = tmp_path_factory.mktemp("large") / "toy-Q8_0.gguf"
    return write_tiny_model(path, vocab=bpe_vocab(20_000)).read_bytes()


def of(hub: FakeHub) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.url, "no_proxy": "127.0.0.1"}


def test_an_estimate_fetches_headers_and_no_weights(
    spec_cli: SpecCli, large: bytes, tmp_path: Path
) -> None:
    ours, theirs = "user/toy-GGUF:Q8_0", "hf://user/tiny-GGUF/tiny-Q8_0.gguf"
    repos = {"user/toy-GGUF": {"toy-Q8_0.gguf": large}, "user/tiny-GGUF": {"tiny-Q8_0.gguf": large}}
    with serve(FakeHub(repos)) as hub:
        run = spec_cli("run", "--estimate", "-m", ours, "-d", theirs, env=of(hub))
        assert hub.n_served < len(large) // 2
        quiet = spec_cli("run", "--estimate", "-m", ours, "-d", theirs, "-q", env=of(hub))
    assert run.exit_code == quiet.exit_code == 0
    assert quiet.stderr == ""
    assert run.stderr.splitlines() == [
        f"reading the header of {name} from the hub" for name in (ours, theirs)
    ]
    assert not (spec_cli.home / "hf/hub").exists()
    for name in ("toy-Q8_0.gguf", "tiny-Q8_0.gguf"):
        (tmp_path / name).write_bytes(large)
    files = ("-m", tmp_path / "toy-Q8_0.gguf", "-d", tmp_path / "tiny-Q8_0.gguf")
    here = spec_cli("run", "--estimate", *files).stdout.decode().splitlines()
    assert run.stdout.decode().splitlines()[:5] == here[:5]


def test_an_estimate_of_what_is_not_here_needs_the_network(spec_cli: SpecCli) -> None:
    words = ("run", "--estimate", "-m", "user/toy-GGUF:Q8_0")
    spec_cli(*words, "--offline").fails(
        4, "`user/toy-GGUF:Q8_0` is not in the cache, and `--offline` forbids downloads"
    )
    spec_cli(*words).fails(4, "cannot reach the hub")


def test_an_estimate_does_not_fetch_from_the_mirror(spec_cli: SpecCli) -> None:
    spec_cli("run", "--estimate").fails(
        4,
        "before 1.61 GB are fetched from the mirror",
        "hint: run `spec-cli pull Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF:Q4_K_M` and ",
    )


def test_an_estimate_of_what_does_not_fit_is_printed_and_fails(call: Call, models: Models) -> None:
    run = call("run", "--estimate", *models.pair, *TOO_LARGE)
    assert run.exit_code == 6
    assert run.stdout.decode().endswith("\ndoes not fit\n")
    assert run.stderr.startswith("error: the two models need ")
    as_json = call("run", "--estimate", "--json", *models.pair, *TOO_LARGE)
    assert (as_json.exit_code, as_json.json["fits"]) == (6, False)


def test_a_context_that_no_machine_holds_is_refused_at_once(call: Call, models: Models) -> None:
    call("run", "hi", "-n", "1", *models.pair, *TOO_LARGE).fails(
        6,
        "GB of RAM",
        "KV cache",
        "can be used",
        "hint: use a smaller `--ctx-size` (",
        "`--no-draft`",
    )


def test_an_estimate_is_not_put_into_the_file_of_an_answer(
    call: Call, models: Models, tmp_path: Path
) -> None:
    for option in ("--output", "--trace", "--prompt-cache"):
        run = call("run", "-m", models.target, "--estimate", option, tmp_path / "answer")
        run.fails(2, f"--estimate and {option} exclude each other")


def test_an_estimate_has_no_events(call: Call, models: Models) -> None:
    call("run", "--estimate", "--jsonl", *models.pair).fails(2, "--estimate", "--jsonl")


def test_devices_are_listed_with_the_one_that_is_used(call: Call) -> None:
    run = call("devices")
    assert (run.exit_code, run.stderr) == (0, "")
    lines = run.stdout.decode().splitlines()
    assert re.match(r"llama-cpp-python [\d.]+, backends: .*CPU", lines[0])
    assert sum(line.startswith("*") for line in lines) >= 1
    cpu = next(line for line in lines if " cpu " in line)
    assert re.search(r"[\d.]+ GB  [\d.]+ GB", cpu)


def test_devices_as_json_name_kind_and_memory(call: Call) -> None:
    found = call("devices", "--json").json
    assert found["schema"] == "spec-cli/devices/1"
    cpu = next(device for device in found["devices"] if device["kind"] == "cpu")
    assert 0 < cpu["free_bytes"] <= cpu["total_bytes"]
    assert [d["default"] for d in found["devices"]].count(True) >= 1


def test_a_gpu_that_the_build_does_not_use_is_said_once_with_what_to_type(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices_command, "unused_gpu", lambda: "an NVIDIA GPU")
    monkeypatch.setattr(devices_command, "list_devices", lambda: [device("CPU", "cpu")])
    text = call("devices").stdout.decode()
    assert text.count("NVIDIA") == 1
    assert "SPEC_CLI_BACKEND=cuda make setup" in text
    monkeypatch.setattr(devices_command, "list_devices", lambda: [device("CUDA0", "gpu")])
    assert "NVIDIA" not in call("devices").stdout.decode()


def device(name: str, kind: str) -> Device:
    return Device(name, f"a {kind}", kind, 10**9, 2 * 10**9, handle=1)


def test_a_check_up_tells_what_a_bug_report_should(
    call: Call, models: Models, tmp_path: Path
) -> None:
    variables = {
        "HF_TOKEN": "hf_secret",
        "HF_HUB_URL": "http://hub/?token=sesame",
        "OMP_NUM_THREADS": "3",
        "XDG_STATE_HOME": str(tmp_path),
    }
    run = call("doctor", *models.pair, env=variables)
    text = run.stdout.decode()
    assert run.exit_code == 0
    assert re.search(rf"spec-cli +{re.escape(__version__)}\n", text)
    for title in ("versions", "llama.cpp", "devices", "threads", "files", "environment"):
        assert f"{title}\n  " in text
    assert re.search(r"vocabulary +shared: 320 tokens", text)
    assert re.search(r"exactness +not measured yet", text)
    assert re.search(r"HF_TOKEN +set\n", text)
    assert "hf_secret" not in text and "sesame" not in text
    assert "OMP_NUM_THREADS is 3" in text and "`--threads N`" in text


def test_a_check_up_does_not_tell_whose_machine_it_is(spec_cli: SpecCli, models: Models) -> None:
    text = spec_cli("doctor", *models.pair).stdout.decode()
    assert str(spec_cli.home) not in text
    assert "~/hf" in text


def section_of_pair(run: Done) -> dict[str, str]:
    sections = run.json["sections"]
    return next(rows for title, rows in sections.items() if title.startswith("pair "))


def test_a_check_up_can_measure_the_pair(call: Call, models: Models, tmp_path: Path) -> None:
    state = {"XDG_STATE_HOME": str(tmp_path)}
    run = call("doctor", *models.pair, "--measure", "--json", env=state)
    assert (run.exit_code, run.json["ok"]) == (0, True)
    pair = section_of_pair(run)
    assert re.match(r"bit-exact|fast", pair["exactness"])
    assert re.match(r"a plain step takes \d+ ms, a pass", pair["costs"])
    assert pair["a guess"].endswith("with its own file")
    known = section_of_pair(call("doctor", *models.pair, "--json", env=state))
    assert known["exactness"] == pair["exactness"]


def test_a_pair_that_cannot_run_fails_the_check(call: Call, models: Models) -> None:
    run = call("doctor", "-m", models.target, "-d", models.foreign)
    assert run.exit_code == 7
    assert "FAILED: foreign.gguf does not share the vocabulary" in run.stdout.decode()
    assert run.stderr.startswith("error: foreign.gguf does not share")


def test_a_file_that_is_no_model_fails_the_check(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"no model")
    run = call("doctor", "-m", path, "--json")
    assert (run.exit_code, run.json["ok"]) == (7, False)
    assert run.json["findings"][0]["failed"]


NOT_KEPT = "note: what is measured and learned here is not kept for later runs: cannot write to "


@pytest.fixture
def no_state(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_text("")
    return {"XDG_STATE_HOME": str(tmp_path / "file")}


def test_what_cannot_be_kept_is_said_once_and_the_run_goes_on(
    call: Call, models: Models, no_state: dict[str, str]
) -> None:
    words = ("run", "hi", "-n", "4", "--temp", "0", *models.pair)
    kept, run = call(*words), call(*words, env=no_state)
    assert (run.exit_code, run.stdout) == (0, kept.stdout)
    (note,) = [line for line in run.stderr.splitlines() if "not kept" in line]
    assert note.startswith(NOT_KEPT) and "`XDG_STATE_HOME`" in note
    assert "not kept" not in call(*words, "-q", env=no_state).stderr + kept.stderr


def test_what_cannot_be_kept_is_said_beside_json_and_many_answers(
    call: Call, models: Models, no_state: dict[str, str]
) -> None:
    one = call("run", "hi", "-n", "4", "--json", *models.pair, env=no_state)
    assert one.json["schema"] and one.stderr.count("not kept") == 1
    words = ("run", "--input", "-", "-n", "4", *models.pair)
    many = call(*words, stdin=b'{"prompt": "a"}\n{"prompt": "b"}\n', env=no_state)
    assert (many.exit_code, len(many.events)) == (0, 2)
    assert many.stderr.count("not kept") == 1
    chat = call("chat", "-n", "4", *models.pair, stdin=b"a\nb\n", env=no_state)
    assert (chat.exit_code, chat.stderr.count("not kept")) == (0, 1)


def test_a_check_up_says_what_cannot_be_kept(
    call: Call, models: Models, no_state: dict[str, str]
) -> None:
    text = call("doctor", *models.pair, "--measure", env=no_state).stdout.decode()
    assert text.count(NOT_KEPT) == 1


def test_a_pair_that_is_not_cached_is_a_note_with_what_to_type(spec_cli: SpecCli) -> None:
    run = spec_cli("doctor", "--json")
    assert run.exit_code == 0
    hints = [finding["hint"] for finding in run.json["findings"]]
    assert "`spec-cli pull qwen2.5-coder-1.5b`" in hints
    offline = spec_cli("doctor", env={"HF_HUB_OFFLINE": "1"})
    assert offline.exit_code == 7


@pytest.mark.parametrize(
    "args", [("run", "--estimate", "--json"), ("devices", "--json"), ("doctor", "--json")]
)
def test_every_field_of_an_object_is_documented(
    call: Call, models: Models, args: tuple[str, ...]
) -> None:
    value = call(*args, *(() if args[0] == "devices" else models.pair)).json
    text = (Path(__file__).parents[2] / "docs" / "machine.md").read_text(encoding="utf-8")
    table = text.partition(f'"{value["schema"]}"')[2].partition("\n\n")[0]
    missing = {name for name in _fields(value) if f"`{name}" not in table}
    assert missing == {"schema"}  # it stands before the part that was cut out


def _fields(value: object) -> set[str]:
    """The names in an object that are fixed: those of places and sections are not."""
    if isinstance(value, list):
        return set().union(*map(_fields, value)) if value else set()
    if not isinstance(value, dict):
        return set()
    inner = [v for k, v in value.items() if k != "sections"]
    names = {name for name in value if name != "RAM"}
    return names.union(*map(_fields, inner))
