"""Quantisation: few bits for each number, with unbiased random rounding.

The low-precision quantiser of FedPAQ (Reisizadeh et al. 2020, example 1; QSGD, Alistarh et al. 2017): with s levels,

    Q_i(x) = |x| sign(x_i) xi_i / s,    l = floor(s |x_i| / |x|),
    xi_i = l + 1 with probability s |x_i| / |x| - l, else l.

E Q(x) = x. One bit is the sign, so b bits give s = 2^(b-1) - 1 levels. |x| is a norm over the numbers that share a
scale: all of them, or a bucket (QSGD, section 4). With the L2 norm of many numbers, most are rounded to 0 or the first
level. With the largest absolute value, no number moves further than |x| / s, and for n numbers
E |Q(x) - x|^2 <= n |x|^2 / (4 s^2).

A published model can be quantised the same way before clients download it, with the same result for all of them (Amiri
et al. 2020, "Federated learning with quantized global model updates", quantise the difference from the previous model;
Philippenko and Dieuleveut 2020, Artemis, both directions).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.client.compression.compression import BYTES_PER_NUMBER, Compression, of_length


class Quantised(Compression):
    """Quantisation to a sign and a level for each number, and a scale for each bucket of numbers. Source: Reisizadeh et
    al. 2020, example 1; Alistarh et al. 2017."""

    kind: Literal["quantised"] = "quantised"
    bits: Annotated[int, Field(ge=2, le=16), MeasuredIn("bits")] = 8
    """Bits for each number, 2..16, its sign included. Source: Reisizadeh et al. 2020, example 1."""
    scale: Literal["largest", "l2"] = "largest"
    """Scale of a bucket: its largest absolute value, or its L2 norm (FedPAQ)."""
    bucket: Annotated[int, Field(ge=1), MeasuredIn("numbers")] | None = None
    """Numbers that share a scale of 4 bytes; null: all numbers share one."""

    @property
    def levels(self) -> int:
        """s: number of levels between 0 and the scale."""
        return int(2 ** (self.bits - 1)) - 1

    def rounding_norm(self, norm: float, largest: float, n_parameters: int) -> float:
        # No number moves by more than a level, the scale of its bucket divided by `levels`.
        of_norm = math.sqrt(min(self.bucket or n_parameters, n_parameters)) * norm
        return (of_norm if self.scale == "l2" else min(of_norm, math.sqrt(n_parameters) * largest)) / self.levels

    def payload_bytes(self, n_parameters: int) -> int:
        return -(-self.bits * n_parameters // 8) + BYTES_PER_NUMBER * self._buckets(n_parameters)

    def packed(self, update: Vector, random: np.random.Generator) -> bytes:
        scales, codes = np.zeros(self._buckets(len(update)), "<f4"), np.full(len(update), self.levels, np.uint16)
        for place, part in enumerate(self._parts(len(update))):
            numbers = update[part].astype(np.float64)
            scale = float(np.abs(numbers).max() if self.scale == "largest" else np.sqrt(np.dot(numbers, numbers)))
            scales[place] = scale = _rounded_up(scale)
            if not np.isfinite(scale):
                continue
            steps = numbers * (self.levels / scale) if scale > 0 else numbers
            # Adding a uniform draw and rounding down rounds up with the probability of the fraction, for either sign.
            rounded = np.clip(np.floor(steps + random.random(len(numbers))), -self.levels, self.levels)
            codes[part] += rounded.astype(np.int16).view(np.uint16)
        return scales.tobytes() + _bits_of(codes, self.bits)

    def unpacked(self, payload: bytes | memoryview, n_parameters: int) -> NDArray[np.float32]:
        payload = of_length(payload, self.payload_bytes(n_parameters))
        end = BYTES_PER_NUMBER * self._buckets(n_parameters)
        scales, codes = np.frombuffer(payload[:end], "<f4"), _codes_of(payload[end:], self.bits, n_parameters)
        if (codes > 2 * self.levels).any():
            raise ValueError(f"a number of {self.bits} bits must be at most {2 * self.levels}, got {codes.max()}")
        if (scales < 0).any():
            raise ValueError(f"a scale must be >= 0, got {scales.min():g}")
        read = np.empty(n_parameters, np.float32)
        for scale, part in zip(scales.tolist(), self._parts(n_parameters), strict=True):
            if np.isfinite(scale):
                read[part] = (codes[part].astype(np.float64) - self.levels) * (scale / self.levels)
            else:
                read[part] = np.nan
        return read

    def _buckets(self, n_parameters: int) -> int:
        return min(n_parameters, 1) if self.bucket is None else -(-n_parameters // self.bucket)

    def _parts(self, n_parameters: int) -> Iterator[slice]:
        """Iterate over the slices of the buckets."""
        size = max(1, n_parameters if self.bucket is None else self.bucket)
        return (slice(start, start + size) for start in range(0, n_parameters, size))


def _rounded_up(scale: float) -> float:
    """Round up to float32, the precision in which the scale is sent and numbers are divided by it."""
    with np.errstate(over="ignore"):
        near = np.float32(scale)
    return float(np.nextafter(near, np.float32(np.inf)) if near < scale else near)


def _bits_of(codes: NDArray[np.uint16], bits: int) -> bytes:
    """Pack the lowest `bits` bits of each of `codes` (n,), least significant first."""
    if bits in (8, 16):
        return codes.astype(f"<u{bits // 8}").tobytes()
    singly = (codes[:, None] >> np.arange(bits, dtype=np.uint16)) & np.uint16(1)
    return np.packbits(singly.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def _codes_of(payload: memoryview, bits: int, n: int) -> NDArray[np.uint16]:
    """Unpack the codes (n,) that `_bits_of` packed."""
    if bits in (8, 16):
        return np.frombuffer(payload, f"<u{bits // 8}").astype(np.uint16)
    singly = np.unpackbits(np.frombuffer(payload, np.uint8), count=bits * n, bitorder="little").reshape(n, bits)
    powers = np.uint16(1) << np.arange(bits, dtype=np.uint16)
    codes: NDArray[np.uint16] = singly.astype(np.uint16) @ powers
    return codes
