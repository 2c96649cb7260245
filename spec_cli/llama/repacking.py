"""Which weights llama.cpp's CPU backend copies and rearranges when it loads a model.

Those are held in memory of their own; all others are used as they stand in the mapped file.
Types and instruction sets as in ggml-cpu/repack.cpp and ggml-cpu/amx/common.h of 0c1e57098.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# enum ggml_type, ggml.h
_Q4_0, _Q4_1, _Q8_0, _Q2_K, _Q4_K, _Q5_K, _Q6_K = 2, 3, 8, 10, 12, 13, 14
_IQ4_NL, _IQ4_XS, _MXFP4, _Q1_0 = 20, 23, 39, 41

# By CPU feature: types whose blocks are interleaved (ggml_repack_get_optimal_repack_type).
_INTERLEAVED = {
    "RISCV_V": (_Q4_0, _Q4_K, _IQ4_NL, _Q8_0, _Q2_K),
    "VXE": (_Q4_0,),
    "DOTPROD": (_Q4_0, _Q4_K, _Q5_K, _Q6_K, _IQ4_NL, _MXFP4, _Q8_0, _Q1_0),
    "AVX2": (_Q4_0, _Q4_K, _IQ4_NL, _MXFP4),
    "AVX512": (_Q2_K,),
}
# AMX comes before that, and takes no experts (supports_op in amx.cpp). It keeps sums and scales
# beside the blocks of some types (get_row_size in mmq.cpp).
_AMX = {
    **dict.fromkeys((_Q4_0, _Q4_1, _Q6_K), 1.0),
    **{_Q8_0: 38 / 34, _Q4_K: 148 / 144, _Q5_K: 180 / 176, _IQ4_XS: 138 / 136},
}


@dataclass(frozen=True, slots=True)
class Repacking:
    """The ggml types of weights that are rearranged, and how much larger that makes them.

    `experts` are matrices that share a tensor.
    """

    matrices: Mapping[int, float]
    experts: Mapping[int, float]


def features(system_info: str) -> frozenset[str]:
    """The names that llama.cpp's system line says are on."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))


def repacking(system_info: str) -> Repacking:
    """What a CPU with this system line rearranges."""
    on = features(system_info)
    kinds = (kind for name, kinds in _INTERLEAVED.items() if name in on for kind in kinds)
    interleaved = dict.fromkeys(kinds, 1.0)
    return Repacking(interleaved | (_AMX if "AMX_INT8" in on else {}), interleaved)
