"""The Python API on a tiny pair: what it gives, what it refuses, and the examples of the docs."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import spec_cli
from spec_cli import Message, SpecError, TextSession, open_session
from spec_cli.api_options import GenerationOptions, SessionOptions, StreamOptions
from spec_cli.errors import DownloadError, ModelError, PairError, UsageError
from spec_cli.events import FinishReason
from spec_cli.grammar.json_schema import schema_to_gbnf
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.spec.settings import SamplingSettings
from tests.tiny_gguf import bpe_vocab, write_tiny_model

DOCS = (Path(spec_cli.__file__).parent.parent / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
PLAIN = {"n_threads": 1, "exact": "off"}  # nothing measured decides a test
PROMPT = "hello there, hello"
NUMBERS = schema_to_gbnf('{"type": "array", "items": {"type": "integer"}, "maxItems": 3}')


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the user's: not its caches, its registry, its state."""
    for kind in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session(tiny_target: Path, tiny_draft: Path) -> Iterator[TextSession]:
    with open_session(tiny_target, draft=tiny_draft, drafter="model", draft_tokens=4, **PLAIN) as s:
        yield s


def test_a_text_is_continued_the_same_with_any_drafter(
    session: TextSession, tiny_target: Path
) -> None:
    answer = session.complete(PROMPT, temp=0, max_tokens=24)
    assert len(answer.tokens) == 24
    assert answer.finish_reason is FinishReason.LENGTH
    assert answer.stats.n_drafted > 0
    with open_session(tiny_target, drafter="none", **PLAIN) as plain:
        again = plain.complete(PROMPT, temp=0, max_tokens=24)
    assert (again.text, again.tokens) == (answer.text, answer.tokens)
    assert again.stats.n_drafted == 0


def test_the_pieces_of_a_stream_are_the_text_of_the_answer(session: TextSession) -> None:
    stream = session.stream(PROMPT, seed=3, max_tokens=24)
    pieces = list(stream)
    assert len(pieces) > 1 and all(pieces)
    assert stream.answer.text == "".join(pieces)
    assert stream.answer.tokens == session.complete(PROMPT, seed=3, max_tokens=24).tokens


def test_the_seed_that_was_drawn_gives_the_text_again(session: TextSession) -> None:
    answers = [session.complete(PROMPT, max_tokens=24) for _ in range(3)]
    assert len({answer.seed for answer in answers}) > 1
    again = session.complete(PROMPT, max_tokens=24, seed=answers[0].seed)
    assert again.tokens == answers[0].tokens
    assert session.complete(PROMPT, max_tokens=1, seed=0).seed == 0
    drawn = [session.complete(PROMPT, max_tokens=1, seed=None).seed for _ in range(3)]
    assert len(set(drawn)) > 1


def test_messages_go_through_the_chat_template_and_stay_text(session: TextSession) -> None:
    rendered = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    chat = session.chat([Message("user", "hello")], temp=0, max_tokens=8)
    assert chat.tokens == session.complete(rendered, temp=0, max_tokens=8).tokens
    spelled = session.chat([Message("user", "hello<|im_end|>")], temp=0, max_tokens=8)
    assert spelled.stats.n_prompt > chat.stats.n_prompt + 1


def test_a_stop_string_may_be_given_by_itself(session: TextSession) -> None:
    text = session.complete(PROMPT, temp=0, max_tokens=24).text
    for stop in (text[4:7], [text[4:7]]):
        answer = session.complete(PROMPT, temp=0, max_tokens=24, stop=stop)
        assert answer.stop == text[4:7]
        assert text.startswith(answer.text) and answer.stop not in answer.text


def test_an_answer_is_there_only_when_the_stream_has_been_read(session: TextSession) -> None:
    stream = session.stream(PROMPT, max_tokens=24)
    next(stream)
    with pytest.raises(UsageError, match="not been read"):
        _ = stream.answer
    assert stream.read() is not None and len(stream.answer.tokens) == 24


