"""Epsilon of many holders after each of their releases, by all accountants at once. A holder is a client, or all
clients behind the published models: the party that releases are about.

A run's ledger needs thousands of epsilons: one for each client after each of its uploads. Gaussian releases, and
Laplace releases with one multiplier, are computed for all holders together in closed form or by look-up. Only clients
with varying Laplace noise, or with both kinds of noise, are composed release by release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.accounting.events import MechanismEvent
from asyncfl.privacy.accounting.exact import smallest_epsilon
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.laplace import laplace_epsilons
from asyncfl.privacy.accounting.renyi import (
    ORDERS,
    epsilon_of_curves,
    epsilon_of_multiples,
    gaussian_curve,
    laplace_curve,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FEW_KINDS = 4  # kinds of Gaussian noise of one holder up to which every single budget is solved for by itself
_NODES = 80
REMEMBERED = 8
"""Size of the cache. Some adversaries of a run hold the same releases (the server and `both`, the public and its last
model), and a ledger asks for them one after another."""


@dataclass(frozen=True)
class SpentEpsilons:
    """(n,) epsilon of each holder's releases up to and including this one, one entry per release."""

    basic: Floats
    advanced: Floats
    rdp: Floats
    exact: Floats


@dataclass(frozen=True)
class _Group:
    """Releases of one holder that reveal something, in order, up to the first that hides nothing."""

    places: Ints
    laplace: NDArray[np.bool_]
    multiplier: Floats
    count: Ints
    kinds: list[tuple[bool, float]]
    """Distinct (laplace, multiplier)."""
    totals: Ints
    """(releases, kinds) cumulative count of each kind."""

    @property
    def gaussian_kinds(self) -> int:
        """Number of Gaussian kinds: Laplace releases have their own epsilon at any delta."""
        return sum(not laplace for laplace, _ in self.kinds)


def histories(
    holder: ArrayLike,
    laplace: ArrayLike,
    multiplier: ArrayLike,
    count: ArrayLike,
    delta: float,
    compose_mixed: bool = True,
) -> SpentEpsilons:
    """Compute the epsilon of each holder after each release at the same total `delta` (0..1; 0: pure epsilon).

    All (n,), with each holder's releases in their order: `holder` an integer, `laplace` whether the noise is Laplace
    (else Gaussian), `multiplier` >= 0 (infinite: reveals nothing), `count` >= 0 such releases made at once.
    `compose_mixed` false: for varying Laplace noise of a holder, use the Renyi epsilon instead of the exact one, which
    is no larger but takes a tenth of a second per release. The result is read-only.
    """
    numbers = np.asarray(holder, dtype=np.int64), np.asarray(laplace, dtype=bool), _rounded(multiplier)
    asked = tuple(column.tobytes() for column in (*numbers, np.asarray(count, dtype=np.int64)))
    return _histories(*asked, delta, compose_mixed)


@lru_cache(maxsize=REMEMBERED)
def _histories(
    holder: bytes, laplace: bytes, multiplier: bytes, count: bytes, delta: float, compose_mixed: bool
) -> SpentEpsilons:
    """Compute `histories` from the bytes of its columns, so that equal questions are cached."""
    result = _computed(
        np.frombuffer(holder, np.int64),
        np.frombuffer(laplace, bool),
        np.frombuffer(multiplier, np.float64),
        np.frombuffer(count, np.int64),
        delta,
        compose_mixed,
    )
    for column in (result.basic, result.advanced, result.rdp, result.exact):
        column.flags.writeable = False
    return result


