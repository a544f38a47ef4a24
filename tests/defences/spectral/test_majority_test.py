"""The majority test on rows with known inner products."""

import numpy as np
import pytest

from asyncfl.defences.distances import inner_products
from asyncfl.defences.spectral.bank import empty_bank
from asyncfl.defences.spectral.majority_test import align, downhill, judge_majority, projections
from asyncfl.defences.spectral.spectrum import embed

HONEST = (1, 0, 0)


def bank_of(rows, *, projections=None, base_versions=None, noise_std=0.0):
    rows = np.asarray(rows, dtype=np.float32)
    n = len(rows)
    along = np.full(n, np.nan) if projections is None else np.asarray(projections, dtype=float)
    versions = np.zeros(n, dtype=np.int64) if base_versions is None else np.asarray(base_versions)
    return empty_bank(n).add(np.arange(n), rows, versions, along, np.full(n, noise_std))


def judge(rows, noise_std=0.0, by_root=False, **kwargs):
    rows = np.asarray(rows, dtype=float)
    return judge_majority(bank_of(rows, noise_std=noise_std, **kwargs), rows.shape[1], by_root=by_root)


def alignment(rows, versions=None):
    rows = np.asarray(rows, dtype=np.float32)
    embedding = embed(inner_products(rows, rows), 0.0)
    return align(embedding, np.array(versions or [0] * len(rows)), np.ones(len(rows), dtype=bool))


@pytest.mark.parametrize(
    ("point", "reason", "along"),
    [
        ((-1, 0, 0), "direction", -1),
        ((0, 0, 0), "direction", 0),
        ((0.5, 2, 0), "coherence", 0.502),
        ((1, 1.5, 0), "coherence", 1.001),
    ],
)
def test_four_deviating_rows_of_ten_are_found(point, reason, along):
    rows = [HONEST] * 6 + [point] * 4
    finding = judge(rows)
    assert finding.out.tolist() == [False] * 6 + [True] * 4
    assert all(finding.reasons[client].startswith(reason) for client in range(6, 10))
    assert alignment(rows).along[9] == pytest.approx(along, abs=2e-3)
    assert alignment(rows).along[0] == pytest.approx(1, abs=2e-3)


def test_laggards_are_left_out_but_not_struck():
    finding = judge([HONEST] * 6 + [(0.4, 0, 0)] * 4)
    assert finding.out.tolist() == [False] * 6 + [True] * 4
    assert not finding.struck.any()
    assert finding.reasons[9].startswith("laggard")


def test_noise_alone_gives_no_result():
    rows = np.random.default_rng(0).normal(0, 0.1, (30, 2000))
    finding = judge(rows, noise_std=0.1)
    assert finding.notes["rank"] == 0
    assert not finding.out.any()


def test_signals_are_found_in_much_longer_noise():
    random = np.random.default_rng(1)
    direction = np.zeros(5000)
    direction[0] = 1.0
    signs = np.array([1] * 30 + [-1] * 20)
    rows = signs[:, None] * direction + random.normal(0, 0.05, (50, 5000))
    assert np.linalg.norm(rows[0]) > 3
    finding = judge(rows, noise_std=0.05)
    assert finding.out.tolist() == [False] * 30 + [True] * 20


def test_rows_are_compared_with_rows_of_near_versions():
    """The common direction turned between version 0 and 100."""
    rows = [(1, 0, 0)] * 6 + [(0, 1, 0)] * 6
    assert alignment(rows, [0] * 6 + [100] * 6).along == pytest.approx(1, abs=2e-2)
    assert (alignment([*rows, (0, 1, 0)], [0] * 13).along[:6] < 0.3).all()


def skewed(n=60, labels=10, seed=0):
    """Signals of clients that hold two labels each: every label has a direction of its own."""
    random = np.random.default_rng(seed)
    signals = np.zeros((n, labels))
    for row in signals:
        row[random.choice(labels, 2, replace=False)] = (1.0, 0.6)
    return signals


def test_abstains_under_label_skew():
    finding = judge(skewed())
    assert finding.notes["diffuse"] == 1
    assert not finding.out.any()


def test_incoherent_minority_cannot_force_abstention():
    """Attackers in many directions: the median row is still honest."""
    rows = np.zeros((50, 30))
    rows[:30, 0] = 1.0
    rows[np.arange(30, 50), np.arange(1, 21)] = 5.0
    finding = judge(rows)
    assert finding.notes["diffuse"] == 0
    assert not finding.out[:30].any()


@pytest.mark.parametrize(("length", "huge"), [(1000.0, False), (1001.0, True)])
def test_rows_beyond_a_thousand_median_lengths_are_struck(length, huge):
    found = judge([HONEST] * 4 + [(length, 0, 0)])
    assert (found.reasons.get(4) == "too long to be compared") is huge
    assert (found.out[4], found.struck[4]) == (huge, huge)
    assert "too long to be compared" not in judge([(0, 0, 0)] * 3 + [(length, 0, 0)]).reasons.values()


def test_descent_along_the_root_set_by_hand():
    deltas = np.array([(1, 0), (-2, 5), (0, 3)], dtype=np.float32)
    assert projections(deltas, np.array([-4, 0], dtype=np.float32)) == pytest.approx([1, -2, 0])
    # At least half of the upper quantile.
    along = np.array([1.0, 1.0, 1.0, 0.6, 0.4, -1.0, -1.0, -1.0, -1.0, -1.0])
    assert downhill(along, np.arange(10)).tolist() == [True] * 4 + [False] * 6
