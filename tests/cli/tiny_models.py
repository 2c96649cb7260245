"""The model files of the CLI tests: tiny, random, and each with one property of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gguf import TokenType

from tests.tiny_gguf import CHATML, TinyVocab, bpe_vocab, spm_vocab, write_tiny_model

THINKING = (
    CHATML + "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}"
)


def printable_vocab(eos: str = "<|im_end|>", renamed: Mapping[int, str] | None = None) -> TinyVocab:
    """A vocabulary whose model writes printable ASCII and line ends, so that text can be cut."""
    vocab = bpe_vocab(eos=eos, renamed=renamed)
    printable = {ord("\n"), *range(ord(" "), ord("~") + 1)}
    types = [
        TokenType.UNUSED if token < 256 and token not in printable else kind
        for token, kind in enumerate(vocab.types)
    ]
    return replace(vocab, types=types)


@dataclass(frozen=True, slots=True)
class Models:
    """Model files, each written when it is first asked for."""

    directory: Path

    @property
    def pair(self) -> tuple[str, ...]:
        """The options for target and draft."""
        return "-m", str(self.target), "-d", str(self.draft)

    @property
    def target(self) -> Path:
        """Writes printable ASCII, and never stops by itself."""
        return self._write("target.gguf")

    @property
    def draft(self) -> Path:
        """Agrees with the target on some tokens."""
        return self._write("draft.gguf", n_layer=1, noise=0.1)

    @property
    def babble(self) -> Path:
        """Writes any bytes: control characters, and what is not valid UTF-8."""
        return self._write("babble.gguf", vocab=bpe_vocab())

    @property
    def slow_to_read(self) -> Path:
        """Its tokenizer, SentencePiece's, takes ever longer for a text without a space."""
        return self._write("spm.gguf", vocab=spm_vocab())

    @property
    def mamba(self) -> Path:
        """A recurrent model with the target's vocabulary."""
        return self._write("mamba.gguf", arch="mamba")

    @property
    def sliding(self) -> Path:
        """A model whose attention slides over the last tokens."""
        return self._write("sliding.gguf", arch="gemma3")

    @property
    def foreign(self) -> Path:
        """A draft whose token 40 is not the target's."""
        return self._write("foreign.gguf", n_layer=1, vocab=bpe_vocab(renamed={40: "zzz"}))

    @property
    def base(self) -> Path:
        """The target without a chat template."""
        return self._write("base.gguf", chat_template=None)

    def ending(self, eos: str) -> Path:
        """The target with the token `eos` as its end of generation."""
        return self._write(f"ending-{ord(eos)}.gguf", vocab=printable_vocab(eos))

    def thinking(self, end: str) -> Path:
        """The target with a template that lets it think until it would say the character `end`."""
        vocab = printable_vocab(renamed={ord(end): "</think>"})
        return self._write(f"thinking-{ord(end)}.gguf", vocab=vocab, chat_template=THINKING)

    def _write(self, name: str, **how: Any) -> Path:
        path = self.directory / name
        if not path.exists():
            write_tiny_model(path, **{"vocab": printable_vocab(), **how})
        return path
