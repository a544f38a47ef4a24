"""Attackers are fewer than half, and no quarter of all clients is honest, alike and opposed to the others.

These are the assumptions of the test that certifies a side of a direction and judges clients by it:

1. Fewer than half of the federation's clients attack.
2. Let x be a client's gain along a direction, as a multiple of the usual gain. The x of honest clients extend below
   their middle at most `tail` times as far as above it.
3. If a client is like a quarter of all clients (`likeness`), honest or not, and goes against the others, it is not
   honest. Clients whose labels differ are not alike, unless there are only two or three kinds of them.
4. A client's gains have independent Gaussian noise whose deviation the server knows. Only then are the probabilities
   below bounds. If the server knows of no noise (no privacy, or noise within training) the variance is estimated from
   nine of ten clients. For clients that vary more, or whose updates depend on each other, the probabilities are no
   bounds.

A side is certified only if more than half of *all* clients, seen or not, each have an x at least `clearness` deviations
of their noise above 0. This counts clients, not updates, so sending more often does not help, and a minority cannot
reach it. If clients fall into two well-separated groups, only the upper one counts. Banned clients count as removed
attackers. But this says no more than that *one* of these clients is honest: attackers may side with a few honest
clients whose data are rare, against most of the others. So attackers must not be able to raise the bar that others
have to reach. Let t be the distance of the highest x above c. Honest x are at least c - tail t, where

- c is the median x of all clients for a client that is like a quarter of them (assumption 3), and for a client that is
  below 0 along the common descent of the server's own samples;
- along that descent c is the median of those above 0, and the bar at most -c / 2. So wherever attackers stand, it is
  no higher than -1/3 of the highest x, which is the maximum of min(-c / 2, c - 3 t) over all c;
- for all others c is the lowest that the median of the honest can be, that of all clients without the highest ones,
  which are as many as may attack. This bar is below 0 for certain if a quarter of the clients or more oppose the rest.

A client is struck if its x since one of its updates is below min(0, c - tail t), with an error probability of
`false_ban_rate` for this client in a whole run, however often the test is made (see `is_below_bound`). Its updates are
left out while it is below that bar, with an error probability of `false_flag_rate`. Up to a tenth of the clients that
go further than `widest` above the usual do not count in t: so few cannot make the test abstain. If there are more,
clients differ too much.

Updates are also left out without such proof, and without a strike, where this costs little if it is wrong:

- Along the common descent, those of clients below `least` times the usual x u, the median of those above 0, and below
  u - `spread` a, where a, at most u, is how far nine of ten clients are above u. So where clients differ much along it
  (domains, classes that the samples lack, samples learnt by heart) or noise is strong, only clients that go clearly
  back are left out. It takes half of all clients to be seen, and most of these to be above 0: each counts with the
  probability that its x is, given its noise. Otherwise the samples are not like the clients', and all are let in.
- Along a guessed direction, those of clients below `direction` times the lowest that the median of the honest can be,
  if more than half of the clients are alike and more than half of all are `SURE` deviations above 0. Separation alone
  is no evidence: clients of one class each stand apart, and leaving them out cost the model up to twelve points.

In both cases an x less than `SURE` deviations of its noise below the usual is left out only below 0.

The noise variance is the largest of: that of the noise that the client added, the variation of its x between updates
(`gains`), and that of nine of ten clients that go along. c and t are computed from the last updates including noise;
noise in the highest x raises t, so that fewer clients are judged.

A client's test adds up x_1 + x_2 + ..., where each x_k has a mean of at least 0 and Gaussian noise of known variance
v_k given the past. Then exp(-l sum x - l^2 sum v / 2) is a supermartingale for each l > 0, and so is its average over l
= |N(0, 1 / rho)|. Where sum x < 0, this average is at least

    sqrt(rho / (V + rho)) exp((sum x)^2 / (2 (V + rho))),      V = v_1 + ... + v_n.

By Ville's inequality therefore (Robbins 1970; with l of either sign Howard et al. 2021, equation 14)

    P(some n: sum x < -sqrt((V + rho) log((V + rho) / (rho a^2)))) <= a.

The bound holds at all times simultaneously if rho is fixed before the first x, so the sum may be checked after each
update. To detect clients that were honest at first, a test starts at each of their updates, with a rho that depends on
that update's variance only. The k-th test has error probability a / (k (k + 1)), all together a. Overestimating V makes
the test more cautious. So does the second rho, from the median variance so far, whose bound must be exceeded as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn
from asyncfl.defences.clusters import separate_lower
from asyncfl.defences.evidence.gains import GainHistory, estimate_variances

SURE = 2.0  # standard deviations of its noise that a client's x is above 0 if it surely goes along
BACK = 0.5  # share of the usual x that a client goes back at least if it is struck along the common descent
FEW = 0.1  # largest share of the clients that may go far along without making the test abstain
TWO_GROUPS = (
    "more than half of all clients share a direction, but in two groups well apart, the upper of which is no majority: "
    "two kinds of data, or a few clients that go much further than others"
)
TOO_WIDE = (
    "more than half of all clients share a direction, but more than a tenth go more than {:g} times as far along it as "
    "usual: clients differ too much"
)


@dataclass(frozen=True)
class SideResult:
    """Result of the test along one direction. Arrays are (clients,)."""

    judges: bool  # whether updates are left out by their gains along the direction, certified or not
    certified: bool  # whether more than half of all clients are known to go along the direction
    share: Floats
    """x: gain of each client as a multiple of the usual gain, which is the median of those that go along if enough do,
    and the expected gain (`GainHistory`) otherwise; NaN if unknown."""
    out: Bools  # whether the client's updates are to be left out
    struck: Bools  # whether the client works against the majority, which is a strike
    along: int  # number of clients that are known to go along
    needed: int  # number of clients that must go along
    missing: float
    """Further updates per client until that number is reached, if they are like those so far; inf: not to be expected;
    nan: no more are needed."""
    signal: float  # median over clients of the length of the common step when their last updates arrived
    power: float  # share of the clients not banned that would be left out by now if they sent the opposite of the usual
    obstacle: str = ""  # reason why no side is certified although enough clients go along; empty otherwise


def combine_sides(judging: Sequence[SideResult]) -> SideResult:
    """Combine the results along several directions that judge: a client is left out or struck if it is by
    any of them. The error rates of each direction are shares of the total (`SideTest.judge`), so that they add up to
    it. The share is the least and the power the greatest of any direction; all else is that of the first."""
    return replace(
        judging[0],
        certified=any(one.certified for one in judging),
        share=np.fmin.reduce([one.share for one in judging]),
        out=np.any([one.out for one in judging], axis=0),
        struck=np.any([one.struck for one in judging], axis=0),
        power=max(one.power for one in judging),
    )


def _median_without(values: Floats, above: int) -> float:
    """Return the median of `values` (n,) without the highest `above` of them, of which at least one is left."""
    return float(np.median(np.sort(values)[: max(1, len(values) - above)]))


def _most_go_along(clear: Floats, clients: int) -> bool:
    """Return whether half of `clients` have been seen and most of them are expected to be above 0. `clear`: (n,) x of
    those seen, in standard deviations of its noise."""
    from scipy.special import ndtr

    return 2 * len(clear) >= clients and 2 * float(ndtr(clear).sum()) > len(clear)


def deviation_bound(variance: Floats, level: Floats | float, rho: Floats | float) -> Floats:
    """Return the deviation below its mean, >= 0, that a noisy sum exceeds at any time with probability at most `level`.
    `variance`: V. `level`: a. The bound is tightest for V of about `rho`, and 0 where `rho` is 0."""
    positive = np.asarray(rho) > 0
    rho = np.where(positive, rho, np.nan)
    total = variance + rho
    return np.where(positive, np.sqrt(total * np.log(total / (rho * np.square(level)))), 0.0)


def is_below_bound(
    values: Floats,
    variances: Floats,
    level: float,
    first: Ints | int = 1,
    known_variances: Floats | None = None,
    seen: Bools | None = None,
) -> Bools:
    """Return whether the sum of `values` (..., n) from any position to the end is significantly negative, (...) bool.

    One row holds the values of one client, the newest last. If their means are at least 0, the result is True at any
    time of the run with probability at most `level`. `variances`: (..., n) variance of the noise in each value.
    `first`: (...) running number (1, 2, ...) of the client's first value in the row; below 1 only where that value is
    not `seen`. `known_variances`: (..., n) variances that were known before each value arrived, from which the first
    rho follows; entries of 0, and None, stand for `variances`. `seen`: (..., n) whether each value exists, the others
    and their variances being 0; None: all exist.
    """
    exists = np.ones(values.shape, dtype=bool) if seen is None else seen
    starts = np.maximum(np.asarray(first)[..., None] + np.arange(values.shape[-1]), 1)
    levels = level / (starts * (starts + 1.0))
    total = _suffix_sums(variances)
    at_start = variances if known_variances is None else np.where(known_variances > 0, known_variances, variances)
    bound = np.maximum(
        deviation_bound(total, levels, 4 * at_start), deviation_bound(total, levels, 4 * _median(variances, exists))
    )
    return np.asarray(((_suffix_sums(values) < -bound) & exists).any(axis=-1))


def _suffix_sums(values: Floats) -> Floats:
    """Return the sum of `values` (..., n) from each position to the end."""
    return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]


def _median(values: Floats, marked: Bools) -> Floats:
    """Return the median (..., 1) of those entries of `values` (..., n) that are `marked`; 0 if there are none."""
    number = marked.sum(axis=-1)[..., None]
    ranked = np.sort(np.where(marked, values, np.inf), axis=-1)
    low, high = (np.take_along_axis(ranked, np.maximum(at, 0), axis=-1) for at in ((number - 1) // 2, number // 2))
    return np.where(number > 0, (low + high) / 2, 0.0)


class SideTest(Described):
    """Settings of the test for the honest side of a common direction.

    x is a client's gain along the direction, the weighted sum of its updates' projections on it, as a multiple of the
    usual gain.
    """

    false_ban_rate: Annotated[float, Field(gt=0, lt=1), MeasuredIn("probability")] = 5e-4
    """Probability that noise alone gets an honest client struck at any time of a run. The probability that any of n
    honest clients is struck is at most n times this."""
    false_flag_rate: Annotated[float, Field(gt=0, lt=0.5), MeasuredIn("probability")] = 1e-3
    """Probability that noise alone gets any update of an honest client left out in a run; for any of n honest clients
    at most n times this."""
    window: Annotated[int, Field(ge=2), MeasuredIn("updates")] = 6
    """Number of a client's last updates from which x is computed."""
    clearness: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 3.0
    """Smallest x, in standard deviations of its noise, of a client that is known to go along."""
    direction: Annotated[float, Field(gt=0, lt=1), MeasuredIn("share")] = 0.3
    """Share of the lowest possible median of honest clients below which clients are left out along a guessed direction,
    where clients are alike."""
    least: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] = 0.2
    """Share of the usual x below which clients are left out along the common descent of the server's own samples."""
    spread: Annotated[float, Field(gt=0), MeasuredIn("factor")] = 2.0
    """Factor by which honest clients may be further below the usual x there than nine of ten clients are above it."""
    apart: Annotated[float, Field(gt=0), MeasuredIn("standard deviations")] = 4.0
    """Distance of two groups, in standard deviations of x within both, from which they are separate; a single group,
    cut in two, is 2.6 apart. Only clients of the upper of two groups can be the majority."""
    tail: Annotated[float, Field(ge=1), MeasuredIn("factor")] = 3.0
    """Factor by which honest clients may extend further down than up. With two classes per client the factor was up to
    4, noise included; 2.5 banned one of them."""
    widest: Annotated[float, Field(gt=0), MeasuredIn("1")] = 1.0
    """Largest distance of an x above the usual; if more than a tenth of the clients are beyond it, clients differ too
    much, and no side is certified."""

    def judge(
        self,
        history: GainHistory,
        banned: frozenset[int],
        guesses: int,
        *,
        rooted: bool = False,
        crowded: Bools | None = None,
    ) -> SideResult:
        """Return the result of the test along one direction. `history`: gains of all clients along it. `banned`:
        clients that are neither judged nor counted as seen. `guesses`: number of directions judged at a time, by which
        the error rates are divided. `rooted`: whether the direction is the common descent of the server's own samples.
        `crowded`: (clients,) whether each client is like a quarter of all others (`likeness`), or is judged only if the
        common descent is against it too; None: none is."""
        recent = history.last(self.window)
        gained, expected = recent.gained.sum(axis=1), recent.expected.sum(axis=1)
        known = expected > 0
        known[list(banned)] = False
        share = np.divide(gained, expected, out=np.full(len(gained), np.nan), where=known)
        spread = estimate_variances(recent, share, known)
        deviation = np.sqrt(spread.noise(recent, spread.pooled).sum(axis=1))
        endless = np.select([gained > 0, gained < 0], [np.inf, -np.inf])
        clear = np.divide(gained, deviation, out=endless, where=deviation > 0)
        needed = len(known) // 2 + 1 - len(banned)
        signal = float(np.sqrt(np.median(history.expected[known, -1]))) if known.any() else 0.0
        none = np.zeros(len(known), dtype=bool)
        crowd = none if crowded is None else crowded & known
        result = SideResult(False, False, share, none, none, 0, needed, np.inf, signal, 0.0)
        sure = known & (clear > SURE)
        attackers = (len(known) - len(banned) - 1) // 2
        doubt = np.divide(deviation, expected, out=np.full(len(gained), np.inf), where=known)
        if rooted and _most_go_along(clear[known], len(known) - len(banned)):
            ahead = share[known & (share > 0)]
            middle = float(np.median(ahead))
            above = min(float(np.quantile(share[known], 1 - FEW)) - middle, middle)
            # Attackers far along must not raise the bar above honest clients.
            bar = min(self.least * min(middle, 2 * float(np.median(share[known]))), middle - self.spread * above)
            bars = np.minimum(bar, np.maximum(0.0, middle - SURE * doubt))
            result = replace(result, judges=True, share=share / middle, out=known & (share < bars))
        elif 2 * crowd.sum() > known.sum() and sure.sum() >= needed:
            # Here too; so this is the lowest that the median of the honest can be.
            usual = max(0.0, float(min(np.median(share[sure]), _median_without(share[known], attackers))))
            bars = np.maximum(0.0, np.minimum(self.direction * usual, usual - SURE * doubt))
            result = replace(result, judges=True, share=share / np.median(share[sure]), out=known & (share < bars))
        either = known & (clear > self.clearness) & (recent.counts >= 2)
        far, lower = none, none.copy()
        if either.any():
            far = known & (share > (1 + self.widest) * np.median(share[either]))
        near = known & ~far
        lower[near] = separate_lower(share[near], self.apart)
        along = either & ~lower
        result = replace(result, along=int(along.sum()))
        if along.sum() < max(needed, 1):
            if either.sum() >= max(needed, 1):
                return replace(result, obstacle=TWO_GROUPS)
            return replace(result, missing=self._missing(clear, recent.counts, known, needed))
        if far.sum() > FEW * known.sum():
            return replace(result, obstacle=TOO_WIDE.format(1 + self.widest))
        usual = float(np.median(share[along]))
        share = share / usual
        highest = float(share[near].max())
        middles = [_median_without(share[near], above) for above in (0, attackers)]
        if rooted:
            middles = [float(np.median(share[known & (share > 0)]))] * 2
        # c - tail t, the lowest x of honest clients.
        least = [min(-BACK * middle if rooted else 0.0, middle - self.tail * (highest - middle)) for middle in middles]
        strike_bar = np.where(crowd, *least)
        spread = estimate_variances(history, share * usual, known)
        among = spread.own[along & spread.several]
        noise = spread.noise(history, float(np.quantile(among, 0.9)) if len(among) else spread.pooled)
        length, first = usual * history.expected, history.counts - history.gained.shape[1] + 1

        def below(gained: Floats, bars: Floats, rate: float) -> Bools:
            """Return whether each client's gains (clients, kept) are below `bars` (clients,), in usual gains, with
            error probability `rate` over all directions."""
            values = gained - bars[:, None] * length
            # Clients that are no longer below the bar are accepted again.
            short = np.asarray(known & (values[:, -self.window :].sum(axis=1) < 0))
            now = np.flatnonzero(short)
            seen, before = history.expected[now] > 0, history.variance[now]
            short[now] = is_below_bound(values[now], noise[now], rate / guesses, first[now], before, seen)
            return short

        struck = below(history.gained, strike_bar, self.false_ban_rate)
        out = result.out | struck | below(history.gained, strike_bar, self.false_flag_rate)
        power = float(below(-length, strike_bar, self.false_flag_rate).sum() / (len(known) - len(banned)))
        return replace(
            result, certified=True, judges=True, share=share, out=out, struck=struck, missing=np.nan, power=power
        )

    def _missing(self, clear: Floats, counts: Ints, known: Bools, needed: int) -> float:
        """Estimate `SideResult.missing`; 2 if fewer than `needed` clients have sent updates. `clear`: (clients,)
        standard deviations of each gain above 0, assumed to grow with the square root of the number of updates."""
        seen = known & (counts > 0)
        if seen.sum() < needed:
            return 2.0
        # The last of the needed clients decides: a few clear clients are no common direction.
        last = np.argsort(-np.where(seen, clear, -np.inf))[needed - 1]
        if clear[last] <= 0:
            return float("inf")
        return float(max(1.0, np.ceil(counts[last] * ((self.clearness / clear[last]) ** 2 - 1))))
