"""Epsilon of a list of releases by four accountants.

- `basic`: epsilons add and deltas add (Dwork, Roth 2014, theorem 3.16). Releases that need a delta get equal shares.
- `advanced` (Dwork, Rothblum, Vadhan 2010; Kairouz, Oh, Viswanath 2015): for any slack delta' the epsilon is
  sqrt(2 ln(1/delta') sum epsilon_i^2) + sum epsilon_i (e^epsilon_i - 1) at delta = delta' + sum delta_i. The slack is
  half of delta, or all of it if no release needs one. Beyond epsilon_i = 1 or so it exceeds the basic rule.
- `rdp`: Renyi divergences of at most r(a) at order a > 1 add, and for every delta (Canonne, Kamath, Steinke 2020,
  proposition 12) epsilon <= r(a) + ln(1 - 1/a) - ln(delta a)/(a - 1).
- `exact`: Gaussian releases in closed form, equal Laplace releases by their privacy loss distribution, equal pure
  releases as a binomial, all others by dp-accounting on a grid of losses, an upper bound that is close to 1e-4 or to
  1e-5 of a large epsilon. If another accountant proves less, its epsilon is used.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.accounting.events import MechanismEvent, Neighbours, for_neighbours, merge_equal_events
from asyncfl.privacy.accounting.gaussian import Floats, exact_epsilon, squared_mu_of

Accountant = Literal["basic", "advanced", "rdp", "exact"]
ACCOUNTANTS: tuple[Accountant, ...] = ("basic", "advanced", "rdp", "exact")


@dataclass(frozen=True, slots=True)
class Epsilons:
    """Epsilon of the same releases at the same delta by each accountant; infinite if a release has no noise."""

    basic: float
    advanced: float
    rdp: float | None  # None: no bound is known
    exact: float  # smallest valid epsilon


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
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon))


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
    whole, own = (
        np.array([epsilon_of_one(event, delta / (parts * max(sharing, 1))) for event in judged]) for parts in (1, 2)
    )
    counts = np.array([event.count for event in judged])
    slack = delta / 2 if sharing else delta
    with np.errstate(over="ignore"):
        advanced = np.sqrt(-2 * math.log(slack) * (counts @ own**2)) + counts @ (own * np.expm1(own))
    return float(counts @ whole), float(advanced)


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


# --- equal Laplace releases ------------------------------------------------------------------------------------------
# The loss of one release with epsilon_0 = sensitivity/b lies in -epsilon_0..epsilon_0, and its curve is
# delta(epsilon) = 1 - e^((epsilon - epsilon_0)/2). On a grid, the distribution whose curve interpolates this one is the
# closest that is nowhere better (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). One transform serves all numbers
# of releases: 4 to 600 times as fast as composing each number by dp-accounting.

_POINTS = 2**15  # of the grid
_LOSS_STEP = 1e-3  # a finer grid changes no printed digit
_TAIL = 1e-6  # share of delta that is set aside for losses outside the grid
_LARGEST_EXPONENT = 700.0  # e to that is a float; nothing is left of a wider step
_REACH = 60.0  # a loss this much above epsilon counts in full


def laplace_epsilons(counts: ArrayLike, multiplier: float, delta: float) -> Floats:
    """Compute (n,) smallest epsilons of `counts` (n,) >= 0 Laplace releases with `multiplier` = b over the L1
    sensitivity, > 0; `delta` 0..1, exclusive."""
    numbers = np.asarray(counts, dtype=np.int64)
    unique, where = np.unique(numbers, return_inverse=True)
    found = np.array([_laplace_epsilon(number, 1 / multiplier, delta) for number in unique.tolist()])
    return found.reshape(unique.shape)[where.reshape(numbers.shape)]


@lru_cache(maxsize=32)
def _transform(largest: int, epsilon_0: float, delta: float) -> tuple[NDArray[np.complex128], int, float, float]:
    """Return the transform of one loss on a grid for `largest` of them, the grid's size and step, and the mean loss."""
    # Beyond half of this width a sum of losses lies with probability at most _TAIL delta (Hoeffding).
    spread = epsilon_0 * math.sqrt(2 * largest * math.log(2 / (_TAIL * delta)))
    width = 2 * min(spread, 2 * largest * epsilon_0) + 4 * epsilon_0
    steps = math.ceil(epsilon_0 / max(_LOSS_STEP, 1.1 * width / _POINTS))
    step = epsilon_0 / steps
    points = 1 << math.ceil(math.log2(width / step + 2))
    at = np.arange(-steps, steps + 1) * step
    rises = np.diff(-np.expm1((at - epsilon_0) / 2))
    mass = np.zeros(len(at))
    mass[:-1] += rises / math.expm1(min(step, _LARGEST_EXPONENT))
    mass[1:] -= rises / -math.expm1(-step)
    mass[0] += math.exp(-epsilon_0)
    on_circle = np.zeros(points)
    np.add.at(on_circle, np.arange(-steps, steps + 1) % points, mass)
    return np.fft.rfft(on_circle), points, step, float(mass @ at)


