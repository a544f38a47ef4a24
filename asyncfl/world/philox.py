"""Philox4x64-10 for many keys at once: the random numbers of NumPy's `Philox` (Salmon et al. 2011)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_KEY_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_WORD = (1 << 64) - 1
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def doubles(keys: Words, purpose: int, phase: int, block: int = 0) -> NDArray[np.float64]:
    """Compute (4, n) numbers in [0, 1): of each stream those that `Generator.random` draws as number 4 `block` to
    4 `block` + 3.

    `keys`: (n,) first words of the keys; `purpose`: the second word; `phase`: highest word of the counter.
    """
    # NumPy increments the counter before it fills its buffer of four words.
    counter = [np.full(len(keys), word, dtype=np.uint64) for word in (block + 1, 0, 0, phase)]
    first, second = keys.copy(), purpose
    for _ in range(10):
        (high, low), (other_high, other_low) = (
            _product(word, factor) for word, factor in zip(counter[::2], _MULTIPLIERS, strict=True)
        )
        counter = [other_high ^ counter[1] ^ first, other_low, high ^ counter[3] ^ np.uint64(second), low]
        first += np.uint64(_KEY_STEPS[0])
        second = (second + _KEY_STEPS[1]) & _WORD
    return np.array([(word >> np.uint64(11)) * 2.0**-53 for word in counter])


def _product(words: Words, factor: int) -> tuple[Words, Words]:
    """Return the upper and the lower 64 bits of each of `words` times `factor`."""
    upper, lower = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    word_upper, word_lower = words >> _HALF, words & _LOW
    carried = word_upper * lower + ((word_lower * lower) >> _HALF)
    middle = word_lower * upper + (carried & _LOW)
    return word_upper * upper + (carried >> _HALF) + (middle >> _HALF), words * np.uint64(factor)
