"""Which weights llama.cpp's CPU backend copies and rearranges when it loads a model.

Those are held in memory of their own; all others are used as they stand in the mapped file.
Types and instruction sets as in ggml-cpu/repack.cpp and ggml-cpu/amx/common.h of 0c1e57098.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# enum ggml_type, ggml.h
_Q4_0, _Q4_1, _Q8_0, _Q2_K, _Q4_K, _Q5_K, _Q6_K = 2, 3, 8, 10, 12, 13, 14
_IQ4_NL, _IQ4_XS, _MXFP4, _Q1_0 = 20, 23, 39, 41

# How much larger a weight of each type gets. The features later in the list come first.
_BY_FEATURE: dict[str, dict[int, float]] = {
    "RISCV_V": dict.fromkeys((_Q4_0, _Q4_K, _IQ4_NL, _Q8_0, _Q2_K), 1.0),
    "VXE": {_Q4_0: 1.0},
    "DOTPROD": dict.fromkeys((_Q4_0, _Q4_K, _Q5_K, _Q6_K, _IQ4_NL, _MXFP4, _Q8_0, _Q1_0), 1.0),
    "AVX2": dict.fromkeys((_Q4_0, _Q4_K, _IQ4_NL, _MXFP4), 1.0),
    "AVX512": {_Q2_K: 1.0},
    # get_row_size in mmq.cpp: sums and scales stand beside the blocks of some types.
    "AMX_INT8": {
        **dict.fromkeys((_Q4_0, _Q4_1, _Q6_K), 1.0),
        **{_Q8_0: 38 / 34, _Q4_K: 148 / 144, _Q5_K: 180 / 176, _IQ4_XS: 138 / 136},
    },
}


def features(system_info: str) -> frozenset[str]:
    """The names that llama.cpp's system line says are on."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))


def repacked(system_info: str) -> Mapping[int, float]:
    """The ggml types that a CPU with this system line rearranges, and how much they grow by it."""
    on = features(system_info)
    growth: dict[int, float] = {}
    for name, kinds in _BY_FEATURE.items():
        if name in on:
            growth.update(kinds)
    return growth
