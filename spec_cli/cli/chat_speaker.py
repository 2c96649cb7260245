"""The pair that answers in a chat: loads it, encodes conversations, shows answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from spec_cli.arms import Arm
from spec_cli.chat.conversation import Conversation
from spec_cli.chat.fitting import n_reserved, too_long
from spec_cli.chat.settings import ChatSettings
from spec_cli.cli.chat_template import TemplateChoice, Templates
from spec_cli.cli.info import describe
from spec_cli.cli.keyboard import Silent
from spec_cli.cli.signals import Interrupts
from spec_cli.cli.surroundings import surroundings
from spec_cli.encoding import EncodedPrompt, encode_chat
from spec_cli.events import (
    DraftingOff,
    Finished,
    FinishReason,
    Notice,
    ReasoningDelta,
    TextDelta,
)
from spec_cli.pairs import LocalPair
from spec_cli.prompt import ChatTemplate, Message, chat_tokens
from spec_cli.render.base import Renderer
from spec_cli.render.choose import choose_renderers
from spec_cli.render.info import RunInfo
from spec_cli.render.notices import Notices
from spec_cli.render.options import RenderOptions
from spec_cli.render.status import Status
from spec_cli.render.summary import summary_lines
from spec_cli.session import Session
from spec_cli.settings import (
    AUTO_CTX_ANSWER,
    DrafterKind,
    GenerationSettings,
    SessionSettings,
)
from spec_cli.spec.counts import counted
from spec_cli.state import StateStore
from spec_cli.terminal import Terminal

_LAST_SIGNAL = 3  # an impatient second Ctrl-C must not cost the conversation


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said, and how that went."""

    text: str
    has_thought: bool
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

    @property
    def is_turn(self) -> bool:
        """Whether it takes its place in the conversation: not where the model only thought, nor
        where it was stopped before its first word."""
        if self.text:
            return True
        return not self.has_thought and self.finished.reason is not FinishReason.INTERRUPTED


