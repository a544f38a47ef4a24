"""Which side is honest, and who is not on it: what can be said of a track, with what certainty.

Assumptions (the only ones):

1. Fewer than half of the federation's clients attack.
2. How far honest clients go along a direction that more than half of all clients share, as a multiple x of the usual,
   is spread about its middle no further down than `tail` times as far as up. Data that differ spread both ways. The
   middle is that of all clients, not of those alone that go along, who are the upper part of all where data differ
   much; attackers that oppose the others can but lower it. They can add to what is seen above, which makes the test
   more cautious, but cannot take away honest clients from there. A single one that goes far enough along makes it
   abstain while it does so, which is told.
3. What a client gains varies by Gaussian noise of its own, of the deviation that the server knows, drawn anew for each
   update. Only then are the probabilities below bounds. Where the server knows of none (no privacy, or noise within
   training) the variance is estimated, from how much nine of ten clients are seen to vary: for who varies more, or
   whose updates depend on each other, they are no bounds.

The side is certified only where more than half of *all* clients, seen or not, each stand `clearness` deviations of
their own noise above 0 along the direction: a count of clients, not of updates, so that sending more often counts for
nothing, and a minority cannot have it. Where clients are in two groups well apart, the count is of the upper one.
Clients that are banned count as attackers that are gone. Then

- an update is left out where its sender's x is below min(0, c - tail t), c the median x (of the upper group, where
  there are two well apart) and t how far the highest x is above c, but for noise of probability `false_flag_rate`;
  below min(`direction`, c - tail t) where it is in the lower of two groups;
- a client is struck where its x since some update of its is below min(0, c - tail t), c the median of all, in groups or
  not, since honest clients of few labels are in groups too; but for noise that has probability `false_ban_rate` for
  this client in a whole run, however often one looks (see `bounds`). Who merely does not help is left out, only who
  works against the majority is banned.

Noise is the larger of what the client itself added and what its x is seen to vary by from update to update (`spread`);
for strikes at least as much as nine of ten of those vary that go along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described
from asyncfl.defences.evidence.bounds import falls_short
from asyncfl.defences.evidence.spread import spread_of
from asyncfl.defences.evidence.track import Floats, Track
from asyncfl.defences.two_means import lower_cluster
from asyncfl.quantities import MeasuredIn

SAME = 0.2
"""Difference of x between two groups that is none."""
APART = (
    "more than half of all clients share a direction, but in two groups well apart, the upper of which is no majority: "
    "two kinds of data, or a few clients that go much further than others"
)


@dataclass(frozen=True)
class Sides:
    """What is known of the clients along one direction. Arrays are (clients,)."""

    certified: bool
    """Whether more than half of all clients are known to go along it."""
    share: Floats
    """x: how far each goes along, 1 like the usual of them; NaN of whom nothing is known."""
    out: NDArray[np.bool_]
    """Whose updates are to be left out."""
    struck: NDArray[np.bool_]
    """Who works against the majority."""
    along: int
    """Clients that are known to go along."""
    needed: int
    """Clients that have to."""
    missing: float
    """Further updates per client until there are that many, if these are like the ones so far; inf: that is not to be
    expected, nan: none are missing."""
    signal: float
    """Length of the step that clients have in common, as it was when their last updates came; median over clients."""
    power: float
    """Share of the clients not banned that would be left out by now if they sent the opposite of the usual."""
    hindered: str = ""
    """Why nothing is certified although they are known to go along, in words; empty where that is not so."""


def together(certified: Sequence[Sides]) -> Sides:
    """What is known along several directions whose sides are `certified`: who is out or struck along one of them is.

    The levels of each are shares of the whole (`SideTest.judge`), so that the probabilities of error add up to it. Who
    goes along is counted along the first; a share is the least along any.
    """
    first, *others = certified
    share, out, struck = first.share, first.out, first.struck
    for other in others:
        share, out, struck = np.fmin(share, other.share), out | other.out, struck | other.struck
    return replace(first, share=share, out=out, struck=struck, power=max(one.power for one in certified))


class SideTest(Described):
    """When a common direction is taken for that of the honest, and who is judged by it."""

    false_ban_rate: Annotated[float, Field(gt=0, lt=1), MeasuredIn("probability")] = 5e-4
    """Probability that noise has one honest client struck at any time of a run; of n honest clients any is struck in at
    most n times this share of runs."""
    false_flag_rate: Annotated[float, Field(gt=0, lt=0.5), MeasuredIn("probability")] = 1e-3
    """Probability that noise has one honest update left out."""
    window: Annotated[int, Field(ge=2), MeasuredIn("updates")] = 6
    """Last updates of a client that its x is taken from."""
    clearness: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 3.0
    """Standard deviations above 0 from which on a client is known to go along."""
    direction: Annotated[float, Field(gt=0, lt=1), MeasuredIn("share")] = 0.3
    """x from which on nobody is left out of the lower of two groups."""
    apart: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 4.0
    """Standard deviations (of x within both) that two groups of clients lie apart; one group, cut in two, lies 2.6
    apart. Where there are two, only those of the upper one can be the majority."""
    tail: Annotated[float, Field(ge=1), MeasuredIn("factor")] = 2.5
    """How much further down than up honest clients may be spread."""
    widest: Annotated[float, Field(gt=0), MeasuredIn("1")] = 1.0
    """How far the highest x may be above 1; beyond, clients are too different to be compared, and nobody is judged. One
    client that goes so far suffices, as long as it is not banned."""

    def judge(self, track: Track, banned: frozenset[int], guesses: int) -> Sides:
        """What is known from `track`, one of `guesses`; clients that are `banned` are out of the count."""
        recent = track.last(self.window)
        gained, expected = recent.gained.sum(axis=1), recent.expected.sum(axis=1)
        known = expected > 0
        known[list(banned)] = False
        share = np.divide(gained, expected, out=np.full(len(gained), np.nan), where=known)
        spread = spread_of(recent, share, known)
        deviation = np.sqrt(spread.noise(recent, spread.pooled).sum(axis=1))
        clear = np.divide(gained, deviation, out=np.where(gained > 0, np.inf, 0.0), where=deviation > 0)
        along = known & (clear > self.clearness) & (np.minimum(recent.counts, 2) == 2)
        lower = self._lower_group(share, known)
        either = int(along.sum())
        along &= ~lower
        needed = len(known) // 2 + 1 - len(banned)
        count = int(along.sum())
        signal = float(np.sqrt(np.median(track.expected[known, -1]))) if known.any() else 0.0
        nobody = np.zeros(len(known), dtype=bool)
        if count < max(needed, 1):
            if either >= max(needed, 1):
                return Sides(False, share, nobody, nobody, count, needed, np.inf, signal, 0.0, APART)
            missing = self._missing(clear, recent.counts, known, needed)
            return Sides(False, share, nobody, nobody, count, needed, missing, signal, 0.0)
        usual = float(np.median(share[along]))
        share = share / usual
        highest = float(np.nanmax(share))
        lowest, least_of_all = self._lowest(share[~lower]), self._lowest(share)
        if highest - 1 > self.widest:
            return Sides(False, share, nobody, nobody, count, needed, np.inf, signal, 0.0, self._wide)
        slack = NormalDist().inv_cdf(1 - self.false_flag_rate / guesses) * deviation
        bar = np.where(lower, min(self.direction, lowest), min(0.0, lowest)) * usual * expected
        out = known & (gained + slack < bar)
        power = known & (-usual * expected + slack < bar)
        whole = self._noise_of_majority(track, share * usual, known, along)
        struck = nobody.copy()
        for client in np.flatnonzero(known & (gained < 0)):
            kept = track.expected[client] > 0
            least = min(0.0, least_of_all) * usual * track.expected[client][kept]
            level = self.false_ban_rate / guesses
            first = int(track.counts[client]) - int(kept.sum()) + 1
            values, known_before = track.gained[client][kept] - least, track.variance[client][kept]
            struck[client] = falls_short(values, whole[client][kept], level, first, known_before)
        left = len(known) - len(banned)
        found = float(power.sum() / max(left, 1))
        return Sides(True, share, out | struck, struck, count, needed, np.nan, signal, found)

    def _lowest(self, share: Floats) -> float:
        """How far down honest clients may be, if the middle of `share` is that of the honest; NaN does not count."""
        middle = float(np.nanmedian(share))
        return middle - self.tail * (float(np.nanmax(share)) - middle)

    @property
    def _wide(self) -> str:
        return (
            "more than half of all clients share a direction, but one at least goes more than "
            f"{1 + self.widest:g} times as far along it as usual: clients differ too much, or one has it seem so"
        )

    def _lower_group(self, share: Floats, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(clients,) who is in the lower of two groups that are well `apart`; nobody where there are no two."""
        group = np.zeros(len(known), dtype=bool)
        if known.sum() < 2:
            return group
        values = share[known]
        low = lower_cluster(values)
        if not low.any() or low.all():
            return group
        below, above = values[low], values[~low]
        within = np.sqrt((below.var() * len(below) + above.var() * len(above)) / len(values))
        group[known] = low & bool(above.mean() - below.mean() > max(self.apart * within, SAME))
        return group

    def _noise_of_majority(
        self, track: Track, share: Floats, known: NDArray[np.bool_], along: NDArray[np.bool_]
    ) -> Floats:
        """(clients, kept) variance of what was gained: at least that of nine of ten of those that go `along`."""
        spread = spread_of(track, share, known)
        among = spread.own[along & spread.several]
        return spread.noise(track, float(np.quantile(among, 0.9)) if len(among) else spread.pooled)

    def _missing(self, clear: Floats, counts: NDArray[np.int64], known: NDArray[np.bool_], needed: int) -> float:
        """See `Sides.missing`; how clear a client stands grows with the root of its updates."""
        seen = known & (counts > 0)
        if seen.sum() < needed:
            return 2.0
        # The last of as many as are needed decides: that a few stand clear is no common direction.
        order = np.argsort(-np.where(seen, clear, -np.inf))
        last = order[needed - 1]
        if clear[last] <= 0:
            return float("inf")
        return float(max(1.0, np.ceil(counts[last] * ((self.clearness / clear[last]) ** 2 - 1))))
