"""Set-up: the environment is made once, the wheel is built once, nothing half made stays."""

from __future__ import annotations

import ast
import dataclasses
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import bootstrap
import llama_wheel
import shell
from llama_wheel import Build, cached_wheel
from shell import Console, SetupError, Shell

ROOT = bootstrap.ROOT
BUILD = Build("0.3.36", "cpu", ("-DGGML_NATIVE=ON",), ("set(A OFF)", "// b"), ("linux", "avx avx2"))


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def quiet_shell(directory: Path, **environ: str) -> Shell:
    console = Console(io.StringIO(), animate=False, clock=Clock())
    return Shell(directory, {"PATH": os.environ["PATH"], **environ}, directory / "log", console)


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


# The interpreter


def test_old_python_is_told_what_to_do_instead_of_a_traceback() -> None:
    pretend = (
        "import runpy, sys; sys.version_info = (3, 10, 4, 'final', 0);"
        f"runpy.run_path({str(ROOT / 'scripts/bootstrap.py')!r})"
    )
    done = subprocess.run([sys.executable, "-c", pretend], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "error: spec-cli needs Python 3.11 or newer, and this is 3.10\n"
        "hint: name a newer one: `make setup PYTHON=python3.12`\n"
    )


def test_python_3_6_can_read_as_far_as_the_version_check() -> None:
    ast.parse((ROOT / "scripts/bootstrap.py").read_text(), feature_version=(3, 6))


# Which build


@pytest.mark.parametrize(
    "change",
    [
        {"version": "0.3.37"},
        {"backend": "metal"},
        {"options": ("-DGGML_NATIVE=ON", "-DGGML_LTO=ON")},
        {"prelude": ("set(A OFF)", "// c")},
        {"machine": ("linux", "avx")},
    ],
)
def test_wheel_is_not_reused_when_its_machine_code_could_differ(change: dict[str, object]) -> None:
    assert dataclasses.replace(BUILD, **change).key != BUILD.key  # type: ignore[arg-type]
    assert dataclasses.replace(BUILD).key == BUILD.key


@pytest.mark.parametrize("name", ["flags\t\t", "Features\t", "isa\t\t"])
def test_cpu_flags_are_those_of_the_first_processor_in_any_order(name: str) -> None:
    cpuinfo = ["processor\t: 0\n", f"{name}: sse avx2 avx\n", "\n", f"{name}: other\n"]
    assert llama_wheel.cpu_flags(cpuinfo) == "avx avx2 sse"


def test_this_machine_has_instruction_sets() -> None:
    assert llama_wheel.this_machine()[-1]


@pytest.mark.parametrize(
    ("wish", "system", "has_cuda", "backend"),
    [
        ("auto", "Linux", False, "cpu"),
        ("auto", "Linux", True, "cuda"),
        ("auto", "Darwin", False, "metal"),
        ("cpu", "Linux", True, "cpu"),
        ("cpu", "Darwin", False, "cpu"),
        ("cuda", "Linux", False, "cuda"),
    ],
)
def test_backend_is_the_wish_or_the_best_there_is(
    wish: str, system: str, has_cuda: bool, backend: str
) -> None:
    assert llama_wheel.choose_backend(wish, has_cuda=has_cuda, system=system) == backend


def test_unknown_backend_is_refused_with_the_choices() -> None:
    with pytest.raises(SetupError) as caught:
        llama_wheel.choose_backend("vulkan", has_cuda=False)
    assert caught.value.message == "unknown backend: vulkan"
    assert caught.value.hint == "`SPEC_CLI_BACKEND` takes auto, cpu, cuda, metal"


def test_nvcc_without_a_driver_is_not_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path / "nvcc", "#!/bin/sh\necho release 13.0\n")
    assert llama_wheel.cuda_toolchain(os.environ) == ()
    script(tmp_path / "nvidia-smi", "#!/bin/sh\necho no driver\nexit 9\n")
    assert llama_wheel.cuda_toolchain(os.environ) == ()


def test_cuda_wheels_are_for_one_toolkit_and_one_kind_of_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path / "nvcc", "#!/bin/sh\necho release 13.0\n")
    script(tmp_path / "nvidia-smi", "#!/bin/sh\necho 9.0\necho 8.6\necho 9.0\n")
    build = llama_wheel.plan("0.3.36", {"PATH": str(tmp_path)}, ("linux",))
    assert build.machine == ("linux", "release 13.0", "8.6", "9.0")
    assert "-DGGML_CUDA=ON" in build.options


