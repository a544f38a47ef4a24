"""Standard normal and Laplace noise, drawn faster than by NumPy or torch, with tails of full length.

DP-SGD needs one draw per parameter and step (fewer by `block_noise`), which costs more than the step itself: 7-10 ns
by NumPy's ziggurat, 2.6 to 3.4 ns by torch, 1.8 to 2.2 ns here (float32, one core). Random bits come from SFC64, pairs
of normals from the method of Box and Muller (1958), (r cos t, r sin t) with r = sqrt(-2 ln u), u uniform on (0, 1] in
steps of 2^-31 and t on [-pi, pi); Laplace noise is s ln u with a random sign s. Draws beyond `NORMAL_TAIL` or
`LAPLACE_TAIL`, which these bits would make discrete and cut off, are replaced by float64 draws from the conditional
distribution of the tail.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

PAIRS = 2**15
"""Pairs of draws made at once: few enough for the buffers to stay in the cache."""
NORMAL_TAIL = 5.0
"""Standard deviations beyond which a normal is drawn again from the tail."""
LAPLACE_TAIL = 10.0
"""Scales beyond which Laplace noise is drawn again from the tail."""


class StandardNoise(ABC):
    """Source of vectors of `n` independent draws.

    `bits`: generator of 64 random bits at a time, from `Streams.bits`; any other use of it shifts the draws.
    """

    def __init__(self, bits: np.random.BitGenerator, n: int) -> None:
        self._bits = bits
        self._out = np.empty(n, np.float32)

    def draw(self) -> NDArray[np.float32]:
        """Draw the next vector (n,) float32; the array is overwritten by the next call."""
        for start in range(0, len(self._out), 2 * PAIRS):
            self._fill(self._out[start : start + 2 * PAIRS])
        return self._out

    @abstractmethod
    def _fill(self, out: NDArray[np.float32]) -> None:
        """Fill `out` (1..2 PAIRS,) with draws."""

    def _uniform(self, n: int) -> NDArray[np.float64]:
        """Draw (n,) uniform numbers on (0, 1), in steps of 2^-53."""
        return ((self._bits.random_raw(n) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


class StandardNormal(StandardNoise):
    """Draws of N(0, 1)."""

    def __init__(self, bits: np.random.BitGenerator, n: int) -> None:
        super().__init__(bits, n)
        self._buffers = np.empty((3, min(PAIRS, -(-n // 2))), np.float32)

    def _fill(self, out: NDArray[np.float32]) -> None:
        pairs = -(-len(out) // 2)
        raw = self._bits.random_raw(pairs).view(np.uint32)
        radius, angle, turned = self._buffers[:, :pairs]
        raw[:pairs] >>= 1
        _log_uniform(raw[:pairs], out=radius)
        radius *= -2.0
        np.sqrt(radius, out=radius)
        angle[...] = raw[pairs:].view(np.int32)
        angle *= math.pi * 2.0**-31
        np.multiply(radius, np.cos(angle, out=turned), out=out[:pairs])
        rest = len(out) - pairs
        np.multiply(radius[:rest], np.sin(angle, out=turned)[:rest], out=out[pairs:])
        if radius.max() > NORMAL_TAIL:  # rarely true: one radius in 270,000 is longer
            from scipy.special import ndtr, ndtri

            far = np.flatnonzero(radius > NORMAL_TAIL)
            far = np.concatenate([far, far[far < rest] + pairs])
            far = far[np.abs(out[far]) > NORMAL_TAIL]
            beyond = -ndtri(self._uniform(len(far)) * ndtr(-NORMAL_TAIL))
            out[far] = np.copysign(beyond, out[far])


class StandardLaplace(StandardNoise):
    """Draws of the Laplace distribution with scale 1, whose standard deviation is sqrt(2)."""

    def _fill(self, out: NDArray[np.float32]) -> None:
        raw = self._bits.random_raw(-(-len(out) // 2)).view(np.uint32)[: len(out)]
        negative = raw & np.uint32(1)
        raw >>= 1
        _log_uniform(raw, out=out)
        if out.min() < -LAPLACE_TAIL:
            far = np.flatnonzero(out < -LAPLACE_TAIL)
            # The exponential distribution is memoryless: its tail beyond any point is the same exponential.
            out[far] = np.log(self._uniform(len(far))) - LAPLACE_TAIL
        out.view(np.uint32)[...] ^= negative << np.uint32(31)


def _log_uniform(words: NDArray[np.uint32], out: NDArray[np.float32]) -> None:
    """Write ln u into `out`, where u = 2^-32, ..., 1 is made of `words` 0..2^31-1."""
    out[...] = words.view(np.int32)  # signed integers are converted faster
    out += 0.5  # avoids ln 0; above 2^23 rounding removes it again, without effect
    out *= 2.0**-31
    np.log(out, out=out)