class Speaker:
    """A loaded pair that answers. Owns its session.

    Signals come while models load and while an answer is generated: SIGINT ends what is going on,
    SIGTERM and SIGHUP also raise Terminated.
    """

    def __init__(
        self,
        pair: LocalPair,
        settings: SessionSettings,
        template: TemplateChoice,
        terminal: Terminal,
        render: RenderOptions,
        now: datetime,
        state: StateStore,
    ) -> None:
        """Load the pair.

        Raises what Session raises, and UsageError where there is no chat template or it does not
        read a variable.
        """
        self.pair = pair
        self._terminal, self._render = terminal, render
        self._keyboard = Silent(terminal)
        self._interrupts = Interrupts(last=_LAST_SIGNAL, leaving=self._keyboard.restore)
        self._notices: list[Notice] = []
        self._status = Status(terminal, quiet=render.quiet)
        environment = surroundings(
            self._interrupts, self._notices, self._status, learns=True, state=state
        )
        draft = pair.draft.path if pair.draft else None
        started = time.perf_counter()
        with self._listening(), self._status:
            self._session = Session(pair.target.path, draft, settings, environment)
            try:
                of_model = self._session.target_header.chat_template
                self._templates = Templates(self._session.model, of_model, template, now)
                self.template(think=None)
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
            f"context  up to {counted(self._session.n_ctx_max, 'token')}",
        ]

    def template(self, *, think: bool | None) -> ChatTemplate:
        """The chat template: see `Templates.of`."""
        return self._templates.of(think)

    def fits(self, messages: Sequence[Message], settings: ChatSettings) -> bool:
        """Whether the context has room for a prompt and its answer.

        Raises UsageError or ModelError where the template cannot.
        """
        n_ctx = self._session.n_ctx_max
        return self._n_tokens(messages, settings) + n_reserved(n_ctx, settings.max_tokens) <= n_ctx

    def require_room(self, messages: Sequence[Message], settings: ChatSettings) -> None:
        """Raises UsageError where a first message does not fit, else as `fits` does."""
        self._require_room(self._n_tokens(messages, settings), settings, has_turns=False)

    def is_half_free(self, messages: Sequence[Message], settings: ChatSettings) -> bool:
        """Whether a prompt leaves half of the context free. Raises as `fits` does."""
        return 2 * self._n_tokens(messages, settings) <= self._session.n_ctx_max

    def answer(
        self, base: Conversation, question: str, settings: ChatSettings, *, seed: int
    ) -> Answer:
        """Answer `question` after `base`. Text on stdout; reasoning and figures on stderr.

        Raises UsageError before anything is generated where the context is too small, Cancelled
        when stopped before there was a context, and Terminated.
        """
        model, template = self._session.model, self.template(think=settings.think)
        with self._listening():
            prompt = encode_chat(model, template, base.asking(question), cancelled=self._interrupts)
            self._prepare(len(prompt.tokens), settings, has_turns=bool(base.turns))
            return self._generate(prompt, settings, settings.generation(seed))

    def _n_tokens(self, messages: Sequence[Message], settings: ChatSettings) -> int:
        template = self.template(think=settings.think)
        return len(chat_tokens(self._session.model, template, messages))

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Signals ask to stop, and what is typed waits."""
        try:
            with self._keyboard, self._interrupts:
                yield
        finally:
            self._interrupts.raise_terminated()

    def _prepare(self, n_prompt: int, settings: ChatSettings, *, has_turns: bool) -> None:
        """Contexts that hold the prompt and what its answer needs at least."""
        self._require_room(n_prompt, settings, has_turns=has_turns)
        session = self._session
        n_ctx = session.n_ctx_max
        answer = AUTO_CTX_ANSWER if settings.max_tokens is None else settings.max_tokens
        if not session.holds(min(n_ctx, n_prompt + answer)):
            # Twice as large: what is made anew is evaluated anew, and that not in every turn.
            session.prepare(min(n_ctx, 2 * n_prompt), settings.max_tokens)
        self._show_notices()

    def _require_room(self, n_prompt: int, settings: ChatSettings, *, has_turns: bool) -> None:
        n_ctx, n_ctx_train = self._session.n_ctx_max, self._session.model.n_ctx_train
        reserved = n_reserved(n_ctx, settings.max_tokens)
        if n_prompt + reserved > n_ctx:
            raise too_long(n_prompt, n_ctx, reserved, has_turns=has_turns, n_ctx_train=n_ctx_train)

    def _generate(
        self, prompt: EncodedPrompt, settings: ChatSettings, generation: GenerationSettings
    ) -> Answer:
        info = self._describe_run(settings, generation, n_prompt=len(prompt.tokens))
        render = replace(
            self._render, quiet=not settings.stats, hide_reasoning=not settings.reasoning
        )
        with choose_renderers(self._terminal, render, info) as renderer:
            arm = self._arm(prompt, settings, generation)
            return self._show(prompt, generation, arm, info, renderer)

    def _show(
        self,
        prompt: EncodedPrompt,
        generation: GenerationSettings,
        arm: Arm,
        info: RunInfo,
        renderer: Renderer,
    ) -> Answer:
        text: list[str] = []
        drafting_off, has_thought = info.drafting_off, False
        for event in self._session.generate(prompt.tokens, generation, arm, opening=prompt.opening):
            renderer.handle(event)
            match event:
                case TextDelta():
                    text.append(event.text)
                case ReasoningDelta():
                    has_thought = True
                case DraftingOff():
                    drafting_off = event.reason
                case Finished():
                    return Answer("".join(text), has_thought, event, info, drafting_off)
        raise AssertionError("a generation ends with Finished")

    def _arm(
        self, prompt: EncodedPrompt, settings: ChatSettings, generation: GenerationSettings
    ) -> Arm:
        return self._session.arm(
            generation,
            settings.draft_tokens,
            DrafterKind.NONE if settings.draft_tokens == 0 else None,
            n_prompt=len(prompt.tokens),
            opening=prompt.opening,
        )

    def _describe_run(
        self, settings: ChatSettings, generation: GenerationSettings, *, n_prompt: int
    ) -> RunInfo:
        info = describe(
            self._session, self.pair, generation, n_prompt=n_prompt, load_s=self._load_s
        )
        k = settings.draft_tokens
        return replace(info, draft_tokens="auto" if k is None else k)

    def _show_notices(self) -> None:
        """What loading had to say."""
        with Notices(self._terminal.stderr, quiet=self._render.quiet, beside_text=False) as notices:
            for notice in self._notices:
                notices.handle(notice)
        self._notices.clear()