def test_cmake_args_of_the_user_come_last_and_change_the_key() -> None:
    environ = {"SPEC_CLI_BACKEND": "cpu"}
    plain = llama_wheel.plan("0.3.36", environ, ())
    wished = llama_wheel.plan("0.3.36", {**environ, "CMAKE_ARGS": "-DA='b c' -DD=e"}, ())
    assert wished.options == (*plain.options, "-DA=b c", "-DD=e")
    assert wished.key != plain.key


# The cached wheel


def leave_wheel(work: Path) -> None:
    (work / "out").mkdir()
    (work / "out/llama.whl").write_text("code")
    (work / "object.o").write_text("much")


def never(work: Path) -> None:
    raise AssertionError("built again")


def test_wheel_is_built_once_and_only_it_stays(tmp_path: Path) -> None:
    wheel = cached_wheel(tmp_path / "wheels", BUILD, leave_wheel)
    assert wheel.read_text() == "code"
    assert cached_wheel(tmp_path / "wheels", BUILD, never) == wheel
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [wheel]


@pytest.mark.parametrize("reason", [KeyboardInterrupt, SystemExit, SetupError])
def test_interrupted_build_leaves_nothing(tmp_path: Path, reason: Callable[..., object]) -> None:
    def interrupted(work: Path) -> None:
        leave_wheel(work)
        raise reason("now")  # type: ignore[misc]

    with pytest.raises(reason):  # type: ignore[call-overload]
        cached_wheel(tmp_path, BUILD, interrupted)
    assert list(tmp_path.iterdir()) == []
    assert cached_wheel(tmp_path, BUILD, leave_wheel).exists()


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".build-killed/out").mkdir(parents=True)
    wheel = cached_wheel(tmp_path, BUILD, leave_wheel)
    assert list(tmp_path.iterdir()) == [wheel.parent]


def test_build_tells_pip_and_cmake_all_that_matters(tmp_path: Path) -> None:
    python = script(
        tmp_path / "python",
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "json.dump([sys.argv, dict(os.environ)], open('told', 'w'))\n",
    )
    work = tmp_path / "wo rk"
    work.mkdir()
    llama_wheel.build_wheel(quiet_shell(tmp_path, CXX="sh -c"), python, BUILD, work)
    argv, environ = json.loads((tmp_path / "told").read_text())
    assert argv[argv.index("--wheel-dir") + 1] == str(work / "out")
    assert argv[argv.index("--no-binary") + 1] == "llama-cpp-python"
    assert argv[-1] == "llama-cpp-python==0.3.36"
    assert "--no-cache-dir" in argv
    *options, include = shlex.split(environ["CMAKE_ARGS"])
    assert tuple(options) == BUILD.options
    name, _, prelude = include.partition("=")
    assert name == "-DCMAKE_PROJECT_llama_cpp_INCLUDE"
    assert Path(prelude).read_text() == "set(A OFF)"
    assert (work / "llama_amx.h").read_text() == "// b"
    assert environ["TMPDIR"] == str(work)
    assert int(environ["CMAKE_BUILD_PARALLEL_LEVEL"]) >= 1


def test_missing_compiler_is_noticed_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path / "apt-get", "#!/bin/sh\n")
    with pytest.raises(SetupError, match="a C\\+\\+ compiler was not found") as caught:
        llama_wheel.build_wheel(quiet_shell(tmp_path), tmp_path / "python", BUILD, tmp_path)
    assert caught.value.hint == "install one: `sudo apt install build-essential`"
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("backend", "n_cores", "text"),
    [
        ("cpu", 1, "about 6 minutes on 1 core"),
        ("cpu", 4, "about 2 minutes on 4 cores"),
        ("cpu", 64, "about 1 minute on 64 cores"),
        ("cuda", 2, "several minutes on 2 cores"),
    ],
)
def test_build_time_is_estimated_from_the_cores(backend: str, n_cores: int, text: str) -> None:
    assert llama_wheel.estimate(backend, n_cores) == text


# Commands and what is shown of them


