"""Noise that is a function of (seed, position, token): nothing is drawn, so nothing has a state."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from spec_cli.spec.interfaces import Ids, Weights

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_MASK = 0xFFFFFFFFFFFFFFFF
_BLOCK = 2**14  # ids hashed at a time, so that the words stay in the CPU's cache


def gumbel(seed: int, position: int, ids: Ids) -> Weights:
    """Standard Gumbel noise for each token id, shape [n]: a function of its arguments alone.

    Builds of numpy may differ in the last bit of a logarithm: it decides one choice in 10**14.
    """
    return -np.log(-np.log(uniform(seed, position, ids)))


def uniform(seed: int, position: int, ids: Ids) -> Weights:
    """Uniform numbers (k + 1/2) / 2**52 for each token id, shape [n]; k has 52 random bits.

    Symmetric about 1/2, and never 0 or 1. Made of integer operations and exact conversions only,
    so the same on every machine and with every version of numpy.
    """
    return ((_words(seed, position, ids) >> 12).astype(np.float64) + 0.5) * 2.0**-52


def noise_at_least(least: float, seed: int, position: int, ids: Ids) -> Ids:
    """The indices of the `ids` whose noise is `least` or more, ascending; no logarithm is taken.

    Words are compared with a threshold that is rounded down by far more than the error of
    `gumbel`: none is missing, though one just below `least` may be there.
    """
    probability = -math.expm1(-math.exp(1e-9 - least))
    word = max(0, 2**64 - 2**11 - math.ceil(probability * 2.0**64))
    found = [
        start + (_words(seed, position, ids[start : start + _BLOCK]) >= word).nonzero()[0]
        for start in range(0, ids.size, _BLOCK)
    ]
    return np.concatenate(found)


def _words(seed: int, position: int, ids: Ids) -> npt.NDArray[np.uint64]:
    """64 random bits for each token id, shape [n].

    Token x gets output x of a SplitMix64 stream (Steele, Lea, Flood 2014, "Fast splittable
    pseudorandom number generators") whose state is a hash of (seed, position).
    """
    state = _mix(_mix(seed) + position * _GOLDEN)
    z = ids.astype(np.uint64)
    z *= _GOLDEN
    z += (state + _GOLDEN) & _MASK
    z ^= z >> 30
    z *= _MIX_1
    z ^= z >> 27
    z *= _MIX_2
    z ^= z >> 31
    return z


def _mix(z: int) -> int:
    """SplitMix64's finaliser on a Python integer, modulo 2**64."""
    z &= _MASK
    z = ((z ^ (z >> 30)) * _MIX_1) & _MASK
    z = ((z ^ (z >> 27)) * _MIX_2) & _MASK
    return z ^ (z >> 31)
