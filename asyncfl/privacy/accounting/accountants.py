"""Epsilon of a list of releases by four accountants.

- `basic`: epsilons add and deltas add (Dwork, Roth 2014, theorem 3.16). Releases that need a delta get equal shares.
- `advanced` (Dwork, Rothblum, Vadhan 2010; Kairouz, Oh, Viswanath 2015): for any slack delta' the epsilon is
  sqrt(2 ln(1/delta') sum epsilon_i^2) + sum epsilon_i (e^epsilon_i - 1) at delta = delta' + sum delta_i. The slack is
  half of delta, or all of it if no release needs one. Beyond epsilon_i = 1 or so it exceeds the basic rule.
- `rdp`: Renyi divergences of at most r(a) at order a > 1 add, and for every delta (Canonne, Kamath, Steinke 2020,
  proposition 12) epsilon <= r(a) + ln(1 - 1/a) - ln(delta a)/(a - 1).
- `exact`: Gaussian releases in closed form, all others by dp-accounting on a grid of losses, an upper bound that is
  close to 1e-4 or to 1e-3 of epsilon; over more than a million sampled releases rounding errors may add some percent.
  If another accountant proves less, its epsilon is used.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from asyncfl.privacy.accounting.gaussian import Floats, exact_epsilon, squared_mu_of
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent, Neighbours, for_neighbours, merge_equal_events

Accountant = Literal["basic", "advanced", "rdp", "exact"]
ACCOUNTANTS: tuple[Accountant, ...] = ("basic", "advanced", "rdp", "exact")


class Epsilons(NamedTuple):
    """Epsilon of the same releases at the same delta by each accountant, a number or (n,) numbers; infinite if a
    release has no noise."""

    basic: Any
    advanced: Any
    rdp: Any  # None: no bound is known
    exact: Any  # smallest valid epsilon


def epsilons_of(events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours = "add_remove") -> Epsilons:
    """Compute the epsilon of all `events` together by each accountant.

    Multipliers are relative to the contribution of one record, see `events.for_neighbours`; `delta` 0..1, exclusive.
    """
    judged = for_neighbours(events, neighbours)
    return Epsilons(*basic_and_advanced(judged, delta), renyi_epsilon(judged, delta), smallest_epsilon(judged, delta))


def epsilon_by(
    accountant: Accountant, events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours = "add_remove"
) -> float | None:
    """Compute the epsilon of all `events` together by one accountant; None if it has no bound."""
    judged = for_neighbours(events, neighbours)
    if accountant in ("basic", "advanced"):
        return basic_and_advanced(judged, delta)[accountant == "advanced"]
    return renyi_epsilon(judged, delta) if accountant == "rdp" else smallest_epsilon(judged, delta)


def notes(sampled: bool, neighbours: Neighbours = "add_remove") -> list[str]:
    """Return sentences on the conditions of these epsilons; none unless a release is `sampled`."""
    if not sampled:
        return []
    found = [
        "a sampling rate counts only where each record enters a release by itself with that probability, in secret; "
        "cohorts of a fixed size, and draws that the adversary sees, are not amplified"
    ]
    if neighbours == "replace":
        found.append("Renyi accounting has no bound for a replaced record in a Poisson sample")
    return found


# --- basic and advanced composition ----------------------------------------------------------------------------------


def amplified(epsilon: float, rate: float) -> float:
    """Return ln(1 + rate (e^epsilon - 1)), the epsilon of a release on a secret Poisson sample; delta shrinks to rate
    delta (Balle, Barthe, Gaboardi 2018, theorem 8). `rate` 0..1, exclusive."""
    # Rounding may leave less than 0.
    return max(float(np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon)), 0.0)


# Multipliers below are relative to the neighbours' difference, as `for_neighbours` returns them.


def epsilon_of_one(event: MechanismEvent, delta: float) -> float:
    """Return the smallest epsilon of one release of `event` at its share `delta` of the total delta."""
    if event.mechanism != "gaussian":
        return event.epsilon
    if event.rate == 1:
        return float(exact_epsilon(squared_mu_of(event.parameter), delta))
    if delta >= event.rate:
        return 0.0  # the record is sampled with at most this probability
    z = event.parameter / 2 if event.replaced else event.parameter
    return amplified(exact_epsilon(squared_mu_of(z), delta / event.rate), event.rate)


def basic_and_advanced(events: Iterable[MechanismEvent], delta: float) -> tuple[float, float]:
    """Return the epsilon of all `events` together by basic and by advanced composition."""
    judged = [event for event in events if not event.silent]
    if not judged:
        return 0.0, 0.0
    sharing = sum(event.count for event in judged if event.mechanism == "gaussian")
    whole, halved = (
        np.array([epsilon_of_one(event, delta / (parts * max(sharing, 1))) for event in judged]) for parts in (1, 2)
    )
    basic, advanced = composed_budgets([event.count for event in judged], whole, halved, sharing, delta)
    return float(basic), float(advanced)


def composed_budgets(counts: ArrayLike, whole: Floats, halved: Floats, sharing: ArrayLike, delta: float) -> Any:
    """Return (...,) basic and (...,) advanced composition of `counts` (..., kinds) releases of each kind.

    `whole`, `halved`: (..., kinds) epsilon of a single release at its share of delta, and at half of it; `sharing`:
    (...,) number of the releases that share delta.
    """
    numbers = np.asarray(counts)
    made, slack = numbers > 0, np.where(np.asarray(sharing) > 0, delta / 2, delta)
    with np.errstate(over="ignore", invalid="ignore"):
        grown = np.where(made, numbers * halved * np.expm1(halved), 0.0).sum(axis=-1)
        squares = np.where(made, numbers * halved**2, 0.0).sum(axis=-1)
    return np.sum(numbers * whole, axis=-1), np.sqrt(-2 * np.log(slack) * squares) + grown


# --- Renyi accounting ------------------------------------------------------------------------------------------------

COARSE: Floats = np.array([*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 64), 128, 256, 512, 1024])
"""Orders of dp-accounting."""
ORDERS: Floats = np.concatenate([np.linspace(1.001, 3, 2000), COARSE])
"""(n_orders,) orders > 1 of all curves unless stated otherwise: finer below 3, which a large epsilon needs."""

_SMALLEST_ORDER = 1.01  # the bound is unstable, and useless, closer to 1
_ROWS = 512  # curves that are converted at once: some megabytes


def gaussian_curve(squared_mu: float, orders: Floats = ORDERS) -> Floats:
    """Return (n_orders,) divergence of Gaussian releases with this sum of z^-2."""
    return orders * (squared_mu / 2)


def laplace_curve(multiplier: float, orders: Floats = ORDERS) -> Floats:
    """Return (n_orders,) divergence of one Laplace release, `multiplier` > 0 (Mironov 2017, proposition 6)."""
    epsilon = 1 / multiplier
    # log1p and expm1 keep what is left of two terms that are nearly 1.
    inner = np.log1p((orders - 1) * np.expm1(epsilon * (1 - 2 * orders)) / (2 * orders - 1))
    result: Floats = epsilon + inner / (orders - 1)
    return result


def pure_curve(epsilon: float, orders: Floats = ORDERS) -> Floats:
    """Return (n_orders,) largest divergence of an `epsilon`-private release, that of randomised response."""
    # p^a q^(1-a) + q^a p^(1-a) with p/q = e^epsilon, in logarithms.
    likely, unlikely = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    both = np.logaddexp(orders * likely + (1 - orders) * unlikely, orders * unlikely + (1 - orders) * likely)
    result: Floats = np.maximum(both / (orders - 1), 0.0)
    return result


@lru_cache(maxsize=256)
def _sampled_curve(multiplier: float, rate: float) -> Floats:
    """Return (n_orders,) divergence at the orders `COARSE` (Mironov, Talwar, Zhang 2019), for an added or removed
    record."""
    import dp_accounting

    accountant = dp_accounting.rdp.RdpAccountant(COARSE.tolist())
    logger = logging.getLogger("absl")
    level = logger.level
    # dp-accounting logs one line for each order at which a series does not converge.
    logger.setLevel(logging.ERROR)
    try:
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier)))
    finally:
        logger.setLevel(level)
    return np.asarray(accountant.rdp, dtype=np.float64)


def curve(event: MechanismEvent, orders: Floats = ORDERS) -> Floats:
    """Return (n_orders,) divergence of all releases of an event that is neither silent nor unbounded. Sampled releases
    need the orders `COARSE`."""
    if event.rate < 1:
        return event.count * _sampled_curve(event.parameter, event.rate)
    if event.mechanism == "gaussian":
        return gaussian_curve(event.squared_mu, orders)
    of_one = laplace_curve if event.mechanism == "laplace" else pure_curve
    return event.count * of_one(event.parameter, orders)


def epsilon_of_curves(curves: ArrayLike, delta: float, orders: Floats = ORDERS) -> Floats:
    """Return (n,) smallest epsilon for each row of `curves` (n, n_orders) >= 0; `delta` 0..1, exclusive."""
    rows = np.atleast_2d(np.asarray(curves, dtype=np.float64))
    usable = orders > _SMALLEST_ORDER
    a = orders[usable]
    found = np.min(rows[:, usable] + (np.log1p(-1 / a) - np.log(delta * a) / (a - 1)), axis=1)
    # delta <= sqrt(1 - e^-KL), and the least divergence bounds the Kullback-Leibler one: delta alone is enough.
    enough = delta**2 + np.expm1(-rows.min(axis=1)) > 0
    return np.where(enough, 0.0, np.maximum(found, 0.0))


def epsilon_of_multiples(times: ArrayLike, unit: Floats, delta: float) -> Floats:
    """Return (n,) `epsilon_of_curves` of `unit` (n_orders,) times each of `times` (n,) >= 0; equal ones are computed
    once."""
    unique, where = np.unique(np.asarray(times, dtype=np.float64), return_inverse=True)
    parts = [unique[start : start + _ROWS] for start in range(0, len(unique), _ROWS)]
    found = [epsilon_of_curves(np.multiply.outer(part, unit), delta) for part in parts]
    return np.concatenate(found)[where] if found else np.zeros(0)


def renyi_epsilon(events: Iterable[MechanismEvent], delta: float) -> float | None:
    """Compute the epsilon of all `events` together; None if no curve is known (a replaced record in a sample)."""
    judged = [event for event in events if not event.silent]
    if any(event.unbounded for event in judged):
        return math.inf
    if any(event.replaced for event in judged):
        return None
    orders = COARSE if any(event.rate < 1 for event in judged) else ORDERS
    total = sum((curve(event, orders) for event in judged), np.zeros_like(orders))
    return float(epsilon_of_curves(total, delta, orders)[0])


# --- the smallest epsilon --------------------------------------------------------------------------------------------

_STEP, _STEP_OF_SAMPLES = 1e-3, 1e-4  # of the grid of losses, at most; a finer one changes no printed digit
_STEPS, _MOST_STEPS = 100_000, 2_000_000  # of a large epsilon: enough, and at most
_SPREAD = 1e-3  # share by which rounding to the grid may raise the variance of all losses
_COARSEST = 100.0  # step of a grid
_FAR = 700.0  # exponent of the largest float
_CELLS, _SUMS = 2e6, 2e7  # of a grid; more are too many for the losses of one release, or of all releases of a kind


def smallest_epsilon(events: Iterable[MechanismEvent], delta: float) -> float:
    """Compute the smallest epsilon of all `events`; 0 if delta alone is enough, infinite if a release has no noise."""
    judged = merge_equal_events(events)
    return math.inf if any(event.unbounded for event in judged) else _smallest(judged, delta)


@lru_cache(maxsize=4096)
def _smallest(events: tuple[MechanismEvent, ...], delta: float) -> float:
    others = [event for event in events if event.mechanism != "gaussian" or event.rate < 1]
    if not others:
        return float(exact_epsilon(math.fsum(event.squared_mu for event in events), delta))
    bounds = [renyi_epsilon(events, delta), *basic_and_advanced(events, delta)]
    # A grid rounds each loss up: over very many releases another accountant may prove less.
    least = min(bound for bound in bounds if bound is not None)
    finest = _STEP_OF_SAMPLES if any(event.rate < 1 for event in others) else _STEP
    variance = math.fsum(map(_loss_variance, events))
    # The grid contains the losses of one kind of unsampled releases, see `_composed`. Rounding a loss to two points of
    # the grid adds up to step^2/4 to its variance.
    on_grid = next((one for one in others if one.rate == 1), None)
    rounded = [one for one in others if one is not on_grid]
    spread = math.fsum(map(_loss_variance, rounded)) / max(sum(one.count for one in rounded), 1)
    fine = 2 * math.sqrt(_SPREAD * spread) if rounded else math.inf
    # Only epsilon itself tells how coarse the grid may be: a bound may be far above it, as may a coarse grid's answer.
    epsilon, step = min(least, variance / 2 + math.sqrt(-2 * variance * math.log(delta))), math.inf
    while (finer := max(min(max(finest, epsilon / _STEPS), fine), epsilon / _MOST_STEPS)) < 0.7 * step and least > 0:
        step = finer
        composed = _composed(events, others, delta, step)
        if composed is None:
            break
        least = epsilon = min(least, composed)
    return least


def _loss_variance(event: MechanismEvent) -> float:
    """Return about the variance of the privacy loss of all releases of `event`."""
    if event.mechanism != "gaussian":
        return event.count * event.epsilon**2
    square = squared_mu_of(event.parameter)
    if event.rate == 1:
        return event.count * square
    # To first order of the rate; with little noise the loss is that of the sampled record.
    one = 2 * event.rate * (square / 2 + 2 * math.sqrt(square)) ** 2
    if square < _FAR:
        one = min(one, event.rate**2 * (4 * math.sinh(square) if event.replaced else math.expm1(square)))
    return event.count * one


def _largest_loss(event: MechanismEvent) -> float:
    """Return the largest loss of one release that a grid has to contain."""
    if event.mechanism != "gaussian":
        return event.epsilon
    of_whole = 0.5 / event.parameter**2 + 10 / event.parameter
    return float(np.logaddexp(0.0, math.log(event.rate) + of_whole)) + min(of_whole, -math.log1p(-event.rate))


def _composed(
    events: tuple[MechanismEvent, ...], others: list[MechanismEvent], delta: float, step: float
) -> float | None:
    """Return epsilon by dp-accounting on a grid with about this `step`; None if it would have too many cells. `others`:
    the `events` that are no unsampled Gaussian releases."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if step > _COARSEST:
        return None
    losses = [one.epsilon for one in others if one.mechanism != "gaussian"]
    if len(events) == 1 and events[0].mechanism == "pure":
        step = losses[0]  # the only loss
    elif losses:
        step = losses[0] / math.ceil(losses[0] / step)  # such a loss would be rounded up to the grid
    for one in others:
        loss = _largest_loss(one)
        if loss / step > _CELLS or (one.mechanism != "gaussian" and one.count * loss / step > _SUMS):
            return None
    squared_mu = math.fsum(event.squared_mu for event in events if event not in others)
    plain = [MechanismEvent("gaussian", 1 / math.sqrt(squared_mu))] if squared_mu > 0 else []
    total = pld.identity(step)
    for one in [*plain, *others]:
        total = total.compose(_distribution(pld, one, step).self_compose(one.count))
    return max(float(total.get_epsilon_for_delta(delta)), 0.0)


def _distribution(pld: Any, event: MechanismEvent, step: float) -> Any:
    """Return the privacy loss distribution of one release of `event`."""
    if event.mechanism == "laplace":
        return pld.from_laplace_mechanism(event.parameter, value_discretization_interval=step)
    if event.mechanism == "pure":
        from dp_accounting.pld.common import DifferentialPrivacyParameters

        return pld.from_privacy_parameters(DifferentialPrivacyParameters(event.parameter, 0.0), step)
    from dp_accounting import NeighboringRelation as Relation

    return pld.from_gaussian_mechanism(
        event.parameter,
        sampling_prob=event.rate,
        neighboring_relation=Relation.REPLACE_ONE if event.replaced else Relation.ADD_OR_REMOVE_ONE,
        value_discretization_interval=step,
    )
