"""What the parts of rules and detectors make of drawn numbers, against a written list.

`python tests/defences/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.defences import Defence, Strikes
from asyncfl.defences.bulyan import nearest_to_median
from asyncfl.defences.clusters import are_clustered, in_clusters
from asyncfl.defences.detector import DefenceContext
from asyncfl.defences.distances import centred_products, squared_distances
from asyncfl.defences.evidence.bounds import falls_short, strays, suffixes
from asyncfl.defences.evidence.contrast import contrast, residuals
from asyncfl.defences.evidence.descent import common_descent, least_point
from asyncfl.defences.evidence.directions import cosines_of, guesses
from asyncfl.defences.evidence.means import Means, no_means, with_buffer
from asyncfl.defences.evidence.sides import SideTest
from asyncfl.defences.evidence.spread import spread_of
from asyncfl.defences.evidence.track import Track, empty_track
from asyncfl.defences.flame import majority
from asyncfl.defences.krum import krum_scores
from asyncfl.defences.lengths import inner_product, norms, squared_norm
from asyncfl.defences.norm_clipping import clipping_factors
from asyncfl.defences.quality import Judgement, detection_quality, overall_quality
from asyncfl.defences.quasi_newton import hessian
from asyncfl.defences.robust import weighted_sum
from asyncfl.defences.root import root_update
from asyncfl.defences.safl import most_similar
from asyncfl.defences.sorting import full_network, middle_mean, network
from asyncfl.defences.spectral.alignment import alignment_with, lagging, looseness
from asyncfl.defences.spectral.bank import Bank, empty_bank, inner_products
from asyncfl.defences.spectral.certificates import least_removed, norm_bounds, pair_bounds
from asyncfl.defences.spectral.majority import MajorityTest
from asyncfl.defences.spectral.median import geometric_medians
from asyncfl.defences.spectral.pool import empty_pool
from asyncfl.defences.spectral.root import downhill, projections, uphill
from asyncfl.defences.spectral.sketch import draw_sketch
from asyncfl.defences.spectral.spectrum import embed, product_std
from asyncfl.defences.two_means import lower_cluster
from asyncfl.testing import context
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
N, D = 12, 50
SIGNALS: dict[str, list[float]] = {
    "alike": [1.0] * N,
    "five against": [1.0] * 7 + [-1.0] * 5,
    "half against": [1.0] * 6 + [-1.0] * 6,
    "behind": [1.0] * 8 + [0.4] * 4,
    "far off": [1.0] * 8 + [1.7, 1.9, -0.6, 0.1],
    "too far": [1.0] * 9 + [2.6, -1.0, -1.0],
    "in two groups": [1.0] * 8 + [6.0, -1.0, -1.0, 0.0],
    "spread": np.linspace(-1.2, 1.6, N).tolist(),
    "nothing": [0.0] * N,
}


def _drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _track(shares: list[float], updates: int, noise: float) -> Track:
    random, track = np.random.default_rng(3), empty_track(len(shares), 8)
    for update in range(updates):
        for client, share in enumerate(shares):
            if (client + update) % 5:
                step = 1 + 0.1 * update
                track = track.add(
                    client, step * (share + noise * random.standard_normal()), step**2, (noise * step) ** 2
                )
    return track


def _judged(shares: list[float], updates: int, noise: float) -> Any:
    track = _track(shares, updates, noise)
    test = SideTest()
    share = np.array(shares)
    spread = spread_of(track, share, np.arange(len(shares)) != 4)
    told = [test.judge(track, frozenset(), 2), test.judge(track.forget(7), frozenset([7]), 1), spread]
    return [*told, spread.noise(track, 0.01), track.last(3).counts]


def _rows(shares: list[float], noise: float, updates: int) -> Iterator[tuple[Any, Any, Any]]:
    """(clients, updates, noise of each) of several buffers."""
    up = np.eye(1, D)[0] * np.sqrt(D) * 0.3
    side = np.eye(1, D, 1)[0] * 0.5
    for number in range(updates):
        clients = np.array([client for client in range(N) if (client + number) % 4])
        signals = np.array([shares[client] * up + (client % 3) * side for client in clients])
        rows = (signals + noise * _drawn(len(clients), D, seed=number)).astype(np.float32)
        yield clients, rows, np.full(len(clients), noise) * (1 + 0.1 * (clients % 2))


def _means(shares: list[float], noise: float, updates: int = 6) -> Means:
    means = no_means(N)
    for clients, rows, std in _rows(shares, noise, updates):
        means = with_buffer(means, clients, rows, means.products(rows), inner_products(rows, rows), std, 3)
    return means


def _guessed(shares: list[float], noise: float) -> Any:
    means = _means(shares, noise)
    told: list[Any] = [means.gram, means.counts, means.noise_std, *cosines_of(means), residuals(cosines_of(means)[0])]
    for direction in (*guesses(means), *contrast(means)):
        apart = [direction.without(np.array([client]), means, D) for client in (0, 5, 11)]
        told += [
            direction.weights,
            [(weights[0], float(length[0]), float(signal[0])) for weights, length, signal in apart],
        ]
    left = means.forget(3).forget(8)
    return [*told, left.present, left.gram, len(guesses(left)), [one.weights for one in contrast(left)]]


def _bank(shares: list[float], noise: float, pooled: bool) -> Bank:
    bank, pool = empty_bank(N), empty_pool(N)
    for number, (clients, rows, std) in enumerate(_rows(shares, noise, 5)):
        along = rows[:, 0].astype(np.float64)
        bases = np.maximum(0, number - clients % 3)
        products = bank.products(rows)
        products[:, clients] = inner_products(rows, rows)
        pool = pool.add(clients, rows, bases, along, std, 3)
        bank = bank.put(clients, rows, products, bases, along, std)
    return pool.bank if pooled else bank


def _found(shares: list[float], noise: float, pooled: bool, by_root: bool, **fields: Any) -> Any:
    bank = _bank(shares, noise, pooled)
    test = MajorityTest(**fields)
    found = test.judge(bank, D, by_root=by_root)
    other = test.judge(bank.forget(2), D, by_root=by_root, extra_variance=2.0)
    told = [found.out, found.struck, found.reasons, found.notes, found.decided, found.clearness]
    told += [sorted(found.against), sorted(found.cleared), other.reasons, other.notes, other.clearness]
    both = other.either(found)
    return [*told, both.reasons, both.notes, both.out, both.clearness, sorted(both.cleared)]


def _embedded(shares: list[float], noise: float) -> Any:
    bank = _bank(shares, noise, pooled=False)
    std = product_std(bank.gram, D, noise, 0.5)
    made = embed(bank.gram, std)
    if made is None:
        return [std, None]
    told: list[Any] = [std, np.abs(made.points), made.noise, made.eigenvalues, looseness(made)]
    weights = np.exp(-np.abs(np.arange(N) - np.arange(N)[:, None]) / 3.0)
    medians = geometric_medians(made.points, weights, 20)
    aligned = alignment_with(made, medians, np.linspace(0.5, 2, N))
    return [*told, np.abs(medians), aligned, lagging(aligned.along, 2.0), lagging(aligned.along, None)]


def _quality() -> Any:
    told = [
        Judgement(3, [0, 1, 2, 3], [True, False, True, False], (2,)),
        Judgement(4, [0, 1, 1], [False, False, False], unjudged=[True, False, False]),
        Judgement(5, [3, 4], [True, True], (3, 4), unjudged=[True, False], malicious=[False, True]),
        Judgement(6, [], []),
    ]
    attackers = np.array([True, False, True, False, True])
    return [detection_quality(told, attackers), overall_quality(told, attackers), overall_quality([], attackers)]


def _struck(threshold: int, window: int | None) -> Any:
    strikes = Strikes(threshold=threshold, window=window)
    state, told = strikes.start(4), []
    for number in range(6):
        clients = [(number + place * place) % 4 for place in range(6)]
        banned, state = strikes.step(state, clients, [(number * place) % 3 == 1 for place in range(6)])
        told.append([list(banned), state])
    return told


def _curved(pairs: int) -> Any:
    steps = [_drawn(6, seed=number) for number in range(pairs)]
    changes = [np.diag(np.arange(1.0, 7)) @ step + 0.1 * np.roll(step, 1) for step in steps]
    product = hessian([*steps, np.zeros(6)], [*changes, np.ones(6)])
    return None if product is None else [product(_drawn(6, seed=9)), product(steps[-1]) - changes[-1]]


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, shares in SIGNALS.items():
        for updates, noise in ((2, 0.1), (6, 0.0), (6, 0.3), (9, 0.9)):
            yield f"sides: {name}, {updates} updates of noise {noise}", partial(_judged, shares, updates, noise)
        for noise in (0.1, 0.6):
            yield f"guesses: {name}, noise {noise}", partial(_guessed, shares, noise)
            yield f"embedding: {name}, noise {noise}", partial(_embedded, shares, noise)
            yield f"majority: {name}, noise {noise}", partial(_found, shares, noise, False, False)
        yield f"majority: {name}, pooled", partial(_found, shares, 0.6, True, False)
        yield f"majority: {name}, by root", partial(_found, shares, 0.1, False, True, diffuse=0.05, skewed="root")
        yield f"majority: {name}, loose", partial(_found, shares, 0.3, False, True, diffuse=None, memory_versions=1.5)
    yield "huge majority", partial(_found, [1.0] * 10 + [5000.0, 1.0], 0.1, False, False)
    values = np.array([-0.4, 0.1, -0.3, -1.0, 0.2, -0.9])
    for level in (1e-4, 0.05, 0.5):
        yield f"bounds at {level}", lambda level=level: [
            strays(np.linspace(0, 3, 5), level, np.array([0.0, 0.1, 1.0, 2.0, 0.5])), suffixes(values),
            [
                bool(falls_short(values * size, np.full(6, 0.04), level, first))
                for size in (0.3, 1, 2, 5)
                for first in (1, 7)
            ],
            [bool(falls_short(values * 2, np.full(6, 0.04), level, 2, np.array([0, 0, 0.2, 0.2, 1, 1]) * size))
             for size in (0.1, 1, 9)], bool(falls_short(values[:0], values[:0], level)),
        ]  # fmt: skip
    yield "descent", lambda: [
        *common_descent(_drawn(3, 8)), *common_descent(np.zeros((2, 8), np.float32)),
        *common_descent(np.stack([_drawn(8), -_drawn(8)])), least_point(np.diag([1.0, 4.0, 9.0])),
        least_point(np.array([[1.0, 2.0], [2.0, 5.0]])),
    ]  # fmt: skip
    yield "certificates", lambda: [
        *norm_bounds(400, np.array([0.0, 0.1, 2.0]), np.array([1.0, np.inf, 3.0]), 6.0),
        *norm_bounds(400, np.array([0.0, 0.1, 2.0]), np.array([1.0, np.inf, 3.0]), 6.0, follows=True),
        *norm_bounds(20, np.array([0.5]), np.array([2.0]), 4.0),
        pair_bounds(400, np.array([0.0, 0.1]), np.array([1.0, 2.0]), np.array([0.3, 0.0, 0.2]), np.arange(3.0), 6.0),
        least_removed(np.abs(_drawn(7, 7) + _drawn(7, 7).T) > 1.5), least_removed(np.eye(3, dtype=bool)),
        least_removed(~np.eye(4, dtype=bool)),
    ]  # fmt: skip
    yield "along the root", lambda: [
        projections(_drawn(9, 5), _drawn(5, seed=2)), projections(_drawn(2, 5), np.zeros(5, np.float32)),
        *(one for way in (1, -1) for one in (
            downhill(way * np.arange(-3.0, 6), np.arange(9)[::-1]), *uphill(way * np.arange(-3.0, 6), np.arange(9)),
            downhill(way * np.arange(-3.0, 6), np.arange(9), newest=3), downhill(np.arange(9.0), np.arange(9), share=1),
        )),
    ]  # fmt: skip
    yield (
        "sketch",
        lambda: [
            draw_sketch(40, 7, np.random.default_rng(1))(_drawn(2, 40)),
            inner_products(_drawn(3, 9000), _drawn(2, 9000, seed=1)),
        ],
    )
    dropped = ((1, 0), (5, 2), (6, 1), (8, 3))
    yield "networks", lambda: [[list(network(n, drop)) for n, drop in dropped], list(full_network(6))]
    for n, drops in ((1, (0,)), (2, (0,)), (5, (0, 1, 2)), (8, (1, 3)), (129, (1, 64)), (130, (0, 64))):
        yield f"middle of {n}", lambda n=n, drops=drops: [middle_mean(_drawn(n, 3), drop) for drop in drops]
    numbers = np.array([3.0, 1.0, 1.2, 9.0, 2.9, 9.1, 9.1, 0.9, 5.0])
    yield "clusters", lambda: [
        *(in_clusters(numbers, k) for k in range(1, 10)), in_clusters(np.ones(4), 2), lower_cluster(numbers),
        lower_cluster(np.array([1.0, 2.0, 3.0])), lower_cluster(np.array([4.0])),
        lower_cluster(np.array([0.0, 1e9, 1e9])),
        [are_clustered(part, np.random.default_rng(k), 5) for part in (numbers, numbers[:3], np.linspace(0, 1, 9),
         np.array([0.0, 1.0]), np.ones(5), np.array([0.0, 0, 0, 0, 1, 1, 1, 1])) for k in range(3)],
    ]  # fmt: skip
    yield "distances", lambda: [
        squared_distances(_drawn(5, 30)),
        squared_distances(np.repeat(_drawn(2, 30), 3, 0) * 1e4 + 1e-3 * _drawn(6, 30)),
        np.abs(centred_products(_drawn(5, 30))), most_similar(_drawn(5, 30), _drawn(30, seed=3)),
        *(krum_scores(squared_distances(_drawn(6, 9)).astype(float), k) for k in (1, 3)), majority(_drawn(7, 4)),
        majority(np.vstack([np.ones((5, 4)) + 0.1 * _drawn(5, 4), -np.ones((2, 4))]).astype(np.float32)),
        nearest_to_median(_drawn(7, 5), 3), nearest_to_median(_drawn(6, 5), 1),
    ]  # fmt: skip
    yield "lengths", lambda: [
        inner_product(_drawn(9), _drawn(9, seed=1)), squared_norm(_drawn(9)), norms(_drawn(3, 9)),
        clipping_factors(np.array([0.0, 1.0, 2.0, 4.0]), 2.0),
        clipping_factors(np.array([0.5, 1.0, 2.0, 4.0]), "median"),
        weighted_sum(np.array([0.5, 0.0, 1e-31]), np.array([[1, 2], [3, 4], [1e30, 2e30]], np.float32)),
        weighted_sum(np.array([0.5, 0.25]), _drawn(2, 4)), weighted_sum(np.array([1e-29, 1.0]), _drawn(2, 4)),
    ]  # fmt: skip
    yield "quality", _quality
    for threshold, window in ((1, None), (2, None), (2, 2), (3, 5)):
        yield f"{threshold} strikes of {window}", partial(_struck, threshold, window)
    for pairs in (0, 1, 3):
        yield f"curvature of {pairs} pairs", partial(_curved, pairs)
    known: DefenceContext = context(3, 4, root_gradient=lambda model: np.asarray(model - 1, np.float32))
    known = replace(known, samples=np.array([10, 20, 30]), steps=np.array([2, 5, 9]))
    yield "context", lambda: [
        root_update(known, _drawn(4)), root_update(known, _drawn(4), 3),
        known.factors(np.array([1, 2]), np.array([0, 3])),
        [str(fault) for kind in ("zeno++", "fltrust", "krum") for n in (1, 4) for fault in Defence.model_validate(
            {"detector": {"kind": kind}} if kind == "zeno++" else {"rule": {"kind": kind}}).faults(n)],
    ]  # fmt: skip


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=1e-3)


if __name__ == "__main__":
    write(LIST, CALLS)
