"""How a claim is judged: each check as a list of comparisons, each comparison an interval over seeds.

A comparison is oriented so that the claim says "above 0". The claim holds if every interval that it rests on lies above
0, does not hold if one reaches no further than 0 (or, of several ways to be true, all do), and is not decided
otherwise. What ties in every seed is therefore not better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from asyncfl.analysis.grid import Floats, Grid, MissingError, describe
from asyncfl.analysis.labels import TARGETS, axis_label, number, value_label
from asyncfl.analysis.statistics import Interval, paired, t_interval
from asyncfl.experiment import Alike, AtLeast, BestAt, Claim, Crossover, InteriorBest, Near, NoWorse, Order, Times
from asyncfl.experiment.claim import ClaimBase, PairClaim

LISTED = 8
"""Points of an axis up to which all measured values are written out."""

Answer = Literal["holds", "does not hold", "not decided"]


@dataclass(frozen=True)
class Finding:
    """What a check found at one combination of the other axes."""

    at: dict[str, Any]
    answer: Answer
    measured: str
    """The numbers, in a few words."""
    reason: str
    """What decided, in one line."""
    seeds: int


def findings(claim: Claim, grid: Grid) -> list[Finding]:
    """One finding per combination of the axes that the claim leaves open.

    Raises MissingError where the grid lacks what the claim needs.
    """
    # an axis that the value itself runs over ("best T of ...") is not left open
    taken = [axis for place, axis in claim.axes_named if place != "where"]
    if isinstance(claim, AtLeast):
        return [_at_least(claim, grid, at) for at in grid.points(claim.where, taken)]
    if isinstance(claim, Near):
        return [_near(claim, grid, at) for at in grid.points(claim.where, taken)]
    judge = {
        "order": _order,
        "best_at": _best_at,
        "interior_best": _interior_best,
        "crossover": _crossover,
        "no_worse": _no_worse,
        "alike": _alike,
        "times": _times,
    }[claim.check]
    return [judge(claim, grid, at) for at in grid.points(claim.where, taken)]  # type: ignore[operator]


def _along(claim: Claim, grid: Grid, axis: str) -> tuple[Any, ...]:
    """The axis's values that the claim speaks about, in order."""
    if axis not in claim.where:
        return grid.axes[axis]
    return tuple(point[axis] for point in grid.points({axis: claim.where[axis]}, [a for a in grid.axes if a != axis]))


def _values(claim: Claim, grid: Grid, at: dict[str, Any], axis: str) -> dict[Any, Floats]:
    values = {value: _read(claim, grid, {**at, axis: value}) for value in _along(claim, grid, axis)}
    # a formula says nothing where it is not defined
    values = {value: x for value, x in values.items() if not np.isnan(x).all()}
    if len(values) < 2:
        raise MissingError(f"{axis} has fewer than two values with results at this scale")
    return values


def _read(claim: ClaimBase, grid: Grid, at: dict[str, Any]) -> Floats:
    """(n_seeds,) of the claim's value at a point, on the scale that the claim is judged on."""
    return _scaled(claim, grid.seeds_of(claim.value, at, claim.low_is_good))


def _scaled(claim: ClaimBase, x: Floats) -> Floats:
    return np.log(x) if claim.log else x


def _listing(claim: ClaimBase, values: dict[Any, Floats], axis: str) -> str:
    means = {v: _mean(claim, x) for v, x in values.items()}
    shown = list(means)
    if len(shown) > LISTED:
        ranked = sorted(shown, key=lambda v: means[v])
        shown = [v for v in shown if v in (shown[0], ranked[0], ranked[-1], shown[-1])]
    listed = ", ".join(f"{value_label(v, axis)}: {_said(claim, means[v])}" for v in shown)
    left_out = "" if len(shown) == len(means) else f" (ends, lowest and highest of {len(means)})"
    return f"{axis_label(axis, plain_text=True)} {listed}{left_out}"


def _mean(claim: ClaimBase, x: Floats) -> float:
    """Mean over seeds; the geometric one where the claim is judged on logarithms."""
    with np.errstate(invalid="ignore"):
        mean = t_interval(x).mean
        return float(np.exp(mean)) if claim.log else mean


def _said(claim: ClaimBase, mean: float) -> str:
    """A mean in words; what it costs to reach a target is infinite for seeds that did not."""
    return "not by all seeds" if np.isinf(mean) and claim.column.startswith(TARGETS) else number(mean)


