"""Laws of the rules: equivariance, weights, illegal input, and updates of any finite size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.defences import (
    Bucketing,
    Bulyan,
    CentredClipping,
    GeometricMedian,
    Krum,
    Median,
    MultiKrum,
    NearestNeighbourMixing,
    NormClipping,
    TrimmedMean,
)

MIXED = (NearestNeighbourMixing(),)
LOCATIONS = [
    Krum(),
    MultiKrum(),
    TrimmedMean(),
    Median(),
    GeometricMedian(),
    Bulyan(),
    Median(pre=MIXED),
    Krum(pre=MIXED),
]
"""Rules whose centre moves with the updates."""
ALL = [*LOCATIONS, NormClipping(), CentredClipping(), Median(pre=(Bucketing(),))]

matrices = st.tuples(st.integers(1, 14), st.integers(1, 4), st.integers(0, 2**32 - 1))


def draw(shape) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    n, d, seed = shape
    random = np.random.Generator(np.random.Philox(key=seed))
    return random.normal(size=(n, d)) * 3, random.uniform(0.1, 1, n) / n, random


def name(rule):
    return rule.kind + "+".join(["", *(pre.kind for pre in rule.pre)])


@pytest.mark.parametrize("rule", LOCATIONS, ids=name)
@given(shape=matrices, shift=st.floats(-100, 100))
@settings(max_examples=25)
def test_shifted_updates_shift_the_centre(rule, shape, shift):
    updates, weights, _ = draw(shape)
    if len(updates) == 2:
        updates, weights = updates[:1], weights[:1]
    moved = rule.aggregate(updates + shift, weights)
    np.testing.assert_allclose(moved, rule.aggregate(updates, weights) + weights.sum() * shift, atol=1e-6)


@pytest.mark.parametrize("rule", [Krum(), MultiKrum(), GeometricMedian(), NormClipping(), Krum(pre=MIXED)], ids=name)
def test_weights_of_selecting_rules_reproduce_the_aggregate(rule):
    updates, weights, _ = draw((12, 3, 4))
    np.testing.assert_allclose(rule.weigh(updates, weights) @ updates, rule.aggregate(updates, weights), atol=1e-12)


@pytest.mark.parametrize("rule", ALL, ids=name)
@pytest.mark.parametrize(
    ("updates", "weights", "message"),
    [
        (np.ones((0, 3)), np.ones(0), "at least one"),
        (np.ones(3), np.ones(3), "n_updates, n_parameters"),
        (np.ones((3, 2)), np.ones(2), "one per update"),
        (np.ones((3, 2)), np.array([1, -0.5, 1]), "-0.5"),
        (np.ones((3, 2)), np.array([1, np.nan, 1]), "nan"),
        (np.array([[1.0], [np.inf], [np.nan]]), np.ones(3), r"rows \[1, 2\]"),
    ],
)
def test_illegal_input_is_refused(rule, updates, weights, message):
    with pytest.raises(ValueError, match=message):
        rule.aggregate(updates, weights)


# --- updates of any finite size ---

ATTACKERS, HONEST = 3, 12
SIZES = st.floats(3, 38.4).map(lambda exponent: 10.0**exponent)
HUGE = [
    Krum(byzantine=ATTACKERS),
    MultiKrum(byzantine=ATTACKERS),
    Bulyan(byzantine=ATTACKERS),
    Median(),
    TrimmedMean(byzantine=ATTACKERS),
    Krum(byzantine=ATTACKERS, pre=(NearestNeighbourMixing(byzantine=ATTACKERS),)),
    TrimmedMean(byzantine=ATTACKERS, pre=(NearestNeighbourMixing(byzantine=ATTACKERS),)),
]


def attacked(sizes, alike, seed, d=40):
    """Return updates, with those of attackers scaled to the given sizes, and the rows of the attackers."""
    random = np.random.Generator(np.random.Philox(key=seed))
    updates = random.normal(size=(HONEST + ATTACKERS, d))
    rows = random.permutation(len(updates))[:ATTACKERS]
    forged = random.uniform(-1, 1, size=(ATTACKERS, d))
    updates[rows] = (forged[:1] if alike else forged) * np.reshape(sizes, (-1, 1))
    return np.clip(updates, -3.4e38, 3.4e38).astype(np.float32), rows


@pytest.mark.parametrize("rule", HUGE, ids=name)
@given(sizes=st.lists(SIZES, min_size=ATTACKERS, max_size=ATTACKERS), alike=st.booleans(), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_aggregate_stays_within_honest_values_whatever_attackers_send(rule, sizes, alike, seed):
    updates, rows = attacked(sizes, alike, seed)
    honest = np.delete(updates, rows, axis=0)
    weights = np.full(len(updates), 1 / len(updates))
    out = rule.aggregate(updates, weights)
    assert (out >= honest.min(axis=0) - 1e-5).all()
    assert (out <= honest.max(axis=0) + 1e-5).all()
    assert np.isfinite(rule.weigh(updates, weights)).all()


@given(sizes=st.lists(SIZES, min_size=ATTACKERS, max_size=ATTACKERS), alike=st.booleans(), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_geometric_median_depends_only_on_directions_of_distant_attackers(sizes, alike, seed):
    """Distant updates pull by their direction alone."""
    updates, rows = attacked(sizes, alike, seed)
    weights = np.full(len(updates), 1 / len(updates))
    out, weighed = GeometricMedian().aggregate(updates, weights), GeometricMedian().weigh(updates, weights)
    modest = updates.copy()
    for row in rows:
        wide = updates[row].astype(np.float64)
        modest[row] = wide / np.linalg.norm(wide) * 1e6
    wanted = GeometricMedian().aggregate(modest, weights)
    np.testing.assert_allclose(out, wanted, atol=100 / min(sizes) + 2e-4)
    assert np.abs(out).max() < 3
    np.testing.assert_allclose(weighed @ updates.astype(np.float64), out, atol=1e-3)
    assert weighed.sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", [NormClipping(), CentredClipping(), Median(pre=(Bucketing(),))], ids=name)
@given(sizes=st.lists(SIZES, min_size=ATTACKERS, max_size=ATTACKERS), seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_clipping_limits_updates_of_any_size(rule, sizes, seed):
    updates, rows = attacked(sizes, False, seed)
    honest = np.delete(updates, rows, axis=0)
    weights = np.full(len(updates), 1 / len(updates))
    out = rule.aggregate(updates, weights)
    assert np.linalg.norm(out) <= 1.001 * np.linalg.norm(honest, axis=1).max() * (
        1 + 10 * bool(getattr(rule, "pre", ()))
    )
    assert np.isfinite(rule.weigh(updates, weights)).all()
    if not rule.pre:
        # Each attacker weighs what clipping leaves of it: in all no more than a share of the median length.
        weighed = rule.weigh(updates, weights)
        lengths = np.linalg.norm(updates.astype(np.float64), axis=1)
        assert (weighed[rows] * lengths[rows] <= 1.001 / len(updates) * np.median(lengths)).all()
