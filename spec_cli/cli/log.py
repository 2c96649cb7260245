"""What the program writes about itself, without secrets and without control characters."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import TextIO

_SECRETS = [
    (re.compile(r"\bhf_\w{8,}"), "hf_***"),
    (re.compile(r"(?<=://)[^\s/]+@"), "***@"),  # user and password in a URL
    (re.compile(r"(?i)(?<=authorization: )(\w+ )?\S+|(?<=bearer )\S+"), "***"),
    (re.compile(r"(?i)([?&][\w-]*(?:signature|token|policy|credential)=)[^\s&'\"]+"), r"\1***"),
]
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # that of a private hub can look like any word
_MIN_TOKEN_CHARS = 8


def redacted(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """`text` without tokens, passwords in URLs and signatures of URLs."""
    for token in filter(None, (environ.get(name, "").strip() for name in _TOKENS)):
        if len(token) >= _MIN_TOKEN_CHARS:
            text = text.replace(token, "***")
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def escaped(text: str) -> str:
    """`text` with control characters made visible; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escaped(redacted(super().format(record)))


def show_log(stream: TextIO) -> None:
    """From now on write our own log and llama.cpp's to `stream`; other libraries' stay silent."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Formatter("%(message)s"))
    logger = logging.getLogger("spec_cli")
    logger.setLevel(logging.DEBUG)
    logger.handlers[:] = [handler]