def test_a_stream_that_another_generation_ended_says_so(session: TextSession) -> None:
    stream = session.stream(PROMPT, temp=0, max_tokens=24)
    next(stream)
    whole = session.complete(PROMPT, temp=0, max_tokens=24)
    with pytest.raises(UsageError, match="the session's next generation"):
        next(stream)
    assert session.complete(PROMPT, temp=0, max_tokens=24).tokens == whole.tokens


def test_a_closed_session_is_refused_and_may_be_closed_again(session: TextSession) -> None:
    stream = session.stream(PROMPT)
    session.close()
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.complete(PROMPT)
    with pytest.raises(UsageError, match="its close"):
        next(stream)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temp": -1}, "--temp is -1"),
        ({"max_tokens": -1}, "--max-tokens is -1"),
        ({"accept": "always"}, "accept is `always`, but must be one of `coupled`"),
        ({"stop": ""}, "--stop is empty"),
        ({"grammar": 'root ::= "\ud800"'}, "--grammar is not valid UTF-8"),
    ],
)
def test_options_out_of_range_are_usage_errors(
    session: TextSession, options: GenerationOptions, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        session.complete(PROMPT, **options)


def test_prompts_that_cannot_be_used_are_usage_errors(session: TextSession) -> None:
    for prompt in ("", "\udcff", "x" * 600):
        with pytest.raises(UsageError):
            session.complete(prompt)
    with pytest.raises(UsageError, match="a message is not valid UTF-8 at offset 2"):
        session.chat([Message("user", "hi\udcff")])


def test_a_text_is_no_list_of_messages(session: TextSession) -> None:
    with pytest.raises(UsageError, match="`chat` takes a list of messages"):
        session.chat(PROMPT)  # type: ignore[arg-type]


def test_an_option_that_does_not_exist_is_a_mistake_of_the_program(
    session: TextSession, tiny_target: Path
) -> None:
    with pytest.raises(TypeError, match="tempp"):
        session.complete(PROMPT, tempp=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="n_cpus"):
        open_session(tiny_target, n_cpus=1)  # type: ignore[call-arg]


def test_what_cannot_be_opened_is_a_spec_error(tiny_target: Path, home: Path) -> None:
    with pytest.raises(ModelError, match="`nosuch`"):
        open_session("nosuch")
    with pytest.raises(UsageError, match="drafter is `magic`"):
        open_session(tiny_target, drafter="magic")
    with pytest.raises(DownloadError, match="`--offline`"):
        open_session("user/repo:Q8_0", offline=True)
    with pytest.raises(ModelError, match=r"`user/repo` does not exist"):
        open_session(Path("user/repo"), offline=True)
    foreign = write_tiny_model(home / "foreign.gguf", vocab=bpe_vocab(renamed={40: "zzz"}))
    with pytest.raises(PairError) as error:
        open_session(tiny_target, draft=foreign, **PLAIN)
    assert isinstance(error.value, SpecError) and error.value.hint


def test_names_are_those_of_the_registry_with_the_pairs_draft_length(
    home: Path, tiny_target: Path, tiny_draft: Path
) -> None:
    register(home, tiny_target, tiny_draft, "tiny", "draft_tokens = 3")
    with open_session("tiny", **PLAIN) as session:
        assert len(session.complete(PROMPT, temp=0, max_tokens=24).stats.drafted_at) == 3
    with open_session("tiny", draft_tokens=2, **PLAIN) as session:
        assert len(session.complete(PROMPT, temp=0, max_tokens=24).stats.drafted_at) == 2
    with open_session("tiny", draft="none", drafter="auto", **PLAIN) as session:
        assert session._session.draft_header is None


def test_the_progress_of_loading_is_told(tiny_target: Path) -> None:
    told: list[tuple[str, float | None]] = []
    open_session(tiny_target, progress=lambda *step: told.append(step), **PLAIN).close()
    assert ("loading target.gguf", 1.0) in told


def test_notices_are_logged(tiny_target: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spec_cli.api")
    with open_session(tiny_target, n_ctx=600, **PLAIN) as session:
        session.complete(PROMPT, max_tokens=1)
    assert "600 tokens" in caplog.text


def test_ctrl_c_stops_a_generation_and_the_session_goes_on(session: TextSession) -> None:
    stream = session.stream(PROMPT, temp=0)
    next(stream)
    before = signal.getsignal(signal.SIGINT)
    events = session._session

    class Interrupted:
        def __getattr__(self, name: str) -> object:
            return getattr(events, name)

        def generate(self, *args: object, **named: object) -> Iterator[object]:
            for n, event in enumerate(events.generate(*args, **named)):  # type: ignore[arg-type]
                if n == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                yield event

    session._session = Interrupted()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        session.complete(PROMPT, temp=0)
    session._session = events
    assert signal.getsignal(signal.SIGINT) is before
    assert len(session.complete(PROMPT, temp=0, max_tokens=5).tokens) == 5


def test_a_session_works_in_another_thread(session: TextSession) -> None:
    found: list[int] = []
    work = threading.Thread(
        target=lambda: found.append(len(session.complete(PROMPT, max_tokens=5).tokens))
    )
    work.start()
    work.join()
    assert found == [5]


def test_grammars_biases_and_log_probabilities_are_options(session: TextSession) -> None:
    answer = session.complete(PROMPT, grammar=NUMBERS, seed=4, n_logprobs=2)
    assert all(isinstance(n, int) for n in json.loads(answer.text))
    assert [score.chosen.token for score in answer.logprobs] == list(answer.tokens)
    biased = session.complete(PROMPT, logit_bias={65: 100.0}, max_tokens=3, ignore_eos=True)
    assert biased.tokens == (65, 65, 65) and biased.logprobs == ()
    twice = [(65, 100.0), (66, 60.0), (65, -50.0), (66, 1.0)]
    assert session.complete(PROMPT, logit_bias=twice, max_tokens=1).tokens == (66,)
    thrice = [(65, 60.0), (66, 70.0), (65, 60.0)]
    assert session.complete(PROMPT, logit_bias=thrice, max_tokens=1).tokens == (65,)


def test_the_options_are_the_fields_of_the_settings() -> None:
    assert set(SessionOptions.__annotations__) == {f.name for f in fields(SessionSettings)}
    generation = {f.name for f in (*fields(GenerationSettings), *fields(SamplingSettings))}
    assert set(GenerationOptions.__annotations__) == generation - {"sampling"}


@pytest.mark.parametrize("options", [SessionOptions, StreamOptions])
def test_the_docs_name_every_option(options: type) -> None:
    missing = [n for n in get_type_hints(options) if not re.search(rf"`{n}[`=]", DOCS)]
    assert missing == []


THINKING = (
    "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}"
    "{% if enable_thinking | default(true) %}<think>\n{% else %}answer{% endif %}{{ mood }}"
)


@pytest.fixture
def thinker(tmp_path: Path) -> Iterator[TextSession]:
    """Thinks until it would say `e`, which a bias lets it do soon."""
    vocab = bpe_vocab(renamed={ord("e"): "</think>"})
    path = write_tiny_model(tmp_path / "thinker.gguf", vocab=vocab, chat_template=THINKING)
    with open_session(path, **PLAIN) as session:
        yield session


SOON = {"seed": 3, "temp": 1.5, "max_tokens": 40, "logit_bias": {ord("e"): 4.0}}
HELLO = [Message("user", "hello")]


def test_reasoning_is_apart_from_the_answer_and_from_the_pieces(thinker: TextSession) -> None:
    stream = thinker.stream(HELLO, **SOON)
    first = next(stream)
    reasoning = stream.reasoning
    pieces = [first, *stream]
    assert reasoning and pieces
    assert (stream.answer.text, stream.answer.reasoning) == ("".join(pieces), reasoning)
    answer = thinker.chat(HELLO, **SOON)
    assert (answer.text, answer.reasoning) == (stream.answer.text, reasoning)
    prompt = "user: hello\n<think>\n"
    assert thinker.complete(prompt, **SOON).tokens == answer.tokens
    assert thinker.complete(prompt, **SOON).reasoning == ""


def test_the_template_can_be_told_whether_to_think_and_more(thinker: TextSession) -> None:
    plain = thinker.chat(HELLO, think=False, **SOON)
    assert plain.reasoning == "" and plain.tokens != thinker.chat(HELLO, **SOON).tokens
    switched = thinker.chat(HELLO, template_vars={"enable_thinking": False}, **SOON)
    assert switched.tokens == plain.tokens
    moody = thinker.chat(HELLO, template_vars={"mood": "sad"}, **SOON)
    assert moody.stats.n_prompt > thinker.chat(HELLO, **SOON).stats.n_prompt
    for name in ("weather", "messages"):
        with pytest.raises(UsageError, match=name):
            thinker.chat(HELLO, template_vars={name: 1})


def test_a_prefill_begins_the_answer_and_counts_for_its_grammar(session: TextSession) -> None:
    answer = session.chat(HELLO, prefill="[1", grammar=NUMBERS, seed=4)
    assert answer.text.startswith("[1") and all(isinstance(n, int) for n in json.loads(answer.text))
    with pytest.raises(UsageError, match=re.escape("'x' cannot come after '[1'")):
        session.chat(HELLO, prefill="[1x", grammar=NUMBERS)


@pytest.mark.parametrize("option", [{"think": True}, {"prefill": "x"}, {"template_vars": {}}])
def test_a_text_takes_no_options_of_the_template(
    session: TextSession, option: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="is for messages"):
        session.complete(PROMPT, **option)  # type: ignore[arg-type]


def register(home: Path, target: Path, draft: Path, name: str, extra: str = "") -> None:
    files = f"target = {json.dumps(str(target))}\ndraft = {json.dumps(str(draft))}\n"
    (home / "models.toml").write_text(f'[pairs."{name}"]\n{files}{extra}\n')


def run_python(code: str, home: Path) -> subprocess.CompletedProcess[str]:
    path = str(Path(spec_cli.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_the_examples_of_the_docs_run(
    example: str, home: Path, tiny_target: Path, tiny_draft: Path
) -> None:
    register(home, tiny_target, tiny_draft, "qwen2.5-coder-1.5b")
    done = run_python(example, home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert "error" not in done.stdout.lower()


def test_the_docs_have_three_examples() -> None:
    assert len(EXAMPLES) == 3


def test_importing_the_package_loads_nothing_and_the_api_no_llama_cpp(home: Path) -> None:
    code = "import spec_cli, sys; print(*sorted(m for m in sys.modules if '.' not in m))"
    loaded = set(run_python(code, home).stdout.split())
    assert "spec_cli" in loaded
    assert loaded.isdisjoint({"numpy", "typer", "rich", "llama_cpp", "platformdirs"})
    code = code.replace("import spec_cli, sys", "from spec_cli import open_session; import sys")
    loaded = set(run_python(code, home).stdout.split())
    assert "numpy" in loaded
    assert loaded.isdisjoint({"typer", "rich", "llama_cpp", "huggingface_hub", "jinja2"})


@pytest.mark.parametrize("order", [1, -1])
def test_a_program_can_use_llama_cpp_itself_before_or_after(home: Path, order: int) -> None:
    lines = [
        "from spec_cli.llama.library import library; library().api.llama_backend_init()",
        "import llama_cpp; llama_cpp.Llama, llama_cpp.llama_cpp.llama_backend_init()",
    ]
    done = run_python("\n".join(lines[::order]), home)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_package_has_no_other_attributes_and_is_typed() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = spec_cli.no_such_thing
    assert (Path(spec_cli.__file__).parent / "py.typed").is_file()
    assert all(getattr(spec_cli, name) for name in spec_cli.__all__)
