"""The pair that answers in a chat: loads it, encodes conversations, shows answers."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from spec_cli.arms import Arm
from spec_cli.chat.conversation import Conversation
from spec_cli.chat.fitting import n_reserved, too_long
from spec_cli.chat.settings import ChatSettings
from spec_cli.cli.info import describe
from spec_cli.cli.pairs import LocalPair
from spec_cli.cli.signals import Interrupts, Terminated
from spec_cli.cli.surroundings import surroundings
from spec_cli.errors import UsageError
from spec_cli.events import DraftingOff, Finished, FinishReason, Notice, TextDelta
from spec_cli.prompt import ChatTemplate, Message, chat_tokens, choose_template
from spec_cli.render.base import Renderer
from spec_cli.render.choose import RenderOptions, choose_renderers
from spec_cli.render.info import RunInfo
from spec_cli.render.notices import Notices
from spec_cli.render.status import Status
from spec_cli.render.summary import summary_lines
from spec_cli.session import Session
from spec_cli.settings import (
    AUTO_CTX_ANSWER,
    DrafterKind,
    GenerationSettings,
    SessionSettings,
)
from spec_cli.terminal import Terminal

_LAST_SIGNAL = 3  # an impatient second Ctrl-C must not cost the conversation


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, and how that went."""

    text: str
    finished: Finished
    info: RunInfo
    drafting_off: str | None

    @property
    def n_context(self) -> int:
        """Tokens of the context that prompt and answer take."""
        return self.info.n_prompt + len(self.finished.tokens)

    @property
    def filled_context(self) -> bool:
        """Whether it was cut because the context is full."""
        return self.finished.reason is FinishReason.LENGTH and self.n_context > self.info.n_ctx

    def summary(self) -> list[str]:
        """All figures."""
        return summary_lines(self.info, self.finished, self.drafting_off)