def _laplace_epsilon(count: int, epsilon_0: float, delta: float) -> float:
    if count == 0:
        return 0.0
    if count == 1:
        return max(epsilon_0 + 2 * math.log1p(-delta), 0.0)
    # Neighbouring counts share the transform for the next power of two.
    transform, points, step, mean = _transform(1 << (count - 1).bit_length(), epsilon_0, delta)
    mass = np.fft.irfft(transform**count, points)
    middle = round(count * mean / step)
    places = np.arange(middle - points // 2, middle - points // 2 + points)
    inside = np.abs(places) * step <= count * epsilon_0 * (1 + 1e-12)
    probability: Floats = np.maximum(mass[places[inside] % points], 0.0)
    return epsilon_of_losses(places[inside] * step, probability, delta * (1 - _TAIL))


def epsilon_of_losses(loss: NDArray[np.floating], probability: NDArray[np.floating], delta: float) -> float:
    """Return the smallest epsilon >= 0 at which sum p (1 - e^(epsilon - loss)) over larger losses is at most `delta`.

    `loss`: (n,) increasing; `probability`: (n,) >= 0.
    """
    above = np.cumsum(probability[::-1])[::-1]
    quantile = int(np.searchsorted(-above, -delta))  # first place with no more than delta on it and above
    if quantile == 0:
        return 0.0
    # At the loss before that little enough lies beyond, so epsilon is no larger.
    reference = loss[quantile - 1]
    near = int(np.searchsorted(loss, reference - _REACH))
    weighed = np.cumsum((probability[near:] * np.exp(reference - loss[near:]))[::-1])[::-1]
    # On each place and above; the last one's neighbour is needed too.
    mass, weighed = np.append(above[near:], 0.0), np.append(weighed, 0.0)
    at = loss[near:quantile]
    beyond = mass[1:][: len(at)] - np.exp(at - reference) * weighed[1:][: len(at)]
    place = int(np.argmax(beyond <= delta))  # epsilon lies below this loss, and above the one before it
    return max(float(reference) + math.log((mass[place] - delta) / weighed[place]), 0.0)


# --- the smallest epsilon --------------------------------------------------------------------------------------------

_STEP = 1e-4  # of the grid of losses; dp-accounting's own
_STEPS = 100_000  # of an epsilon that is so large that the grid must be coarser
_COARSEST = 100.0  # step of a grid
_CELLS = 2e6  # of a grid; more are too many for the losses of one release
_MANY = 100_000  # pure releases, past which unlikely sums of their losses are left out


def smallest_epsilon(events: Iterable[MechanismEvent], delta: float) -> float:
    """Compute the smallest epsilon of all `events`; 0 if delta alone is enough, infinite if a release has no noise."""
    judged = merge_equal_events(events)
    return math.inf if any(event.unbounded for event in judged) else _smallest(judged, delta)


@lru_cache(maxsize=4096)
def _smallest(events: tuple[MechanismEvent, ...], delta: float) -> float:
    if all(map(_is_plain, events)):
        return float(exact_epsilon(math.fsum(event.squared_mu for event in events), delta))
    alike = events[0].mechanism if len(events) == 1 else None
    if alike == "pure":
        return _binomial(events[0].parameter, events[0].count, delta)
    # A grid rounds each loss up: over very many releases another accountant may prove less.
    bounds = [renyi_epsilon(events, delta)]
    if alike == "laplace":
        bounds.append(float(laplace_epsilons(events[0].count, events[0].parameter, delta)))
    else:
        bounds += [*basic_and_advanced(events, delta), _composed(events, delta)]
    return min(bound for bound in bounds if bound is not None)


def _is_plain(event: MechanismEvent) -> bool:
    return event.mechanism == "gaussian" and event.rate == 1


def _binomial(epsilon: float, count: int, delta: float) -> float:
    """Return the epsilon of releases that are `epsilon`-private and no better: each loss is epsilon or -epsilon
    (Kairouz, Oh, Viswanath 2015)."""
    from scipy.special import gammaln

    low, high = 0, count
    if count > _MANY:
        # All but a share of delta lies so close to the mean (Hoeffding).
        mean, width = count / (1 + math.exp(-epsilon)), math.sqrt(count * math.log(2 / (_TAIL * delta)) / 2)
        low, high = max(math.floor(mean - width), 0), min(math.ceil(mean + width), count)
        delta *= 1 - _TAIL
    up = np.arange(low, high + 1)
    choices = gammaln(count + 1) - gammaln(up + 1) - gammaln(count - up + 1)
    # Losses of epsilon have probability e^epsilon/(1 + e^epsilon).
    weight = choices - (count - up) * epsilon - count * math.log1p(math.exp(-epsilon))
    return epsilon_of_losses((2.0 * up - count) * epsilon, np.exp(weight), delta)


def _composed(events: tuple[MechanismEvent, ...], delta: float) -> float | None:
    """Return epsilon by dp-accounting; None if no grid can hold the losses of a release with hardly any noise."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    # A bound on the answer tells how coarse the grid may be.
    bound = renyi_epsilon(events, delta)
    step = max(_STEP, (basic_and_advanced(events, delta)[0] if bound is None else bound) / _STEPS)
    others = [event for event in events if not _is_plain(event)]
    largest_losses = (
        0.5 / event.parameter**2 + 15 / event.parameter if event.mechanism == "gaussian" else event.epsilon
        for event in others
    )
    if step > _COARSEST or any(loss / step > _CELLS for loss in largest_losses):
        return None
    pure = [event.parameter for event in events if event.mechanism == "pure"]
    if pure:
        step = pure[0] / math.ceil(pure[0] / step)  # such a loss is rounded up to the grid
    total = pld.identity(step)
    squared_mu = math.fsum(event.squared_mu for event in events if _is_plain(event))
    if squared_mu > 0:
        one = pld.from_gaussian_mechanism(1 / math.sqrt(squared_mu), value_discretization_interval=step)
        total = total.compose(one)
    for event in others:
        total = total.compose(_distribution(pld, event, step).self_compose(event.count))
    return float(total.get_epsilon_for_delta(delta))


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
