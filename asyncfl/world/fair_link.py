"""A link of limited bandwidth whose flows share it fairly, each limited by a link of its own besides.

Max-min fair (Bertsekas and Gallager 1992, *Data Networks*, section 6.5.2): of n flows each gets C/n; who cannot use
that much has what it can use, and what it leaves is shared among the others. So with levels filled up like water,

    rate_i = min(cap_i, w),    sum_i rate_i = min(C, sum_i cap_i).

With equal caps that is processor sharing. Rates change when a flow joins or leaves, and are constant in between.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

THROUGH = 1e-9
"""Share of a flow's bits that rounding may leave of one that is through."""

_NUMBER, _BITS, _LEFT, _CAP = range(4)


def fair_rates(caps_bps: NDArray[np.float64], capacity_bps: float) -> NDArray[np.float64]:
    """Max-min fair rates of flows, (n,) bits per second. `caps_bps`: (n,) > 0, what each can use; inf: anything."""
    order = np.argsort(caps_bps, kind="stable")
    caps = caps_bps[order]
    used = np.concatenate(([0.0], np.cumsum(caps[:-1])))
    level = (capacity_bps - used) / np.arange(len(caps), 0, -1)
    full = np.flatnonzero(caps >= level)
    return caps_bps if len(full) == 0 else np.minimum(caps_bps, level[full[0]])


class FairLink:
    """The flows under way on one link. Its clock is whoever calls: times may not go back."""

    def __init__(self, capacity_bps: float) -> None:
        """`capacity_bps`: bits per second of all flows together, > 0."""
        self.capacity_bps = capacity_bps
        self._flows = np.empty((4, 0))
        self._rates: NDArray[np.float64] | None = None
        self._now_s = 0.0
        self._joined = 0

    def __len__(self) -> int:
        """Flows under way."""
        return self._flows.shape[1]

    def join(self, now_s: float, bits: float, cap_bps: float) -> int:
        """Number of a flow of `bits` > 0 that begins now and can use `cap_bps` > 0 bits per second at most."""
        self._advance(now_s)
        number, self._joined = self._joined, self._joined + 1
        self._flows = np.hstack((self._flows, [[number], [bits], [bits], [cap_bps]]))
        self._rates = None
        return number

    def leave(self, now_s: float, number: int) -> float:
        """Bits that a flow had still to send when it ends now; 0.0 where only rounding leaves some."""
        self._advance(now_s)
        place = int(np.searchsorted(self._flows[_NUMBER], number))
        if place == len(self) or self._flows[_NUMBER, place] != number:
            raise ValueError(f"flow {number} is not under way")
        bits, left = self._flows[_BITS, place], float(self._flows[_LEFT, place])
        self._flows = np.delete(self._flows, place, axis=1)
        self._rates = None
        return left if left > THROUGH * bits else 0.0

    def next_finished(self, now_s: float) -> tuple[float, tuple[int, ...]]:
        """Seconds from now until the next flows are through, if nobody joins or leaves, and which these are, in the
        order in which they joined; inf and () without any."""
        self._advance(now_s)
        if not len(self):
            return math.inf, ()
        rates = self.rates
        wait_s = float((self._flows[_LEFT] / rates).min())
        through = self._flows[_LEFT] - rates * wait_s <= THROUGH * self._flows[_BITS]
        return wait_s, tuple(int(number) for number in self._flows[_NUMBER, through])

    @property
    def rates(self) -> NDArray[np.float64]:
        """(n,) bits per second of the flows under way, in the order in which they joined."""
        if self._rates is None:
            self._rates = fair_rates(self._flows[_CAP], self.capacity_bps)
        return self._rates

    def _advance(self, now_s: float) -> None:
        if now_s > self._now_s and len(self):
            left = self._flows[_LEFT]
            np.maximum(left - self.rates * (now_s - self._now_s), 0.0, out=left)
        self._now_s = max(now_s, self._now_s)
