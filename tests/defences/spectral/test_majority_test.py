"""The majority test on rows with known inner products."""

import numpy as np
import pytest

from asyncfl.defences.distances import inner_products
from asyncfl.defences.spectral.bank import empty_bank
from asyncfl.defences.spectral.majority_test import MajorityTest, downhill, projections, uphill
from asyncfl.defences.spectral.spectrum import embed

TEST = MajorityTest()
HONEST = (1, 0, 0)


def bank_of(rows, *, projections=None, base_versions=None, noise_std=0.0):
    rows = np.asarray(rows, dtype=np.float32)
    n = len(rows)
    along = np.full(n, np.nan) if projections is None else np.asarray(projections, dtype=float)
    versions = np.zeros(n, dtype=np.int64) if base_versions is None else np.asarray(base_versions)
    return empty_bank(n).add(np.arange(n), rows, versions, along, np.full(n, noise_std))


def judge(rows, test=TEST, noise_std=0.0, by_root=False, **kwargs):
    rows = np.asarray(rows, dtype=float)
    return test.judge(bank_of(rows, noise_std=noise_std, **kwargs), rows.shape[1], by_root=by_root)


def alignment(rows):
    rows = np.asarray(rows, dtype=np.float32)
    embedding = embed(inner_products(rows, rows), 0.0)
    return TEST.alignment(embedding, np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=bool))


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
    assert not judge([HONEST] * 6 + [(0.4, 0, 0)] * 4, MajorityTest(laggards=None)).out.any()


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
    """The common direction turned between version 0 and 100; rows are compared with rows of near versions."""
    rows = [(1, 0, 0)] * 6 + [(0, 1, 0)] * 6
    assert not judge(rows, base_versions=[0] * 6 + [100] * 6, test=MajorityTest(diffuse=None)).out.any()
    together = judge([*rows, (0, 1, 0)], base_versions=[0] * 13, test=MajorityTest(diffuse=None))
    assert together.out[:6].all()


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
    assert judge(skewed(), MajorityTest(diffuse=None)).struck.sum() > 15


def test_root_set_judges_under_label_skew_if_configured():
    along = np.full(60, 1.0)
    along[:3] = (-0.1, -1.1, 0.1)
    by_root = MajorityTest(skewed="root")
    finding = judge(skewed(), by_root, projections=along, by_root=True)
    assert np.flatnonzero(finding.out).tolist() == [0, 1]
    assert np.flatnonzero(finding.struck).tolist() == [1]
    assert finding.reasons[1].startswith("uphill")
    assert not judge(skewed(), MajorityTest(), projections=along, by_root=True).out.any()
    assert not judge(skewed(), by_root).out.any()


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
    # Downhill: at least half of the upper quantile. Uphill: to be left out, and struck if far.
    along = np.array([1.0, 1.0, 1.0, 0.6, 0.4, -1.0, -1.0, -1.0, -1.0, -1.0])
    assert downhill(along, np.arange(10)).tolist() == [True] * 4 + [False] * 6
    left, struck = uphill(np.array([1.0, 1.0, 1.0, 0.01, -0.01, -0.4, -1.1, -2.0]), np.arange(8))
    assert left.tolist() == [False] * 4 + [True] * 4
    assert struck.tolist() == [False] * 6 + [True] * 2