def _span(claim: ClaimBase, interval: Interval) -> str:
    def side(value: float) -> str:
        return ("−∞" if value < 0 else "∞") if np.isinf(value) else f"{value + 0.0:.3g}"

    low, high = interval.low, interval.high
    if claim.log:
        return f"a factor in [{side(np.exp(low))}, {side(np.exp(high))}]"
    return side(low) if low == high else f"[{side(low)}, {side(high)}]"


def _answer(for_it: list[Interval]) -> Answer:
    if all(interval.above_zero for interval in for_it):
        return "holds"
    return "does not hold" if any(interval.high <= 0 for interval in for_it) else "not decided"


def _seeds(values: dict[Any, Floats]) -> int:
    return min(len(x) for x in values.values())


def _order(claim: Order, grid: Grid, at: dict[str, Any]) -> Finding:
    values = _values(claim, grid, at, claim.along)
    sign = 1.0 if claim.direction == "falls" else -1.0

    def steps(pairs: Iterator[tuple[Any, Any]]) -> dict[tuple[Any, Any], Interval]:
        return {(a, b): paired(values[a], values[b], grid.exact).scaled(sign) for a, b in pairs}

    near = steps(pairwise(values))
    if claim.strict:
        answer = _answer(list(near.values()))
    else:
        ends = list(values)
        far = next(iter(steps(iter([(ends[0], ends[-1])])).values()))
        wrong = far.high <= 0 or any(step.below_zero for step in near.values())
        answer = "does not hold" if wrong else "holds" if far.above_zero else "not decided"
    (a, b), weakest = min(near.items(), key=lambda item: item[1].low if answer != "does not hold" else item[1].high)
    word = "falls" if claim.direction == "falls" else "rises"
    step = f"from {value_label(a, claim.along)} to {value_label(b, claim.along)} it {word} by {_span(claim, weakest)}"
    return Finding(at, answer, _listing(claim, values, claim.along), f"least clear step: {step}", _seeds(values))


def _better(claim: ClaimBase, grid: Grid, a: Floats, b: Floats) -> Interval:
    """By how much `a` is better than `b`. Raises MissingError where they were not run with as many seeds."""
    if len(a) != len(b):
        raise MissingError(f"{len(a)} and {len(b)} seeds were run; only equal seeds can be paired")
    return paired(b, a, grid.exact) if claim.low_is_good else paired(a, b, grid.exact)


def _best_at(claim: BestAt, grid: Grid, at: dict[str, Any]) -> Finding:
    values = _values(claim, grid, at, claim.along)
    if claim.at not in values:
        raise MissingError(f"{claim.along} = {claim.at} is not run at this scale")
    gains = {v: _better(claim, grid, values[claim.at], x) for v, x in values.items() if v != claim.at}
    answer = _answer(list(gains.values()))
    rival, weakest = min(gains.items(), key=lambda item: item[1].low if answer != "does not hold" else item[1].high)
    here, there = value_label(claim.at, claim.along), value_label(rival, claim.along)
    reason = f"{here} is better than {there} by {_span(claim, weakest)}"
    return Finding(at, answer, _listing(claim, values, claim.along), reason, _seeds(values))


def _interior_best(claim: InteriorBest, grid: Grid, at: dict[str, Any]) -> Finding:
    values = _values(claim, grid, at, claim.along)
    points = list(values)
    if len(points) < 3:
        raise MissingError(f"{claim.along} has no interior point at this scale")
    means = {v: _mean(claim, values[v]) for v in points[1:-1]}
    best = (min if claim.low_is_good else max)(means, key=lambda v: means[v])
    gains = {end: _better(claim, grid, values[best], values[end]) for end in (points[0], points[-1])}
    answer = _answer(list(gains.values()))
    end, weakest = min(gains.items(), key=lambda item: item[1].low if answer != "does not hold" else item[1].high)
    inside, outside = value_label(best, claim.along), value_label(end, claim.along)
    reason = f"best inside is {inside}; better than the end {outside} by {_span(claim, weakest)}"
    return Finding(at, answer, _listing(claim, values, claim.along), reason, _seeds(values))


def _crossover(claim: Crossover, grid: Grid, at: dict[str, Any]) -> Finding:
    first, then = {**at, claim.along: claim.early}, {**at, claim.along: claim.late}
    ends = {v: _read(claim, grid, {**at, claim.along: v}) for v in (claim.early, claim.late)}
    before, after = claim.rounds
    last = int(grid.curve(claim.column, first).index.max())
    if last <= after:
        raise MissingError(f"the runs end at round {last}, the crossing is expected at {before}..{after}")
    early, late = value_label(claim.early, claim.along), value_label(claim.late, claim.along)

    def lead(a: dict[str, Any], b: dict[str, Any], start: int, end: int) -> Interval:
        means = [_scaled(claim, grid.window(claim.column, point, start, end)) for point in (a, b)]
        return _better(claim, grid, *means)

    ahead, behind = lead(first, then, 1, before), lead(then, first, after, last)
    answer = _answer([ahead, behind])
    crossings = _crossings(claim, grid, first, then)
    measured = (
        f"mean curves cross at round {', '.join(map(str, crossings))}" if crossings else "mean curves never cross"
    )
    reason = f"until round {before} {early} is ahead by {_span(claim, ahead)}"
    reason += f"; from round {after} {late} is, by {_span(claim, behind)}"
    return Finding(at, answer, f"{_listing(claim, ends, claim.along)}; {measured}", reason, _seeds(ends))