def test_failed_command_is_shown_with_the_end_of_its_log_and_a_cause(tmp_path: Path) -> None:
    output = io.StringIO()
    console = Console(output, animate=False, clock=Clock())
    with pytest.raises(SetupError) as caught:
        quiet_shell(tmp_path).run(
            "building",
            *("sh", "-c", "seq 1 30; echo No CMAKE_CXX_COMPILER could be found >&2; exit 3"),
        )
    console.fail(caught.value)
    lines = output.getvalue().splitlines()
    assert lines[:15] == [f"  {n}" for n in range(17, 31)] + [
        "  No CMAKE_CXX_COMPILER could be found"
    ]
    assert lines[15] == "error: building failed"
    assert lines[16].startswith("hint: a C++17 compiler is needed: ")
    assert lines[17] == f"log: {tmp_path / 'log'}"


def test_command_sees_the_extra_environment_and_no_stdin(tmp_path: Path) -> None:
    shell_ = quiet_shell(tmp_path, A="old", B="kept")
    shell_.run("asking", "sh", "-c", "echo $A $B; cat; pwd", extra={"A": "new"})
    assert (tmp_path / "log").read_text().split() == ["new", "kept", str(tmp_path)]


def test_interrupt_ends_all_that_the_command_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)

    class Impatient(Console):
        def progress(self, steps: str) -> None:
            try:
                os.read(held, 1)
            except BlockingIOError:  # the grandchild holds the other end
                raise KeyboardInterrupt from None

    console = Impatient(io.StringIO(), animate=False, clock=Clock())
    shell_ = dataclasses.replace(quiet_shell(tmp_path), console=console)
    with pytest.raises(KeyboardInterrupt):
        shell_.run("waiting", "sh", "-c", "sleep 600 > held & wait")
    assert os.read(held, 1) == b""  # nobody does
    os.close(held)


def test_log_has_a_line_each_half_minute_without_a_terminal() -> None:
    clock, output = Clock(), io.StringIO()
    console = Console(output, animate=False, clock=clock)
    console.say("building")
    for _ in range(65):
        clock.now_s += 1
        console.progress("[5/87]")
    console.erase()
    assert output.getvalue() == ("setup: building\nsetup:   30s [5/87]\nsetup:   1m00s [5/87]\n")


def test_terminal_has_one_line_that_is_redrawn_and_goes_away() -> None:
    clock, output = Clock(), io.StringIO()
    console = Console(output, animate=True, clock=clock)
    console.say("building")
    clock.now_s += 75
    console.progress("[5/87]")
    console.erase()
    assert output.getvalue() == "setup: building\n\r\x1b[Ksetup:   1m15s [5/87]\r\x1b[K"


@pytest.mark.parametrize(
    ("log", "steps"),
    [
        ("Collecting [x]\n", ""),
        ("  [1/87] cc a.c\n  [2/87] cc b.c -o [9/9]\n", "[2/87]"),
    ],
)
def test_build_steps_are_ninjas_latest(log: str, steps: str) -> None:
    assert shell.build_steps(log) == steps


@pytest.mark.parametrize(
    ("log", "hint"),
    [
        ("created because ensurepip is not\navailable.  On Debian", "python3-venv"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "PARALLEL_LEVEL=1"),
        ("nvcc fatal   : Unsupported gpu architecture", "SPEC_CLI_BACKEND=cpu"),
        ("  No CMAKE_C_COMPILER could be found", "C++17 compiler"),
        ("error: write failed: No space left on device", "disk space"),
        ("[Errno -3] Temporary failure in name resolution", "network"),
        ("ERROR: No matching distribution found for x", "network"),
    ],
)
def test_usual_causes_are_recognised(log: str, hint: str) -> None:
    assert hint in (shell.usual_cause(log) or "")


def test_unusual_causes_are_not_guessed() -> None:
    assert shell.usual_cause("a.cpp:1: error: expected ';'") is None


def test_report_that_pip_adds_is_not_what_is_shown() -> None:
    log = (
        "\n  a.cpp:1: error: " + "x" * 200 + "\n\n  error: subprocess-exited-with-error\n  boring\n"
    )
    assert shell.last_lines(log, 15) == "  " + ("a.cpp:1: error: " + "x" * 200)[:160]


