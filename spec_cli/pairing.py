"""Do two models speak the same tokens? Decided from their headers alone.

Only token ids cross between target and draft. The target tokenises the prompt and decides every
token, so a draft can be useless but never harmful, and what makes it useless is an id that means
another text. That is refused; anything else is at most a note.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spec_cli.errors import PairError
from spec_cli.events import Notice
from spec_cli.gguf import Header, Vocabulary
from spec_cli.spec.counts import counted

MAX_EXTRA_IDS = 512  # padding: Qwen2.5 has files of 151936 and of 152064 ids for one tokenizer
_N_FREE_IDS = 5  # as in llama.cpp: the first ids are often unknown, begin and end
_TEXT_TYPES = (1, 6)  # llama_token_type NORMAL and BYTE; other types stand for no text


@dataclass(frozen=True, slots=True)
class PairReport:
    """A pair that fits. Ids below `n_shared` may cross between the models, others never."""

    n_shared: int
    n_target: int
    n_draft: int
    notes: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The texts of one id where they differ. `is_text`: for one of the two it is plain text."""

    token: int
    target: bytes
    draft: bytes
    is_text: bool


def check_pair(target: Header, draft: Header) -> PairReport:
    """Compare the vocabularies of a target and a draft.

    Raises PairError, naming what differs in this order: the tokenizer model, the pre-tokenizer,
    the sizes, the first token whose text is another one.
    """
    ours, theirs = target.vocab, draft.vocab
    n_target, n_draft = len(ours.tokens), len(theirs.tokens)
    different = list(differences(ours, theirs))
    wrong_text = next((d for d in different if d.is_text), None)
    fits = (
        ours.model == theirs.model
        and abs(n_target - n_draft) <= MAX_EXTRA_IDS
        and wrong_text is None
    )
    if not fits:
        raise PairError(
            f"{draft.path.name} does not share the vocabulary of {target.path.name}: "
            + "; ".join(_causes(ours, theirs, wrong_text)),
            hint=f"use a smaller {_family(target)} model as the draft, or `--drafter ngram`",
        )
    notes = (*_vocabulary_notes(ours, theirs, different), *_size_notes(target, draft))
    return PairReport(min(n_target, n_draft), n_target, n_draft, notes)


def differences(target: Vocabulary, draft: Vocabulary) -> Iterator[Difference]:
    """All ids that both have, with different texts."""
    shorter, longer = sorted((target.tokens.packed, draft.tokens.packed), key=len)
    if longer.startswith(shorter):
        return
    target_types, draft_types = _types(target), _types(draft)
    pairs = zip(target.tokens.strings(), draft.tokens.strings(), strict=False)
    for token, (ours, theirs) in enumerate(pairs):
        if ours != theirs:
            is_text = target_types[token] in _TEXT_TYPES or draft_types[token] in _TEXT_TYPES
            yield Difference(token, ours, theirs, is_text and token >= _N_FREE_IDS)


def _types(vocab: Vocabulary) -> tuple[int | float | bool, ...]:
    return vocab.types.numbers() if vocab.types else _TEXT_TYPES[:1] * len(vocab.tokens)


def _causes(target: Vocabulary, draft: Vocabulary, wrong: Difference | None) -> Iterator[str]:
    if draft.model != target.model:
        yield f"its tokenizer is `{draft.model}`, not `{target.model}`"
    # The draft never tokenises, so another pre-tokenizer explains a mismatch but makes none.
    if draft.pre != target.pre:
        yield f"its pre-tokenizer is `{draft.pre}`, not `{target.pre}`"
    n_target, n_draft = len(target.tokens), len(draft.tokens)
    if n_draft != n_target:
        yield f"it has {counted(n_draft, 'token')}, not {n_target:,}"
    if wrong is not None:
        yield f"its token {wrong.token} is `{_show(wrong.draft)}`, not `{_show(wrong.target)}`"


def _vocabulary_notes(
    target: Vocabulary, draft: Vocabulary, different: list[Difference]
) -> Iterator[Notice]:
    """What differs without harm: the ids the draft sees are the target's own."""
    if draft.pre != target.pre:
        yield Notice(
            f"the pre-tokenizer is `{target.pre}` in the target and `{draft.pre}` in the draft, "
            "but all token texts are equal"
        )
    if different:
        first = different[0]
        yield Notice(
            f"the draft has another text for {counted(len(different), 'special token')}, the first "
            f"is {first.token}: `{_show(first.target)}` and `{_show(first.draft)}`"
        )
    for name, ours, theirs in (
        ("BOS", target.bos_id, draft.bos_id),
        ("EOS", target.eos_id, draft.eos_id),
    ):
        if ours is not None and theirs is not None and ours != theirs:
            yield Notice(
                f"the {name} token is {ours} in the target and {theirs} in the draft: "
                f"`{target.text(ours)}` and `{draft.text(theirs)}`"
            )
    for name, adds, draft_adds in (
        ("BOS", target.add_bos, draft.add_bos),
        ("EOS", target.add_eos, draft.add_eos),
    ):
        if adds is not None and draft_adds is not None and adds != draft_adds:
            holder = "target" if adds else "draft"
            yield Notice(f"only the {holder} adds a {name} token; the target's way is used")


def _size_notes(target: Header, draft: Header) -> Iterator[Notice]:
    if draft.n_params >= target.n_params:
        yield Notice(
            f"the draft has {parameters(draft.n_params)} parameters and the target "
            f"{parameters(target.n_params)}: drafting will hardly be faster",
            hint="use a smaller draft"
            if draft.n_params == target.n_params
            else "swap target and draft",
            level="warning",
        )


def _family(header: Header) -> str:
    basename = header.values.get("general.basename")
    return basename if isinstance(basename, str) else header.architecture


def _show(text: bytes) -> str:
    shown = text.decode("utf-8", "replace")
    shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)


def parameters(n: int) -> str:
    """A number of parameters: `1.5B`, `135M`."""
    return f"{n / 1e9:.1f}B" if n >= 1e9 else f"{n / 1e6:.0f}M"