def _crossings(claim: Crossover, grid: Grid, first: dict[str, Any], then: dict[str, Any]) -> list[int]:
    """Rounds at which the mean curve that is ahead changes."""
    gap = (grid.curve(claim.column, first) - grid.curve(claim.column, then)).dropna()
    signs = np.sign(gap.to_numpy())
    return [int(gap.index[int(i) + 1]) for i in np.flatnonzero(signs[1:] * signs[:-1] < 0)]


def _at_least(claim: AtLeast, grid: Grid, at: dict[str, Any]) -> Finding:
    x = _read(claim, grid, at)
    span = t_interval(x, grid.exact)
    threshold = float(_scaled(claim, np.array(claim.threshold)))
    if claim.low_is_good:
        kept, broken, sign = span.high <= threshold, span.low > threshold, "at most"
    else:
        kept, broken, sign = span.low >= threshold, span.high < threshold, "at least"
    answer: Answer = "holds" if kept else "does not hold" if broken else "not decided"
    reason = f"wanted {sign} {number(claim.threshold)}, got {_span(claim, span)}"
    return Finding(at, answer, f"{claim.value} {_said(claim, _mean(claim, x))}", reason, len(x))


def _near(claim: Near, grid: Grid, at: dict[str, Any]) -> Finding:
    x = _read(claim, grid, at)
    span = t_interval(x, grid.exact)
    target = float(_scaled(claim, np.array(claim.target)))
    low, high = target - claim.tolerance, target + claim.tolerance
    inside, outside = span.low >= low and span.high <= high, span.high < low or span.low > high
    answer: Answer = "holds" if inside else "does not hold" if outside else "not decided"
    reason = f"wanted {number(claim.target)} ± {claim.tolerance:g}, got {_span(claim, span)}"
    return Finding(at, answer, f"{claim.value} {_said(claim, _mean(claim, x))}", reason, len(x))


def _no_worse(claim: NoWorse, grid: Grid, at: dict[str, Any]) -> Finding:
    def judge(gain: Interval) -> Answer:
        if gain.low >= -claim.margin:
            return "holds"
        return "does not hold" if gain.high < -claim.margin else "not decided"

    return _of_pair(claim, grid, at, judge, f"margin {claim.margin:g}")


def _alike(claim: Alike, grid: Grid, at: dict[str, Any]) -> Finding:
    def judge(gap: Interval) -> Answer:
        if gap.low >= -claim.margin and gap.high <= claim.margin:
            return "holds"
        return "does not hold" if gap.low > claim.margin or gap.high < -claim.margin else "not decided"

    return _of_pair(claim, grid, at, judge, f"alike within {claim.margin:g}")


def _times(claim: Times, grid: Grid, at: dict[str, Any]) -> Finding:
    wanted = float(np.log(claim.factor))

    def judge(gain: Interval) -> Answer:
        if claim.factor == 1:
            return _answer([gain])
        if gain.low >= wanted:
            return "holds"
        return "does not hold" if gain.high < wanted else "not decided"

    return _of_pair(claim, grid, at, judge, f"wanted {claim.factor:g}")


def _of_pair(
    claim: PairClaim, grid: Grid, at: dict[str, Any], judge: Callable[[Interval], Answer], asked: str
) -> Finding:
    """The finding of a claim that compares two points, by `judge` on how much better the one is; `asked`: in words."""
    values = {v: _read(claim, grid, {**at, claim.along: v}) for v in (claim.at, claim.than)}
    gain = _better(claim, grid, values[claim.at], values[claim.than])
    here, there = value_label(claim.at, claim.along), value_label(claim.than, claim.along)
    reason = f"{here} is better than {there} by {_span(claim, gain)}, {asked}"
    return Finding(at, judge(gain), _listing(claim, values, claim.along), reason, _seeds(values))


def place_of(finding: Finding) -> str:
    """Where a finding was made, in words; empty where the claim leaves no axis open."""
    return describe(finding.at)