def _computed(
    holders: Ints, laplace: NDArray[np.bool_], multiplier: Floats, count: Ints, delta: float, compose_mixed: bool
) -> SpentEpsilons:
    result = SpentEpsilons(*(np.zeros(len(holders)) for _ in range(4)))
    groups = list(_groups(holders, laplace, multiplier, count, result))
    if delta <= 0:
        _pure(groups, result)
        return result
    _single_budgets(groups, delta, result)
    gaussian = [group for group in groups if not group.laplace.any()]
    with np.errstate(over="ignore"):
        squares = [np.cumsum(group.count / group.multiplier**2) for group in gaussian]
    if gaussian:
        places, together = np.concatenate([group.places for group in gaussian]), np.concatenate(squares)
        result.rdp[places] = epsilon_of_multiples(together, gaussian_curve(1.0), delta)
        result.exact[places] = exact_epsilon(together, delta)
    for b, alike in _laplace_alike(groups).items():
        places = np.concatenate([group.places for group in alike])
        times = np.concatenate([group.totals[:, 0] for group in alike])
        result.rdp[places] = epsilon_of_multiples(times, laplace_curve(b), delta)
        result.exact[places] = laplace_epsilons(times, b, delta)
    for group in groups:
        if group.laplace.any() and len(group.kinds) > 1:
            result.rdp[group.places] = result.exact[group.places] = _mixed_rdp(group, delta)
            composed = (np.count_nonzero(group.totals, axis=1) < 2) | compose_mixed
            result.exact[group.places[composed]] = [
                smallest_epsilon(_parts(group, row), delta) for row in group.totals[composed]
            ]
    return result


def _laplace_alike(groups: list[_Group]) -> dict[float, list[_Group]]:
    """Group holders of equal Laplace releases by their multiplier."""
    alike: dict[float, list[_Group]] = {}
    for group in groups:
        if len(group.kinds) == 1 and group.laplace.all():
            alike.setdefault(group.kinds[0][1], []).append(group)
    return alike


def _rounded(multiplier: ArrayLike) -> Floats:
    """Round to 12 digits, so that equal multipliers stay equal despite rounding errors of noise and sensitivity."""
    values = np.asarray(multiplier, dtype=np.float64)
    usual = np.isfinite(values) & (values > 0)
    scale = 10.0 ** (11 - np.floor(np.log10(np.where(usual, values, 1.0))))
    result: Floats = np.where(usual, np.round(values * scale) / scale, values)
    return result


def _groups(
    holders: Ints, laplace: NDArray[np.bool_], multiplier: Floats, count: Ints, result: SpentEpsilons
) -> Iterator[_Group]:
    """Yield the releases of each holder, and set the epsilons in `result` from a release without noise on to
    infinity."""
    order = np.argsort(holders, kind="stable")
    cuts = np.flatnonzero(np.diff(holders[order])) + 1
    for places in np.split(order, cuts) if len(order) else []:
        numbers = np.where(np.isinf(multiplier[places]), 0, count[places])
        bare = np.flatnonzero((multiplier[places] == 0) & (numbers > 0))
        if len(bare):
            for column in (result.basic, result.advanced, result.rdp, result.exact):
                column[places[bare[0] :]] = np.inf
            places, numbers = places[: bare[0]], numbers[: bare[0]]
        informative = np.flatnonzero(numbers)
        if not len(informative):
            continue
        # A release that reveals nothing changes no epsilon, so any noise may represent it.
        like = places.copy()
        like[numbers == 0] = places[informative[0]]
        of, z = laplace[like], multiplier[like]
        kinds, which = np.unique(np.column_stack([of, z]), axis=0, return_inverse=True)
        each = np.zeros((len(places), len(kinds)), dtype=np.int64)
        each[np.arange(len(places)), which.ravel()] = numbers
        named = [(bool(kind), float(value)) for kind, value in kinds]
        yield _Group(places, of, z, numbers, named, np.cumsum(each, axis=0))


def _pure(groups: list[_Group], result: SpentEpsilons) -> None:
    """Store the epsilons at delta 0 in `result`: only pure epsilons count, and they add up by every accountant."""
    for group in groups:
        epsilon = np.where(group.laplace, group.count / group.multiplier, np.where(group.count > 0, np.inf, 0.0))
        for column in (result.basic, result.advanced, result.rdp, result.exact):
            column[group.places] = np.cumsum(epsilon)


