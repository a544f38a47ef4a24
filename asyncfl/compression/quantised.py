"""Few bits for each number, rounded at random so that the mean is right.

The low-precision quantiser of FedPAQ (Reisizadeh et al. 2020, example 1; QSGD, Alistarh et al. 2017): with s levels,

    Q_i(x) = |x| sign(x_i) xi_i / s,    l = floor(s |x_i| / |x|),
    xi_i = l + 1 with probability s |x_i| / |x| - l, else l.

E Q(x) = x. One bit is the sign, so that b bits have s = 2^(b-1) - 1 levels. |x| is a norm of what the scale is sent
for: of all numbers, or of buckets of them (QSGD, section 4). With the L2 norm of many numbers most are rounded to 0 or
to the first level; with the largest absolute value no number moves further than |x| / s, and of n numbers
E |Q(x) - x|^2 <= n |x|^2 / (4 s^2).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.compression.base import BYTES_PER_NUMBER, Compression
from asyncfl.messages import Vector
from asyncfl.quantities import MeasuredIn


class Quantised(Compression):
    """Each number as a sign and one of few levels, and a scale for each bucket of numbers.

    Source: Reisizadeh et al. 2020, example 1; Alistarh et al. 2017.
    """

    kind: Literal["quantised"] = "quantised"
    bits: Annotated[int, Field(ge=2, le=16), MeasuredIn("bits")] = 8
    """Bits for each number, 2..16, its sign included. Source: Reisizadeh et al. 2020, example 1."""
    scale: Literal["largest", "l2"] = "largest"
    """What a number is measured by: the largest absolute value of its bucket, or the bucket's L2 norm (FedPAQ)."""
    bucket: Annotated[int, Field(ge=1), MeasuredIn("numbers")] | None = None
    """Numbers that share a scale, which takes four bytes; null: all of them."""

    @property
    def levels(self) -> int:
        """s: steps between 0 and the scale."""
        return int(2 ** (self.bits - 1)) - 1

    def payload_bytes(self, n_parameters: int) -> int:
        """The bits of all numbers, and the scales."""
        buckets = 1 if self.bucket is None else -(-n_parameters // self.bucket)
        return -(-self.bits * n_parameters // 8) + BYTES_PER_NUMBER * buckets

    def decoded(self, update: Vector, random: np.random.Generator) -> NDArray[np.float32]:
        """The update, rounded at random. A bucket with a number that is not finite has none that is."""
        size = len(update) if self.bucket is None else self.bucket
        read = np.empty_like(update)
        for start in range(0, len(update), max(1, size)):
            part = update[start : start + size].astype(np.float64)
            scale = float(np.abs(part).max() if self.scale == "largest" else np.sqrt(np.dot(part, part)))
            if not np.isfinite(scale):
                read[start : start + size] = np.nan
                continue
            steps = part * (self.levels / scale) if scale > 0 else part
            # Rounding down what a uniform draw was added to: up with the probability of the fraction, either sign.
            rounded = np.clip(np.floor(steps + random.random(len(part))), -self.levels, self.levels)
            read[start : start + size] = rounded * (scale / self.levels)
        return read
