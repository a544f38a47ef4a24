"""Epsilon of many holders after each of their releases, by all accountants at once.

Gaussian releases are computed for all holders together in closed form. Others are composed release by release, once for
all holders that have made the same; on Poisson samples the exact epsilon of all releases together bounds earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.privacy.accounting.accountants import (
    Epsilons,
    basic_and_advanced,
    composed_budgets,
    epsilon_of_curves,
    epsilon_of_multiples,
    gaussian_curve,
    laplace_curve,
    renyi_epsilon,
    smallest_epsilon,
)
from asyncfl.privacy.accounting.gaussian import Floats, exact_epsilon
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent, MechanismName

Ints = NDArray[np.int64]

_FEW_KINDS = 4  # kinds of Gaussian noise of one holder up to which every single budget is solved for by itself
_NODES = 80
_MOST_SAMPLED = 20  # histories with sampled releases that are composed exactly, at up to a second each


class _Group:
    """Releases of one holder that reveal something, in order, up to the first that hides nothing."""

    def __init__(
        self,
        places: Ints,
        laplace: NDArray[np.bool_],
        multiplier: Floats,
        rate: Floats,
        replaced: NDArray[np.bool_],
        count: Ints,
        delta: float,
    ) -> None:
        self.places = places
        self.others: list[Ints] = []
        """Places of the same releases of each other holder, for which nothing is computed."""
        kinds, which = np.unique(np.column_stack([laplace, multiplier, rate, replaced]), axis=0, return_inverse=True)
        # (kinds,) of each distinct noise
        self.laplace, self.multiplier, self.rate = kinds[:, 0].astype(bool), kinds[:, 1], kinds[:, 2]
        self.replaced = kinds[:, 3].astype(bool)
        self.sampled = bool((self.rate < 1).any())
        each = np.zeros((len(places), len(kinds)), dtype=np.int64)
        each[np.arange(len(places)), which.ravel()] = count
        self.totals: Ints = np.cumsum(each, axis=0)  # (releases, kinds) cumulative count of each kind
        with np.errstate(over="ignore"):
            self.squared_mu: Floats = np.cumsum(np.where(laplace, 0.0, count / multiplier**2))
        self.squares: Floats = self.multiplier[~self.laplace] ** -2.0
        self.sharing: Ints = self.totals[:, ~self.laplace].sum(axis=1)
        self.share: Floats = delta / np.maximum(self.sharing, 1)  # (releases,) of delta for each Gaussian release

    def basic_and_advanced(self, whole: Floats, halved: Floats, delta: float) -> tuple[Floats, Floats]:
        """Compose (releases, Gaussian kinds) epsilons at a share and half a share of delta."""
        totals = self.totals
        own = np.tile(np.where(self.laplace, 1 / self.multiplier, 0.0), (len(totals), 1))
        half = own.copy()
        own[:, ~self.laplace], half[:, ~self.laplace] = whole, halved
        found: tuple[Floats, Floats] = composed_budgets(totals, own, half, self.sharing, delta)
        return found


def histories(
    holder: ArrayLike,
    laplace: ArrayLike,
    multiplier: ArrayLike,
    count: ArrayLike,
    delta: float,
    compose_mixed: bool = True,
    rate: ArrayLike = 1.0,
    replaced: ArrayLike = False,
) -> Epsilons:
    """Compute the epsilon of each holder after each release at the same total `delta` (0..1; 0: pure epsilon).

    All (n,), with each holder's releases in their order: `holder` an integer, `laplace` whether the noise is Laplace
    (else Gaussian), `multiplier` >= 0 (infinite: reveals nothing), `count` >= 0 such releases made at once.
    `compose_mixed` false: for varying Laplace noise of a holder, use the Renyi epsilon instead of the exact one, which
    takes a tenth of a second per release. `rate` (n,) or a number: probability with which a record enters each release,
    see `MechanismEvent.rate`; below 1 for Gaussian noise only. `replaced` (n,) or a flag: of these, whether neighbours
    differ by a replaced record; its `multiplier` is relative to that difference, and no Renyi bound is known (inf).
    The result is read-only.
    """
    columns = (
        np.asarray(holder, dtype=np.int64),
        np.asarray(laplace, dtype=bool),
        _rounded(multiplier),
        np.asarray(count, dtype=np.int64),
        np.broadcast_to(np.asarray(rate, dtype=np.float64), np.shape(holder)),
        np.broadcast_to(np.asarray(replaced, dtype=bool), np.shape(holder)),
    )
    return _histories(*(column.tobytes() for column in columns), delta, compose_mixed)


@lru_cache(maxsize=8)  # some adversaries hold the same releases, and a ledger asks for them one after another
def _histories(
    holder: bytes,
    laplace: bytes,
    multiplier: bytes,
    count: bytes,
    rate: bytes,
    replaced: bytes,
    delta: float,
    compose_mixed: bool,
) -> Epsilons:
    holders, numbers = np.frombuffer(holder, np.int64), np.frombuffer(count, np.int64)
    table = np.zeros((4, len(holders)))
    result = Epsilons(*table)
    noise = np.frombuffer(laplace, bool), np.frombuffer(multiplier), np.frombuffer(rate), np.frombuffer(replaced, bool)
    groups = list(_groups(holders, *noise, numbers, delta, table))
    if delta <= 0:
        # Only pure epsilons count, and they add up by every accountant.
        for group in groups:
            each = np.where(group.laplace, 1 / group.multiplier, np.inf)
            table[:, group.places] = np.where(group.totals > 0, group.totals * each, 0.0).sum(axis=1)
    else:
        whole, sampled = ([one for one in groups if one.sampled == which] for which in (False, True))
        _single_budgets(whole, delta, result)
        _renyi_and_exact(whole, delta, compose_mixed, result)
        _of_samples(sampled, delta, result)
    for group in groups:
        for places in group.others:
            table[:, places] = table[:, group.places]
    for column in result:
        column.flags.writeable = False
    return result


def _rounded(multiplier: ArrayLike) -> Floats:
    """Round to 12 digits, so that equal multipliers stay equal despite rounding errors of noise and sensitivity."""
    values = np.asarray(multiplier, dtype=np.float64)
    usual = np.isfinite(values) & (values > 0)
    scale = 10.0 ** (11 - np.floor(np.log10(np.where(usual, values, 1.0))))
    result: Floats = np.where(usual, np.round(values * scale) / scale, values)
    return result


def _groups(
    holders: Ints,
    laplace: NDArray[np.bool_],
    multiplier: Floats,
    rate: Floats,
    replaced: NDArray[np.bool_],
    count: Ints,
    delta: float,
    table: Floats,
) -> Iterator[_Group]:
    """Yield the distinct histories; in `table` epsilons become infinite from a release without noise on."""
    made: dict[bytes, _Group] = {}
    order = np.argsort(holders, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(holders[order])) + 1):
        numbers = np.where(np.isinf(multiplier[places]), 0, count[places])
        bare = np.flatnonzero((multiplier[places] == 0) & (numbers > 0))
        if len(bare):
            table[:, places[bare[0] :]] = np.inf
            places, numbers = places[: bare[0]], numbers[: bare[0]]
        informative = np.flatnonzero(numbers)
        if len(informative):
            # A release that reveals nothing changes no epsilon, so any noise may represent it.
            like = np.where(numbers == 0, places[informative[0]], places)
            history = np.column_stack([laplace[like], multiplier[like], rate[like], replaced[like], numbers]).tobytes()
            if history in made:
                made[history].others.append(places)
            else:
                made[history] = _Group(
                    places, laplace[like], multiplier[like], rate[like], replaced[like], numbers, delta
                )
    yield from made.values()


def _renyi_and_exact(groups: list[_Group], delta: float, compose_mixed: bool, result: Epsilons) -> None:
    gaussian = [group for group in groups if not group.laplace.any()]
    if gaussian:
        places = np.concatenate([group.places for group in gaussian])
        squares = np.concatenate([group.squared_mu for group in gaussian])
        result.rdp[places] = epsilon_of_multiples(squares, gaussian_curve(1.0), delta)
        result.exact[places] = exact_epsilon(squares, delta)
    alike: dict[bytes, list[_Group]] = {}
    for group in groups:
        if group.laplace.any():
            alike.setdefault(group.laplace.tobytes() + group.multiplier.tobytes(), []).append(group)
    for same in alike.values():
        kinds = list(zip(same[0].laplace.tolist(), same[0].multiplier.tolist(), strict=True))
        units = np.array([laplace_curve(z) if laplace else gaussian_curve(z**-2.0) for laplace, z in kinds])
        names: list[MechanismName] = ["laplace" if laplace else "gaussian" for laplace, _ in kinds]
        # Many holders have made the same releases.
        made, which = np.unique(np.concatenate([group.totals for group in same]), axis=0, return_inverse=True)
        rdp = epsilon_of_curves(made @ units, delta)
        exact = rdp.copy()
        for row, totals in enumerate(made.tolist()):
            if compose_mixed or np.count_nonzero(totals) < 2:
                events = map(MechanismEvent, names, same[0].multiplier.tolist(), totals)
                exact[row] = smallest_epsilon(events, delta)
        places = np.concatenate([group.places for group in same])
        result.rdp[places], result.exact[places] = rdp[which.ravel()], exact[which.ravel()]


def _of_samples(groups: list[_Group], delta: float, result: Epsilons) -> None:
    """Store the epsilons of holders with releases on Poisson samples in `result`."""
    for group in groups:
        names: list[MechanismName] = ["laplace" if laplace else "gaussian" for laplace in group.laplace.tolist()]
        rates, by_replacement = group.rate.tolist(), (group.replaced & (group.rate < 1)).tolist()
        # Their accountants count a record's own part, which is half of what its replacement moves.
        noise = (group.multiplier * np.where(by_replacement, 2.0, 1.0)).tolist()
        for place, totals in zip(group.places, group.totals.tolist(), strict=True):
            events = [*map(MechanismEvent, names, noise, totals, rates, by_replacement)]
            result.basic[place], result.advanced[place] = basic_and_advanced(events, delta)
            renyi = renyi_epsilon(events, delta)
            result.rdp[place] = np.inf if renyi is None else renyi
        spent = np.minimum(result.rdp[group.places], result.basic[group.places])
        if len(groups) <= _MOST_SAMPLED:
            spent = np.minimum(spent, smallest_epsilon(events, delta))  # of all, which is never below that of some
        result.exact[group.places] = spent


def _single_budgets(groups: list[_Group], delta: float, result: Epsilons) -> None:
    """Store the epsilons of basic and advanced composition in `result`."""
    for solve, few in ((_solved, True), (_interpolated, False)):
        some = [group for group in groups if (len(group.squares) <= _FEW_KINDS) == few]
        if some:
            for one, whole, halved in zip(some, solve(some, 1.0), solve(some, 0.5), strict=True):
                result.basic[one.places], result.advanced[one.places] = one.basic_and_advanced(whole, halved, delta)


def _solved(groups: list[_Group], factor: float) -> Iterator[Floats]:
    """Yield (releases, Gaussian kinds) epsilon of single releases at `factor` of their share of delta, for each
    holder."""
    squares = np.concatenate([np.tile(one.squares, len(one.share)) for one in groups])
    shares = np.concatenate([np.repeat(one.share, len(one.squares)) for one in groups])
    # All holders at once, because most of them have equal entries.
    stops = np.cumsum([len(one.squares) * len(one.share) for one in groups])[:-1]
    for one, found in zip(groups, np.split(exact_epsilon(squares, factor * shares), stops), strict=True):
        yield found.reshape(len(one.share), len(one.squares))


def _interpolated(groups: list[_Group], factor: float) -> Iterator[Floats]:
    """Yield the same by one spline over the logarithms of noise and share, accurate to 1e-6: if each release has its
    own noise, there are far more evaluations than nodes."""
    from scipy.interpolate import RectBivariateSpline

    logs = [(np.log(one.squares), np.log(factor * one.share)) for one in groups]
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
