"""What can be changed while a chat runs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from spec_cli.errors import UsageError, wrong_value
from spec_cli.names import nearest
from spec_cli.settings import MAX_DRAFT_TOKENS, GenerationSettings
from spec_cli.spec.settings import Accept, SamplingSettings

Word = str | int | float
_SWITCH = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How answers are generated and shown.

    `seed` None: a new one for each answer. `draft_tokens` None: as many as pay; 0: none.
    `stats`: a line of figures after each answer, and a panel. `reasoning`: what the model thinks is
    shown. `think` sets the chat template's switch for it, None leaves that alone. `drop_oldest`:
    turns that do not fit the context any more are dropped without asking. `stop`, `grammar` and
    `ignore_eos` are those of each answer.
    """

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    accept: Accept = Accept.COUPLED
    seed: int | None = None
    max_tokens: int | None = None
    draft_tokens: int | None = None
    stats: bool = True
    reasoning: bool = True
    think: bool | None = None
    drop_oldest: bool = False
    stop: tuple[str, ...] = ()
    grammar: str | None = None
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        self.generation(0)
        if self.draft_tokens is not None and not 0 <= self.draft_tokens <= MAX_DRAFT_TOKENS:
            raise wrong_value("draft-tokens", self.draft_tokens, f"from 0 to {MAX_DRAFT_TOKENS}")

    def generation(self, seed: int) -> GenerationSettings:
        """The settings of one answer; `seed` counts where no other was set. Raises UsageError."""
        return GenerationSettings(
            seed=seed if self.seed is None else self.seed,
            sampling=self.sampling,
            accept=self.accept,
            max_tokens=self.max_tokens,
            stop=self.stop,
            grammar=self.grammar,
            ignore_eos=self.ignore_eos,
        )

    def words(self) -> dict[str, Word]:
        """Every setting by its name, as `with_word` takes it."""
        return {name: setting.word(self) for name, setting in _SETTINGS.items()}

    def word(self, name: str) -> Word:
        """The setting `name`. Raises UsageError where there is none."""
        return _setting(name).word(self)

    def with_word(self, name: str, word: str) -> ChatSettings:
        """With the setting `name` as `word` says. Raises UsageError."""
        return _setting(name).changed(self, name, word)


@dataclass(frozen=True, slots=True)
class _Setting:
    """A field of the settings, or of their `sampling`: some words, a number, or either."""

    field: str
    words: Mapping[str, object]
    number: type[int] | type[float] | None = None
    is_sampling: bool = False

    def word(self, settings: ChatSettings) -> Word:
        value = getattr(settings.sampling if self.is_sampling else settings, self.field)
        found: Word = next((w for w, meant in self.words.items() if meant is value), value)
        return found

    def changed(self, settings: ChatSettings, name: str, word: str) -> ChatSettings:
        try:
            value = self._value(word)
        except ValueError:
            numbers = {int: ["a whole number"], float: ["a number"], None: []}[self.number]
            allowed = " or ".join([*(f"`{w}`" for w in self.words), *numbers])
            raise wrong_value(name, word, allowed) from None
        if self.is_sampling:
            sampling = replace(settings.sampling, **{self.field: value})
            return replace(settings, sampling=sampling)
        return replace(settings, **{self.field: value})

    def _value(self, word: str) -> Any:
        if word in self.words:
            return self.words[word]
        if self.number is None:
            raise ValueError
        return self.number(word)


def _setting(name: str) -> _Setting:
    if name in _SETTINGS:
        return _SETTINGS[name]
    meant = nearest(name, _SETTINGS)
    hint = f"did you mean `{meant}`?" if meant else "`/set` shows them all"
    raise UsageError(f"there is no setting `{name}`", hint=hint)


def _table() -> dict[str, _Setting]:
    """All settings by name, those of the sampling first: its numbers."""
    defaults = {of.name: getattr(SamplingSettings(), of.name) for of in fields(SamplingSettings)}
    sampling = {
        name.replace("_", "-"): _Setting(name, {}, type(default), is_sampling=True)
        for name, default in defaults.items()
        if type(default) in (int, float)
    }
    return sampling | {
        "accept": _Setting("accept", {str(accept): accept for accept in Accept}),
        "seed": _Setting("seed", {"random": None}, int),
        "max-tokens": _Setting("max_tokens", {"none": None}, int),
        "draft-tokens": _Setting("draft_tokens", {"auto": None}, int),
        "stats": _Setting("stats", _SWITCH),
        "reasoning": _Setting("reasoning", _SWITCH),
        "think": _Setting("think", {**_SWITCH, "template": None}),
        "drop-oldest": _Setting("drop_oldest", _SWITCH),
    }


_SETTINGS = _table()
SETTING_NAMES = tuple(_SETTINGS)
