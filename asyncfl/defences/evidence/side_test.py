"""Which side is honest, and who is not on it: what can be said of a history, with what certainty.

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
Clients that are banned count as attackers that are gone. Then, with c the median x of all clients and t how far the
highest x is above c, honest x are at least c - tail t, and

- a client is struck while its x since some update of its is below min(0, c - tail t), but for noise that has
  probability `false_ban_rate` for this client in a whole run, however often one looks (see `bounds`);
- its updates are left out while it is below that bar, but for noise of probability `false_flag_rate`. Where clients
  are in two groups well apart, the bar of the lower is min(`direction`, u - gap w), if that is higher, with u the
  lowest x of the upper group and w how wide that is.

Who merely does not help is left out, only who works against the majority is banned. Flags so assume besides that
honest clients in two groups (of few labels each, or of another domain) lie no further apart than `gap` times as far as
the upper is wide. That they are apart is no evidence by itself: where they were left out for it the model lost up to
eight points. Only where clients' data are known to be of one kind u - gap w is c - tail t of the upper group.

Noise is the larger of what the client itself added and what its x is seen to vary by from update to update (`spread`),
and at least as much as nine of ten of those vary that go along. c and t are read from the last updates, with their
noise: that of the highest x makes t longer than it is, so that fewer are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described
from asyncfl.defences.evidence.bounds import is_below_bound
from asyncfl.defences.evidence.gain_history import Floats, GainHistory
from asyncfl.defences.evidence.gain_variance import estimate_variances
from asyncfl.defences.two_means import lower_cluster
from asyncfl.quantities import MeasuredIn

MIN_GAP = 0.2
"""Difference of x between two groups that is none."""
TWO_GROUPS = (
    "more than half of all clients share a direction, but in two groups well apart, the upper of which is no majority: "
    "two kinds of data, or a few clients that go much further than others"
)


@dataclass(frozen=True)
class SideResult:
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
    obstacle: str = ""
    """Why nothing is certified although they are known to go along, in words; empty where that is not so."""


def combine_sides(certified: Sequence[SideResult]) -> SideResult:
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
    """Probability that noise has any update of one honest client left out in a run; of n honest clients any is in at
    most n times this share of runs."""
    window: Annotated[int, Field(ge=2), MeasuredIn("updates")] = 6
    """Last updates of a client that its x is taken from."""
    clearness: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 3.0
    """Standard deviations above 0 from which on a client is known to go along."""
    direction: Annotated[float, Field(gt=0, lt=1), MeasuredIn("share")] = 0.3
    """x from which on nobody is left out of the lower of two groups."""
    apart: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 4.0
    """Standard deviations (of x within both) that two groups of clients lie apart; one group, cut in two, lies 2.6
    apart. Where there are two, only those of the upper one can be the majority."""
    tail: Annotated[float, Field(ge=1), MeasuredIn("factor")] = 3.0
    """How much further down than up honest clients may be spread. Where each holds two classes they were up to 4 times,
    noise included; 2.5 had one of them banned."""
    gap: Annotated[float, Field(ge=1), MeasuredIn("factor")] = 1.5
    """How much further below the upper of two groups well apart honest clients may be than that group is wide."""
    widest: Annotated[float, Field(gt=0), MeasuredIn("1")] = 1.0
    """How far the highest x may be above 1; beyond, clients are too different to be compared, and nobody is judged. One
    client that goes so far suffices, as long as it is not banned."""

    def judge(
        self, history: GainHistory, banned: frozenset[int], guesses: int, *, one_kind: bool = False
    ) -> SideResult:
        """What is known from `history`, one of `guesses`; clients that are `banned` are out of the count.

        `one_kind`: whether clients' data are known to be of one kind, so that of two groups well apart one attacks.
        """
        recent = history.last(self.window)
        gained, expected = recent.gained.sum(axis=1), recent.expected.sum(axis=1)
        known = expected > 0
        known[list(banned)] = False
        share = np.divide(gained, expected, out=np.full(len(gained), np.nan), where=known)
        spread = estimate_variances(recent, share, known)
        deviation = np.sqrt(spread.noise(recent, spread.pooled).sum(axis=1))
        clear = np.divide(gained, deviation, out=np.where(gained > 0, np.inf, 0.0), where=deviation > 0)
        along = known & (clear > self.clearness) & (np.minimum(recent.counts, 2) == 2)
        lower = self._lower_group(share, known)
        either = int(along.sum())
        along &= ~lower
        needed = len(known) // 2 + 1 - len(banned)
        count = int(along.sum())
        signal = float(np.sqrt(np.median(history.expected[known, -1]))) if known.any() else 0.0
        nobody = np.zeros(len(known), dtype=bool)
        if count < max(needed, 1):
            if either >= max(needed, 1):
                return SideResult(False, share, nobody, nobody, count, needed, np.inf, signal, 0.0, TWO_GROUPS)
            missing = self._missing(clear, recent.counts, known, needed)
            return SideResult(False, share, nobody, nobody, count, needed, missing, signal, 0.0)
        usual = float(np.median(share[along]))
        share = share / usual
        if float(np.nanmax(share)) - 1 > self.widest:
            return SideResult(False, share, nobody, nobody, count, needed, np.inf, signal, 0.0, self._wide)
        least_of_all = self._lowest(share)
        least = max(least_of_all, self._beneath(share[known & ~lower], one_kind)) if lower.any() else least_of_all
        bar = np.minimum(np.where(lower, self.direction, 0.0), least)
        low = np.full(len(known), min(0.0, least_of_all))
        noise = self._noise_of_majority(history, share * usual, known, along)
        length, first = usual * history.expected, history.counts - history.gained.shape[1] + 1

        def below(gained: Floats, bars: Floats, rate: float) -> NDArray[np.bool_]:
            values = gained - bars[:, None] * length
            # Who was below once but is not by now is let in again.
            short = np.asarray(known & (values[:, -self.window :].sum(axis=1) < 0))
            now = np.flatnonzero(short)
            seen, before = history.expected[now] > 0, history.variance[now]
            short[now] = is_below_bound(values[now], noise[now], rate / guesses, first[now], before, seen)
            return short

        struck = below(history.gained, low, self.false_ban_rate)
        out = struck | below(history.gained, bar, self.false_flag_rate)
        power = below(-length, bar, self.false_flag_rate)
        found = float(power.sum() / (len(known) - len(banned)))
        return SideResult(True, share, out, struck, count, needed, np.nan, signal, found)

    def _lowest(self, share: Floats) -> float:
        """How far down honest clients may be, if the middle of `share` is that of the honest; NaN does not count."""
        middle = float(np.nanmedian(share))
        return middle - self.tail * (float(np.nanmax(share)) - middle)

    def _beneath(self, upper: Floats, one_kind: bool) -> float:
        """How far down honest clients may be below the x of the `upper` of two groups."""
        if one_kind:
            return self._lowest(upper)
        return float(upper.min() - self.gap * (upper.max() - upper.min()))

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
        group[known] = low & bool(above.mean() - below.mean() > max(self.apart * within, MIN_GAP))
        return group

    def _noise_of_majority(
        self, history: GainHistory, share: Floats, known: NDArray[np.bool_], along: NDArray[np.bool_]
    ) -> Floats:
        """(clients, kept) variance of what was gained: at least that of nine of ten of those that go `along`."""
        spread = estimate_variances(history, share, known)
        among = spread.own[along & spread.several]
        return spread.noise(history, float(np.quantile(among, 0.9)) if len(among) else spread.pooled)

    def _missing(self, clear: Floats, counts: NDArray[np.int64], known: NDArray[np.bool_], needed: int) -> float:
        """See `SideResult.missing`; how clear a client stands grows with the root of its updates."""
        seen = known & (counts > 0)
        if seen.sum() < needed:
            return 2.0
        # The last of as many as are needed decides: that a few stand clear is no common direction.
        order = np.argsort(-np.where(seen, clear, -np.inf))
        last = order[needed - 1]
        if clear[last] <= 0:
            return float("inf")
        return float(max(1.0, np.ceil(counts[last] * ((self.clearness / clear[last]) ** 2 - 1))))