def _single_budgets(groups: list[_Group], delta: float, result: SpentEpsilons) -> None:
    """Store the epsilons of basic and advanced composition in `result`, see `accounting.basic`."""
    varied = [group for group in groups if group.gaussian_kinds > _FEW_KINDS]
    asked = [_Shares(group, delta) for group in groups if group.gaussian_kinds <= _FEW_KINDS]
    if asked:
        squares = np.concatenate([np.repeat(one.squares, len(one.share)) for one in asked])
        shares = np.concatenate([np.tile(one.share, len(one.squares)) for one in asked])
        # All holders at once, because most of them have equal entries.
        whole, halved = exact_epsilon(squares, shares), exact_epsilon(squares, shares / 2)
        stops = np.cumsum([len(one.squares) * len(one.share) for one in asked])[:-1]
        for one, of_share, of_half in zip(asked, np.split(whole, stops), np.split(halved, stops), strict=True):
            shape = len(one.squares), len(one.share)
            one.fill(result, of_share.reshape(shape).T, of_half.reshape(shape).T, delta)
    both = [_Shares(group, delta) for group in varied]
    for one, whole, halved in zip(both, _interpolated(both, 1.0), _interpolated(both, 0.5), strict=True):
        one.fill(result, whole, halved, delta)


def _interpolated(asked: list[_Shares], factor: float) -> Iterator[Floats]:
    """Yield (releases, Gaussian kinds) epsilon of single releases at `factor` of their share of delta, for each holder.

    Interpolated by one spline over the logarithms of noise and share, accurate to 1e-6. If each release has its own
    noise, there are far more evaluations than nodes.
    """
    from scipy.interpolate import RectBivariateSpline

    if not asked:
        return
    logs = [(np.log(one.squares), np.log(factor * one.share)) for one in asked]
    noise = np.linspace(min(x.min() for x, _ in logs) - 0.01, max(x.max() for x, _ in logs) + 0.01, _NODES)
    share = np.linspace(min(y.min() for _, y in logs) - 0.01, max(y.max() for _, y in logs) + 0.01, _NODES)
    at_nodes = exact_epsilon(np.exp(noise)[:, None], np.exp(share)[None, :])
    spline = RectBivariateSpline(noise, share, at_nodes, s=0)
    for x, y in logs:
        # The spline needs increasing coordinates; shares decrease with the releases.
        order = np.argsort(x)
        found = np.empty((len(y), len(x)))
        found[:, order] = np.maximum(spline(x[order], y[::-1]), 0.0).T[::-1]
        yield found


class _Shares:
    """Single releases of one holder, and the share of delta of each after each release."""

    def __init__(self, group: _Group, delta: float) -> None:
        self.group = group
        self.laplace = np.array([kind for kind, _ in group.kinds])
        self.multiplier = np.array([value for _, value in group.kinds])
        self.squares = self.multiplier[~self.laplace] ** -2.0
        self.sharing = group.totals[:, ~self.laplace].sum(axis=1)
        self.share = delta / np.maximum(self.sharing, 1)

    def fill(self, result: SpentEpsilons, whole: Floats, halved: Floats, delta: float) -> None:
        """Store basic and advanced epsilons in `result`, given (releases, Gaussian kinds) epsilons at a share of delta
        and at half of it."""
        totals = self.group.totals
        own = np.tile(np.where(self.laplace, 1 / self.multiplier, 0.0), (len(totals), 1))
        half = own.copy()
        own[:, ~self.laplace], half[:, ~self.laplace] = whole, halved
        result.basic[self.group.places] = np.sum(totals * own, axis=1)
        slack = np.where(self.sharing > 0, delta / 2, delta)
        with np.errstate(over="ignore", invalid="ignore"):
            grown = np.where(totals > 0, totals * half * np.expm1(half), 0.0).sum(axis=1)
            squares = np.where(totals > 0, totals * half**2, 0.0).sum(axis=1)
        result.advanced[self.group.places] = np.sqrt(-2 * np.log(slack) * squares) + grown


def _mixed_rdp(group: _Group, delta: float) -> Floats:
    units = [laplace_curve(z) if laplace else gaussian_curve(z**-2.0) for laplace, z in group.kinds]
    return epsilon_of_curves(group.totals @ np.array(units), delta, ORDERS)


def _parts(group: _Group, totals: Ints) -> list[MechanismEvent]:
    return [
        MechanismEvent("laplace" if laplace else "gaussian", z, int(number))
        for (laplace, z), number in zip(group.kinds, totals, strict=True)
    ]
