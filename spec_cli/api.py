"""The Python API: open a session by the name of a model, and get text from it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Self, Unpack

from spec_cli import download
from spec_cli.api_options import (
    GenerationOptions,
    SessionOptions,
    StreamOptions,
    TemplateOptions,
    generation_settings,
    parted,
    session_settings,
)
from spec_cli.download import Progress
from spec_cli.encoding import EncodedPrompt, encode_chat, template_for
from spec_cli.errors import SpecError, UsageError
from spec_cli.events import (
    Event,
    Finished,
    FinishReason,
    Notice,
    ReasoningDelta,
    ScoredToken,
    TextDelta,
    TokensScored,
)
from spec_cli.interrupt import CtrlC
from spec_cli.loader import Environment
from spec_cli.modelref import Pair
from spec_cli.pairs import LocalPair, choose_pair
from spec_cli.places import copies_dir, state_dir
from spec_cli.prompt import NO_VARIABLES, Message, check_text, raw_tokens
from spec_cli.registry import load_registry
from spec_cli.session import Session
from spec_cli.settings import GenerationSettings, SessionSettings
from spec_cli.spec.stats import RunStats
from spec_cli.state import StateStore
from spec_cli.text import NO_OPENING

__all__ = ["Answer", "Message", "SpecError", "TextSession", "TextStream", "open_session"]

_log = logging.getLogger(__name__)

OnProgress = Callable[[str, float | None], None]
"""Told what is being done, and how much of it: a fraction, None where that is not known."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a generation gave.

    `text` is the answer, a prefill included; `reasoning` is what the model thought before it, empty
    where it did not or has no known marks for that. `tokens` are all ids of both, an
    end-of-generation token included; `stop` is the stop string that ended it, if one did; `seed`
    gives the same text again. `logprobs` scores each token where `n_logprobs` was given; see
    `ScoredToken`.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    stop: str | None
    seed: int
    stats: RunStats
    logprobs: tuple[ScoredToken, ...] = ()
    reasoning: str = ""


class TextStream(Iterator[str]):
    """The answer of one generation, piece by piece, each the moment it is final.

    What the model thinks before it answers is not among the pieces; see `reasoning`. The next
    generation of the same session ends it, as `TextSession.close` does.
    """

    def __init__(self, events: Iterator[Event], seed: int) -> None:
        self._events, self._seed = events, seed
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._scores: list[ScoredToken] = []
        self._finished: Finished | None = None

    def __next__(self) -> str:
        """Raises a SpecError, also when another generation has ended it, or KeyboardInterrupt."""
        for event in self._events:
            if isinstance(event, TextDelta) and event.text:
                self._pieces.append(event.text)
                return event.text
            if isinstance(event, ReasoningDelta):
                self._thoughts.append(event.text)
            if isinstance(event, TokensScored):
                self._scores += event.tokens
            if isinstance(event, Finished):
                self._finished = event
        if self._finished is None:
            raise UsageError(
                "the stream was ended by an error, the session's next generation or its close"
            )
        raise StopIteration

    @property
    def reasoning(self) -> str:
        """What the model has thought so far; all of it once the answer has begun."""
        return "".join(self._thoughts)

    @property
    def answer(self) -> Answer:
        """The whole. Raises UsageError before the stream has been read to its end."""
        end = self._finished
        if end is None:
            raise UsageError("the stream has not been read to its end")
        return Answer(
            text="".join(self._pieces),
            tokens=end.tokens,
            finish_reason=end.reason,
            stop=end.stop,
            seed=self._seed,
            stats=end.stats,
            logprobs=tuple(self._scores),
            reasoning=self.reasoning,
        )

    def read(self) -> Answer:
        """Read the rest of the stream, and give the whole."""
        for _ in self:
            pass
        return self.answer


