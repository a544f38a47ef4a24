"""A link of limited bandwidth that its flows share fairly. Each flow is also limited by a link of its own.

Sharing is max-min fair (Bertsekas and Gallager 1992, *Data Networks*, section 6.5.2): each of n flows gets C/n; a flow
with a smaller cap gets its cap, and the rest is shared among the others. With a common level w,

    rate_i = min(cap_i, w),    sum_i rate_i = min(C, sum_i cap_i).

With equal caps this is processor sharing. Rates change when a flow joins or leaves, and are constant in between.
"""

from __future__ import annotations

import math

import numpy as np

from asyncfl.base.arrays import Floats

FINISHED = 1e-9  # share of a flow's bits below which it counts as finished, because of rounding

_NUMBER, _BITS, _LEFT, _CAP = range(4)


def fair_rates(caps_bps: Floats, capacity_bps: float) -> Floats:
    """Compute the max-min fair rates of flows, (n,) bits per second.

    `caps_bps`: (n,) > 0, largest rate of each flow; inf: no limit. `capacity_bps`: rate of all flows together, > 0.
    """
    order = np.argsort(caps_bps, kind="stable")
    caps = caps_bps[order]
    used = np.concatenate(([0.0], np.cumsum(caps[:-1])))
    level = (capacity_bps - used) / np.arange(len(caps), 0, -1)
    full = np.flatnonzero(caps >= level)
    return caps_bps if len(full) == 0 else np.minimum(caps_bps, level[full[0]])


class FairLink:
    """Active flows on one link. The caller passes the time, which must not go back."""

    def __init__(self, capacity_bps: float) -> None:
        """Create a link without flows. `capacity_bps`: bits per second of all flows together, > 0."""
        self.capacity_bps = capacity_bps
        self._flows = np.empty((4, 0))
        self._rates: Floats | None = None
        self._now_s = 0.0
        self._joined = 0

    def __len__(self) -> int:
        return self._flows.shape[1]

    def join(self, now_s: float, bits: float, cap_bps: float) -> int:
        """Start a flow of `bits` > 0 with at most `cap_bps` > 0 bits per second, and return its number."""
        self._advance(now_s)
        number, self._joined = self._joined, self._joined + 1
        self._flows = np.hstack((self._flows, [[number], [bits], [bits], [cap_bps]]))
        self._rates = None
        return number

    def leave(self, now_s: float, number: int) -> float:
        """End an active flow now and return the bits it has not sent, 0.0 where these are rounding."""
        self._advance(now_s)
        place = int(np.searchsorted(self._flows[_NUMBER], number))
        bits, left = self._flows[_BITS, place], float(self._flows[_LEFT, place])
        self._flows = np.delete(self._flows, place, axis=1)
        self._rates = None
        return left if left > FINISHED * bits else 0.0

    def next_finished(self, now_s: float) -> tuple[float, tuple[int, ...]]:
        """Return the seconds until the next flows finish if no flow joins or leaves, and the numbers of these flows.

        Numbers are in the order of joining. Returns inf and () without active flows.
        """
        self._advance(now_s)
        if not len(self):
            return math.inf, ()
        rates = self.rates
        wait_s = float((self._flows[_LEFT] / rates).min())
        through = self._flows[_LEFT] - rates * wait_s <= FINISHED * self._flows[_BITS]
        return wait_s, tuple(int(number) for number in self._flows[_NUMBER, through])

    @property
    def rates(self) -> Floats:
        """Rates of the active flows, (n,) bits per second, in the order of joining."""
        if self._rates is None:
            self._rates = fair_rates(self._flows[_CAP], self.capacity_bps)
        return self._rates

    def _advance(self, now_s: float) -> None:
        """Reduce the remaining bits of the flows by those sent until `now_s`."""
        if now_s > self._now_s and len(self):
            left = self._flows[_LEFT]
            np.maximum(left - self.rates * (now_s - self._now_s), 0.0, out=left)
        self._now_s = max(now_s, self._now_s)
