"""Provisional verdicts, and corrections of the model when they change."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences.spectral.spectral_detector import ProvisionalBuffer, revise

WEIGHT = 0.7


def evenly(samples, staleness, work):
    """Equal weights times a server rate."""
    return np.full(len(samples), WEIGHT / len(samples))


def by_work(samples, staleness, work):
    """Weights by samples times work."""
    return samples * work / (samples * work).sum()


def buffer(clients, applied, deltas):
    n, applied = len(clients), np.array(applied, dtype=bool)
    ones = np.ones(n, dtype=np.int64)
    factors = np.where(applied, WEIGHT / max(1, applied.sum()), WEIGHT / n)
    return ProvisionalBuffer(np.array(clients), ones, ones, applied, factors, np.array(deltas, dtype=np.float32))


BUFFER = buffer([0, 1, 2, 3], [True, False, True, False], [(2, 0), (0, 4), (100, 100), (100, 100)])
GUILTY = np.array([True, False, False, True])


def test_subtract_correction_by_hand():
    change, _ = revise([BUFFER], GUILTY, "subtract", evenly)
    np.testing.assert_allclose(change, [-0.35 * 2, 0.175 * 4], rtol=1e-6)
    assert change.dtype == np.float32


def test_rebuild_weighs_updates_by_work():
    """Kept updates are weighed by their share of epochs."""
    four = np.arange(4)
    made = ProvisionalBuffer(
        four, four + 1, 0 * four, four >= 0, by_work(four + 1, 0, np.ones(4)), np.eye(4), np.array([1, 0.5, 1, 0.25])
    )
    change, (settled,) = revise([made], GUILTY, "rebuild", by_work)
    np.testing.assert_allclose(change, [-0.1, 0.25 - 0.2, 0.75 - 0.3, -0.4], rtol=1e-6)
    np.testing.assert_allclose(settled.factors[1:3], [0.25, 0.75])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=8),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_rebuilt_model_is_the_mean_of_kept_updates(rows, left_out):
    """For any verdicts: the applied updates plus the correction give the mean over the kept updates."""
    clients, applied = [client for client, _ in rows], [let_in for _, let_in in rows]
    deltas = np.random.default_rng(len(rows)).normal(size=(len(rows), 3)).astype(np.float32)
    made = buffer(clients, applied, deltas)
    change, _ = revise([made], np.array(left_out), "rebuild", evenly)
    kept = deltas[[not left_out[client] for client in clients]]
    wanted = WEIGHT * kept.mean(axis=0) if len(kept) else np.zeros(3)
    before = (made.factors * made.applied) @ deltas
    np.testing.assert_allclose(before + (0 if change is None else change), wanted, atol=1e-6)