class TextSession:
    """A loaded pair of models. Use it as a context manager, from one thread at a time.

    A `str` prompt is continued as it is; control tokens that it spells count. Messages are put
    into the model's chat template, and their text stays text.
    """

    def __init__(self, files: LocalPair, settings: SessionSettings, progress: OnProgress) -> None:
        """See `open_session`, which makes one."""
        self._ctrl_c = CtrlC()
        self._events: Generator[Event] | None = None
        self._is_open = True
        environment = Environment(
            state=StateStore(state_dir()),
            clock=time.perf_counter,
            cancelled=self._ctrl_c,
            notify=_log_notice,
            progress=progress,
            copies=copies_dir(),
        )
        draft = files.draft.path if files.draft else None
        with self._ctrl_c:
            self._session = Session(files.target.path, draft, settings, environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the models."""
        self._is_open = False
        self._end_stream()
        self._session.close()

    def complete(self, prompt: str, **options: Unpack[GenerationOptions]) -> Answer:
        """Continue `prompt`. Raises what `stream` raises."""
        return self.stream(prompt, **options).read()

    def chat(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Answer:
        """The assistant's next turn after `messages`. Raises what `stream` raises."""
        if isinstance(messages, str):  # which `stream` would continue
            hint = '`complete` continues a text; a message is `Message("user", text)`'
            raise UsageError("`chat` takes a list of messages, not a text", hint=hint)
        return self.stream(messages, **options).read()

    def stream(
        self, prompt: str | Sequence[Message], **options: Unpack[StreamOptions]
    ) -> TextStream:
        """The text that comes after `prompt`, as it is generated.

        Raises UsageError for an option or a prompt that cannot be used, ModelError for a model
        that cannot, ResourceError when memory runs out.
        """
        if not self._is_open:
            raise UsageError("the session is closed")
        of_template, others = parted(options)
        generation = generation_settings(others)
        self._end_stream()
        with self._ctrl_c:
            encoded = self._encode(prompt, of_template)
            self._session.prepare(len(encoded.tokens), generation.max_tokens)
        self._events = self._generate(encoded, generation)
        return TextStream(self._events, generation.seed)

    def _end_stream(self) -> None:
        """The context is needed: the generation that had it must not go on."""
        if self._events is not None:
            self._events.close()

    def _encode(self, prompt: str | Sequence[Message], options: TemplateOptions) -> EncodedPrompt:
        model = self._session.model
        if isinstance(prompt, str):
            if options:
                names = ", ".join(f"`{name}`" for name in options)
                raise UsageError(f"a text is continued as it is: {names} is for messages")
            tokens = raw_tokens(model, check_text(prompt, "the prompt"), bos_token=model.bos_text)
            return EncodedPrompt(tokens, prompt, NO_OPENING)
        for message in prompt:
            check_text(message.content, "a message")
        template = template_for(
            model,
            self._session.target_header.chat_template,
            None,
            datetime.now(),
            variables=options.get("template_vars", NO_VARIABLES),
            think=options.get("think"),
        )
        given = check_text(options.get("prefill", ""), "the prefill")
        return encode_chat(model, template, prompt, given, cancelled=self._ctrl_c)

    def _generate(self, prompt: EncodedPrompt, generation: GenerationSettings) -> Generator[Event]:
        events = self._session.generate(prompt.tokens, generation, opening=prompt.opening)
        while True:
            with self._ctrl_c:
                event = next(events, None)
            if event is None:
                return
            yield event


def open_session(
    model: str | Path | None = None,
    *,
    draft: str | Path | None = None,
    offline: bool = False,
    progress: OnProgress | None = None,
    **options: Unpack[SessionOptions],
) -> TextSession:
    """Load a model, with the draft model that goes with it.

    `model` and `draft` are named as on the command line: a pair of `spec-cli models`,
    `user/repo:QUANT`, `hf://user/repo/x.gguf` or a path; a `Path` is always that of a file. None
    is the default pair, and its draft; `"none"` is no draft model. What is not on this machine is
    downloaded, unless `offline`.

    Raises a SpecError: UsageError, ModelError, DownloadError, PairError or ResourceError. What
    the user should know besides is logged by the logger `spec_cli.api`.
    """
    report = progress or (lambda _what, _fraction: None)
    settings = session_settings(options)
    pair = choose_pair(load_registry(), _spelled(model), _spelled(draft), settings.drafter)
    if "draft_tokens" not in options:
        settings = replace(settings, draft_tokens=pair.draft_tokens)
    return TextSession(_fetch(pair, report, offline=offline), settings, report)


def _spelled(name: str | Path | None) -> str | None:
    """A name as on the command line, where `user/repo` is no path, but `./user/repo` is."""
    if isinstance(name, Path) and not str(name).startswith((".", "/", "~")):
        return f"./{name}"
    return None if name is None else str(name)


def _fetch(pair: Pair, report: OnProgress, *, offline: bool) -> LocalPair:
    def tell(progress: Progress) -> None:
        report(f"downloading {progress.name}", progress.done_bytes / progress.total_bytes)

    refs = [pair.target] if pair.draft is None else [pair.target, pair.draft]
    target, *draft = download.fetch(download.plan(refs, offline=offline), tell)
    return LocalPair(target, draft[0] if draft else None)


def _log_notice(notice: Notice) -> None:
    level = logging.WARNING if notice.level == "warning" else logging.INFO
    _log.log(level, "%s", f"{notice.message}; {notice.hint}" if notice.hint else notice.message)
