"""Which weights llama.cpp's CPU backend copies and rearranges when it loads a model.

Those are held in memory of their own; all others are used as they stand in the mapped file.
Types and instruction sets as in ggml-cpu/repack.cpp and ggml-cpu/amx/common.h of 0c1e57098.
"""

from __future__ import annotations

import re

# enum ggml_type, ggml.h
_Q4_0, _Q4_1, _Q8_0, _Q2_K, _Q4_K, _Q5_K, _Q6_K = 2, 3, 8, 10, 12, 13, 14
_IQ4_NL, _IQ4_XS, _MXFP4, _Q1_0 = 20, 23, 39, 40

_BY_FEATURE = {
    "AVX2": {_Q4_0, _Q4_K, _IQ4_NL, _MXFP4},
    "AVX512": {_Q2_K},
    "AMX_INT8": {_Q4_0, _Q4_1, _Q8_0, _Q4_K, _Q5_K, _Q6_K, _IQ4_XS},
    "DOTPROD": {_Q4_0, _Q4_K, _Q5_K, _Q6_K, _IQ4_NL, _MXFP4, _Q8_0, _Q1_0},
    "VXE": {_Q4_0},
    "RISCV_V": {_Q4_0, _Q4_K, _IQ4_NL, _Q8_0, _Q2_K},
}


def features(system_info: str) -> frozenset[str]:
    """The names that llama.cpp's system line says are on."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))


def packed_kinds(system_info: str) -> frozenset[int]:
    """The ggml types that are rearranged on a CPU with this system line."""
    on = features(system_info)
    return frozenset().union(*(kinds for name, kinds in _BY_FEATURE.items() if name in on))
