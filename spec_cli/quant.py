"""From a quantisation tag to the files of a repository.

GGUF files carry their quantisation at the end of the name (`Qwen3-8B-Q4_K_M.gguf`). A large model
is split into `NAME-00001-of-0000N.gguf` and so on; it is opened by its first part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

DEFAULT_QUANT = "Q4_K_M"

_SPLIT = re.compile(r"-([0-9]{5})-of-((?!00000)[0-9]{5})(?=\.gguf$)", re.IGNORECASE)
_TAG = re.compile(r"(?:UD-)?(?:I?Q\d\w*|TQ\d\w*|(?:MX|NV)FP\d\w*|BF16|FP?16|FP?32)$", re.IGNORECASE)


def choose_file(names: Iterable[str], quant: str) -> str | None:
    """The model file among `names` whose quantisation is `quant`, whatever the case.

    Of a split model, the first part. When several match, the shortest name wins, so that
    `Q4_K_M` prefers `x-Q4_K_M.gguf` to `x-UD-Q4_K_M.gguf`. None when there is no such file.
    """
    wanted = re.compile(rf"(?:^|[-./]){re.escape(quant)}$", re.IGNORECASE)
    matches = [name for name in model_files(names) if wanted.search(_stem(name))]
    return min(matches, key=lambda name: (len(name), name), default=None)


def model_files(names: Iterable[str]) -> list[str]:
    """The GGUF models among `names`, split ones by their first part, in alphabetical order."""
    return sorted(name for name in names if name.lower().endswith(".gguf") and _is_model(name))


def quants(names: Iterable[str]) -> list[str]:
    """The quantisation tags of the models among `names`; a file without one by its whole name."""
    found = []
    for name in model_files(names):
        tag = _TAG.search(_stem(name))
        found.append(tag.group().upper() if tag else name)
    return sorted(set(found))


def split_parts(first: str) -> list[str]:
    """All parts of the split model whose first part is `first`; just `first` when it is whole."""
    split = _SPLIT.search(first)
    if split is None:
        return [first]
    n_parts = int(split.group(2))
    start, end = first[: split.start()], first[split.end() :]
    return [f"{start}-{i:05}-of-{n_parts:05}{end}" for i in range(1, n_parts + 1)]


def _is_model(name: str) -> bool:
    split = _SPLIT.search(name)
    is_first = split is None or int(split.group(1)) == 1
    # A vision model's projector is a GGUF, but no language model.
    return is_first and "mmproj" not in name.lower()


def _stem(name: str) -> str:
    return _SPLIT.sub("", name)[: -len(".gguf")]