class Speaker:
    """A loaded pair that answers. Owns its session.

    Signals come while models load and while an answer is generated: SIGINT ends what is going on,
    SIGTERM also raises Terminated.
    """

    def __init__(
        self,
        pair: LocalPair,
        settings: SessionSettings,
        chat_template: str | None,
        terminal: Terminal,
        render: RenderOptions,
        now: datetime,
    ) -> None:
        """Load the pair. `chat_template` is Jinja source, of the user.

        Raises what Session raises, and UsageError where there is no chat template.
        """
        self.pair = pair
        self._terminal, self._render = terminal, render
        self._interrupts = Interrupts(last=_LAST_SIGNAL)
        self._notices: list[Notice] = []
        self._status = Status(terminal, quiet=render.quiet)
        environment = surroundings(self._interrupts, self._notices, self._status, learns=True)
        draft = pair.draft.path if pair.draft else None
        started = time.perf_counter()
        with self._listening(), self._status:
            self._session = Session(pair.target.path, draft, settings, environment)
            try:
                self._template = self._choose_template(chat_template, now)
                self._session.prepare(0, None)
            except BaseException:
                self._session.close()
                raise
        self._load_s = time.perf_counter() - started

    def close(self) -> None:
        """Free everything."""
        self._session.close()

    @property
    def name(self) -> str:
        """The target's name."""
        return self._session.target_header.name or self.pair.target.name

    def describe(self) -> list[str]:
        """What runs."""
        draft = self.pair.draft.path.name if self.pair.draft else "none"
        off = self._session.drafting_off
        return [
            f"target   {self.name} ({self.pair.target.path.name})",
            f"draft    {draft}",
            f"drafter  {f'off: {off}' if off else self._session.drafter_name}",
            f"context  up to {self._session.n_ctx_max} tokens",
        ]

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a prompt. Raises UsageError or ModelError where the template cannot."""
        return chat_tokens(self._session.model, self._template, messages)

    def fits(self, messages: Sequence[Message], max_tokens: int | None) -> bool:
        """Whether the context has room for a prompt and its answer."""
        n_ctx = self._session.n_ctx_max
        return len(self.encode(messages)) + n_reserved(n_ctx, max_tokens) <= n_ctx

    def is_half_free(self, messages: Sequence[Message]) -> bool:
        """Whether a prompt leaves half of the context free."""
        return 2 * len(self.encode(messages)) <= self._session.n_ctx_max

    def answer(
        self, base: Conversation, question: str, settings: ChatSettings, *, seed: int
    ) -> Answer:
        """Answer `question` after `base`. Text on stdout, figures on stderr.

        Raises UsageError before anything is generated where the context is too small, Cancelled
        when stopped before there was a context, and Terminated.
        """
        tokens = self.encode(base.asking(question))
        with self._listening():
            self._prepare(tokens, settings, has_turns=bool(base.turns))
            return self._generate(tokens, settings, settings.generation(seed))

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Signals ask to stop."""
        try:
            with self._interrupts:
                yield
        finally:
            if self._interrupts.signal in (signal.SIGTERM, signal.SIGHUP):
                raise Terminated(self._interrupts.signal)

    def _prepare(self, tokens: Sequence[int], settings: ChatSettings, *, has_turns: bool) -> None:
        """Contexts that hold the prompt and what its answer needs at least."""
        session = self._session
        n_ctx = session.n_ctx_max
        reserved = n_reserved(n_ctx, settings.max_tokens)
        if len(tokens) + reserved > n_ctx:
            n_ctx_train = session.model.n_ctx_train
            raise too_long(
                len(tokens), n_ctx, reserved, has_turns=has_turns, n_ctx_train=n_ctx_train
            )
        answer = AUTO_CTX_ANSWER if settings.max_tokens is None else settings.max_tokens
        if not session.holds(min(n_ctx, len(tokens) + answer)):
            # Twice as large: what is made anew is evaluated anew, and that not in every turn.
            session.prepare(min(n_ctx, 2 * len(tokens)), settings.max_tokens)
        self._show_notices()

    def _generate(
        self, tokens: Sequence[int], settings: ChatSettings, generation: GenerationSettings
    ) -> Answer:
        info = self._describe_run(settings, generation, n_prompt=len(tokens))
        render = replace(self._render, quiet=not settings.stats)
        with choose_renderers(
            self._terminal, render, info, plain_step_estimate_s=self._session.plain_step_s
        ) as renderer:
            return self._show(tokens, generation, self._arm(settings, generation), info, renderer)

    def _show(
        self,
        tokens: Sequence[int],
        generation: GenerationSettings,
        arm: Arm,
        info: RunInfo,
        renderer: Renderer,
    ) -> Answer:
        text: list[str] = []
        drafting_off = info.drafting_off
        for event in self._session.generate(tokens, generation, arm):
            renderer.handle(event)
            match event:
                case TextDelta():
                    text.append(event.text)
                case DraftingOff():
                    drafting_off = event.reason
                case Finished():
                    return Answer("".join(text), event, info, drafting_off)
        raise AssertionError("a generation ends with Finished")

    def _arm(self, settings: ChatSettings, generation: GenerationSettings) -> Arm:
        kind = DrafterKind.NONE if settings.draft_tokens == 0 else None
        return self._session.arm(generation, settings.draft_tokens, kind)

    def _describe_run(
        self, settings: ChatSettings, generation: GenerationSettings, *, n_prompt: int
    ) -> RunInfo:
        info = describe(
            self._session, self.pair, generation, n_prompt=n_prompt, load_s=self._load_s
        )
        k = settings.draft_tokens
        return replace(info, draft_tokens="auto" if k is None else k)

    def _choose_template(self, of_user: str | None, now: datetime) -> ChatTemplate:
        model = self._session.model
        try:
            return choose_template(
                self._session.target_header.chat_template,
                of_user,
                bos_token=model.bos_text,
                eos_token=model.eos_text,
                now=now,
            )
        except UsageError as error:
            hint = "give one with `--chat-template FILE`, or use `spec-cli run --raw`"
            raise UsageError(error.message, hint=hint) from None

    def _show_notices(self) -> None:
        """What loading had to say."""
        with Notices(self._terminal.stderr, quiet=self._render.quiet, beside_text=False) as notices:
            for notice in self._notices:
                notices.handle(notice)
        self._notices.clear()