def test_second_set_up_waits_for_the_first(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with shell.exclusive(tmp_path / "cache/lock", waiting.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with shell.exclusive(tmp_path / "cache/lock", never_waits):
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def never_waits() -> None:
    raise AssertionError("the lock is free")


# The environment


def test_environment_is_current_only_while_its_recipe_holds(tmp_path: Path) -> None:
    assert not bootstrap.is_made_from(tmp_path, "recipe")
    (tmp_path / "bin").mkdir()
    (tmp_path / ".setup").write_text("recipe")
    (tmp_path / "bin/python").symlink_to(tmp_path / "gone")
    assert not bootstrap.is_made_from(tmp_path, "recipe")
    (tmp_path / "gone").touch()
    assert bootstrap.is_made_from(tmp_path, "recipe")
    assert not bootstrap.is_made_from(tmp_path, "another recipe")


def test_recipe_holds_the_place_the_machine_the_wishes_and_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = {bootstrap.recipe({}, ("avx",)), bootstrap.recipe({}, ("avx2",))}
    recipes.add(bootstrap.recipe({"SPEC_CLI_BACKEND": "cpu"}, ("avx",)))
    recipes.add(bootstrap.recipe({"CMAKE_ARGS": "-DA=b"}, ("avx",)))
    for name in bootstrap.INPUTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    recipes.add(bootstrap.recipe({}, ("avx",)))
    for name in bootstrap.INPUTS:
        (tmp_path / name).write_text("changed")
        recipes.add(bootstrap.recipe({}, ("avx",)))
    assert len(recipes) == 5 + len(bootstrap.INPUTS)
    assert bootstrap.recipe({"HOME": "/"}, ("avx",)) in recipes


def test_settings_of_the_users_pip_are_kept() -> None:
    environ = bootstrap.pip_environ({"PIP_INDEX_URL": "mine", "PIP_CONSTRAINT": "mine.txt"})
    assert environ["PIP_INDEX_URL"] == "mine"
    assert environ["PIP_CONSTRAINT"] == "mine.txt constraints.txt"
    assert bootstrap.pip_environ({})["PIP_CONSTRAINT"] == "constraints.txt"


@pytest.mark.parametrize(
    ("environ", "system", "path"),
    [
        ({"XDG_CACHE_HOME": "/x"}, "Linux", Path("/x/spec-cli")),
        ({"XDG_CACHE_HOME": ""}, "Linux", Path.home() / ".cache/spec-cli"),
        ({}, "Darwin", Path.home() / "Library/Caches/spec-cli"),
    ],
)
def test_cache_is_where_the_system_keeps_caches(
    environ: dict[str, str], system: str, path: Path
) -> None:
    assert bootstrap.cache_dir(environ, system) == path


def test_lock_holds_every_direct_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    lock = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lock if "==" in line}
    assert {re.split(r"[\[<>=~!;]", line)[0] for line in wanted} <= pinned
    llama = bootstrap.pinned_llama((ROOT / "pyproject.toml").read_text())
    assert f"llama-cpp-python=={llama}" in lock


# The Makefile


def make(directory: Path, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-f", str(ROOT / "Makefile"), "PYTHON=true", *argv]
    environ = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    tell = f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open('told', 'w'))\n"
    script(tmp_path / ".venv/bin/spec-cli", tell)
    return tmp_path


@pytest.mark.parametrize(
    "prompt",
    [
        "two words",
        """it's "quoted" and `ticked`""",
        "costs $5, $$6, $HOME and $(shell touch ran) ${PATH}",
        "-5 + 3?",
        "back\\slash \\n # not a comment; no end && true | false",
        "first line\nsecond line",
        "50 % of ü and 日本",
        "a = b := c",
    ],
)
def test_prompt_reaches_the_command_as_it_was_typed(checkout: Path, prompt: str) -> None:
    done = make(checkout, "run", f"PROMPT={prompt}", "ARGS=--seed 1")
    assert done.returncode == 0, done.stderr
    told = json.loads((checkout / "told").read_text())
    assert told == ["run", "--seed", "1", "--", prompt]
    assert not (checkout / "ran").exists()


def test_prompt_of_the_users_shell_is_not_the_prompt_of_the_model(checkout: Path) -> None:
    assert make(checkout, "run", PROMPT="%n@%m").returncode == 0
    *_, prompt = json.loads((checkout / "told").read_text())
    assert prompt.startswith("Write a Python function")


def test_make_alone_prints_help_and_does_nothing(checkout: Path) -> None:
    done = make(checkout)
    assert "make run" in done.stdout and "make test" in done.stdout
    assert not (checkout / "told").exists()
