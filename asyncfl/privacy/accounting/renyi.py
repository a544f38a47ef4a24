"""Renyi accounting: divergence curves that add up, and their conversion to epsilon.

A release with Renyi divergence at most r(a) at order a > 1 has, for every delta in 0..1,

    epsilon <= r(a) + ln(1 - 1/a) - ln(delta a)/(a - 1)

(Canonne, Kamath, Steinke 2020, proposition 12), and divergences of releases of the same data add. Curves: Gaussian a/(2
z^2); Laplace exact (Mironov 2017, proposition 6); an epsilon-private release that of randomised response, the worst
case; a Gaussian release on a Poisson sample by dp-accounting (Mironov, Talwar, Zhang 2019), only for added or removed
records. Orders are those of dp-accounting and finer ones below 3, which a large epsilon needs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.accounting.events import MechanismEvent, Neighbours, for_neighbours
from asyncfl.privacy.accounting.gaussian import analytic_multiplier, squared_mu_of
from asyncfl.privacy.accounting.roots import smallest_sufficient

Floats = NDArray[np.float64]

COARSE: Floats = np.array([*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 64), 128, 256, 512, 1024])
"""Orders of dp-accounting."""
ORDERS: Floats = np.concatenate([np.linspace(1.001, 3, 2000), COARSE])
"""(n_orders,) orders > 1 of all curves unless stated otherwise."""

_SMALLEST_ORDER = 1.01  # the bound is unstable, and useless, closer to 1
_ROWS = 512  # curves that are converted at once: some megabytes


def gaussian_curve(squared_mu: float, orders: Floats = ORDERS) -> Floats:
    """Return (n_orders,) divergence of Gaussian releases with this sum of z^-2."""
    return orders * (squared_mu / 2)


def laplace_curve(multiplier: float, orders: Floats = ORDERS) -> Floats:
    """Return (n_orders,) divergence of one Laplace release with `multiplier` = b over the L1 sensitivity, > 0."""
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
    import dp_accounting

    accountant = dp_accounting.rdp.RdpAccountant(COARSE.tolist())
    gaussian = dp_accounting.GaussianDpEvent(multiplier)
    logger = logging.getLogger("absl")
    level = logger.level
    # dp-accounting logs one line for each order at which a series does not converge.
    logger.setLevel(logging.ERROR)
    try:
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, gaussian))
    finally:
        logger.setLevel(level)
    result = np.asarray(accountant.rdp, dtype=np.float64)
    result.flags.writeable = False
    return result


def curve(event: MechanismEvent, orders: Floats = ORDERS) -> Floats:
    """Return (n_orders,) divergence of all releases of an event that is neither silent nor unbounded.

    Sampled releases need the orders `COARSE`; raises ValueError for others.
    """
    if event.rate < 1:
        if orders is not COARSE:
            raise ValueError("divergences of sampled releases are known at the coarse orders only")
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


def renyi_epsilon(
    events: Iterable[MechanismEvent], delta: float, neighbours: Neighbours = "add_remove"
) -> float | None:
    """Compute the epsilon of all `events` together; None if no curve is known (sampled releases and a replaced record).

    Multipliers are relative to the contribution of one record, see `events.for_neighbours`. `delta` 0..1, exclusive.
    """
    judged = [event for event in for_neighbours(events, neighbours) if not event.silent]
    sampled = any(event.rate < 1 for event in judged)
    if any(event.unbounded for event in judged):
        return math.inf
    if sampled and neighbours == "replace":
        return None
    orders = COARSE if sampled else ORDERS
    total = sum((curve(event, orders) for event in judged), np.zeros_like(orders))
    return float(epsilon_of_curves(total, delta, orders)[0])


def epsilon_of_multiples(times: ArrayLike, unit: Floats, delta: float) -> Floats:
    """Return (n,) `epsilon_of_curves` of `unit` (n_orders,) times each of `times` (n,) >= 0; equal ones are computed
    once."""
    unique, where = np.unique(np.asarray(times, dtype=np.float64), return_inverse=True)
    found = np.empty(len(unique))
    for start in range(0, len(unique), _ROWS):
        part = slice(start, start + _ROWS)
        found[part] = epsilon_of_curves(np.multiply.outer(unique[part], unit), delta)
    return found[where]


@lru_cache(maxsize=1024)
def rdp_epsilon(squared_mu: float, delta: float) -> float:
    """Return the Renyi epsilon of Gaussian releases with this sum of z^-2: an upper bound of `exact_epsilon`.

    Conversion and orders are those of dp-accounting, with finer orders below 3, which a large epsilon needs. `delta`
    0..1, exclusive.
    """
    return float(epsilon_of_curves(gaussian_curve(squared_mu), delta)[0])


@lru_cache(maxsize=1024)
def rdp_multiplier(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier whose `rdp_epsilon` for one release is at most `epsilon`; 0 at infinite
    epsilon."""
    if math.isinf(epsilon):
        return 0.0
    # Renyi accounting never needs less than the analytic calibration.
    least = analytic_multiplier(epsilon, delta)
    return smallest_sufficient(lambda z: rdp_epsilon(squared_mu_of(z), delta) - epsilon, least)
