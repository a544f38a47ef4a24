"""The spectral detector over sequences of buffers: gate, several updates of a client, bans, corrected models."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import DefenceContext, Spectral
from asyncfl.defences.spectral.spectral_detector import ProvisionalBuffer, revise
from asyncfl.testing import buffer

D, CLIENTS = 400, 10
NOISE, STEP = 0.01, 1.0
GOOD = np.eye(1, D)[0] * 0.8
BAD = -GOOD


def start(detector, **changes):
    ones = np.ones(CLIENTS, dtype=np.int64)
    plain = DefenceContext(CLIENTS, ones * 100, D, STEP, 1.0, ones)
    return detector.start(replace(plain, **changes), np.random.default_rng(0))


class Sender:
    """Makes buffers of noisy signals, one version after another."""

    def __init__(self, noise=NOISE, seed=0):
        self.random, self.noise, self.version = np.random.default_rng(seed), noise, 0

    def buffer(self, clients, signals):
        deltas = np.array(signals) + self.random.normal(0, 1, (len(clients), D)) * self.noise
        self.version += 1
        return buffer(deltas, clients=clients, current=0.5, version=self.version - 1, upload_std=self.noise)


def kinds(verdict):
    return [detail.split(" ")[0] for detail in verdict.details]


OPEN = Spectral(coverage=0.0)


def test_updates_against_the_bank_are_left_out_and_struck():
    sender = Sender()
    verdict, _ = OPEN.judge(start(OPEN), sender.buffer(range(10), [GOOD] * 6 + [BAD] * 4), None)
    assert verdict.flagged.tolist() == [False] * 6 + [True] * 4
    assert verdict.strikes.tolist() == [False] * 6 + [True] * 4
    assert set(kinds(verdict)[6:]) == {"direction"}


def test_model_is_corrected_when_the_gate_opens():
    """Attackers are the majority of the first buffer, but a minority of all clients."""
    detector, sender = Spectral(), Sender()
    first = sender.buffer([0, 1, 2, 3], [BAD, BAD, BAD, GOOD])
    verdict, state = detector.judge(start(detector), first, None)
    assert verdict.flagged.tolist() == [False, False, False, True]
    assert not verdict.strikes.any()
    assert verdict.correction is None
    assert not state.is_open

    second = sender.buffer(range(4, 10), [GOOD] * 6)
    verdict, state = detector.judge(state, second, None)
    assert state.is_open
    assert not verdict.flagged.any()
    assert verdict.late_strikes == (0, 1, 2)
    # Three updates were aggregated with weight 1/3 each; only the fourth remains.
    expected = first.deltas[3] - first.deltas[:3].sum(axis=0) / 3
    np.testing.assert_allclose(verdict.correction, expected, atol=1e-6)
    assert state.provisional == ()

    third = sender.buffer([0, 5], [BAD, GOOD])
    verdict, _ = detector.judge(state, third, None)
    assert verdict.strikes.tolist() == [True, False]
    assert verdict.correction is None


def test_one_result_gives_one_strike():
    """Client 0 is in the buffer that opens the gate and is struck for it once."""
    detector, sender = Spectral(), Sender()
    _, state = detector.judge(start(detector), sender.buffer([0, 1, 2, 3], [BAD, BAD, GOOD, GOOD]), None)
    verdict, _ = detector.judge(state, sender.buffer([0, 4, 5, 6, 7, 8], [BAD] + [GOOD] * 5), None)
    assert verdict.strikes.tolist() == [True] + [False] * 5
    assert verdict.late_strikes == (1,)


FAINT = {"noise": 0.22, "seed": 5}
"""Noise at which attackers show in means of updates, but not in single ones."""


def faintly(detector, buffers, good=0.8):
    """Return the verdicts of buffers in which clients 7 to 9 send the opposite of the others."""
    sender, verdicts = Sender(**FAINT), []
    state = start(detector)
    for _ in range(buffers):
        verdict, state = detector.judge(state, sender.buffer(range(10), [good * GOOD] * 7 + [-good * GOOD] * 3), None)
        verdicts.append(verdict)
    return verdicts


def test_pooled_means_detect_what_single_updates_cannot():
    verdicts = faintly(Spectral(), 5)
    assert [int(verdict.flagged.sum()) for verdict in verdicts] == [0, 0, 3, 3, 3]
    assert verdicts[2].flagged.tolist() == [False] * 7 + [True] * 3
    assert verdicts[2].notes["pooled"] > 2
    assert {detail.split(" ")[0] for detail in verdicts[2].details[7:]} == {"pooled"}


def test_each_update_of_a_client_is_judged():
    sender = Sender()
    _, state = OPEN.judge(start(OPEN), sender.buffer(range(10), [GOOD] * 10), None)
    verdict, state = OPEN.judge(state, sender.buffer([3, 4, 3, 3], [BAD, GOOD, GOOD, BAD]), None)
    assert verdict.flagged.tolist() == [True, False, False, True]
    sums = np.array([[float(a @ b) for b in state.bank.rows] for a in state.bank.rows])
    np.testing.assert_allclose(state.bank.gram, sums, atol=1e-4)


def test_root_set_identifies_the_honest_minority():
    sender = Sender()
    buffer = sender.buffer(range(10), [GOOD] * 4 + [BAD] * 6)
    gradient = (-GOOD).astype(np.float32)
    known = start(OPEN, root_gradient=lambda model: gradient)
    verdict, _ = OPEN.judge(known, buffer, None)
    assert verdict.flagged.tolist() == [False] * 4 + [True] * 6
    assert verdict.notes["voters"] == 4


@pytest.mark.parametrize("size", [1e4, 1e10, 1e19, 3e38])
def test_huge_updates_do_not_hide_other_attackers(size):
    sender = Sender()
    begun = start(OPEN, gradient_clip=None)
    signals = [GOOD] * 6 + [BAD] * 2 + [size * GOOD, np.full(D, size)]
    verdict, state = OPEN.judge(begun, sender.buffer(range(10), signals), None)
    assert verdict.flagged.tolist() == [False] * 6 + [True] * 4
    assert verdict.strikes.tolist() == verdict.flagged.tolist()
    again, _ = OPEN.judge(state, sender.buffer(range(10), [GOOD] * 6 + [BAD] * 4), None)
    assert again.flagged.tolist() == verdict.flagged.tolist()


WEIGHT = 0.7


def evenly(samples, staleness, work):
    """Equal weights times a server rate."""
    return np.full(len(samples), WEIGHT / len(samples))


def by_work(samples, staleness, work):
    """Weights by samples times work."""
    return samples * work / (samples * work).sum()


def provisional(clients, applied, deltas):
    n, applied = len(clients), np.array(applied, dtype=bool)
    ones = np.ones(n, dtype=np.int64)
    factors = np.where(applied, WEIGHT / max(1, applied.sum()), 0.0)
    return ProvisionalBuffer(np.array(clients), ones, ones, None, np.array(deltas, dtype=np.float32), applied, factors)


def test_rebuild_weighs_updates_by_work():
    """Kept updates are weighed by their share of epochs."""
    four = np.arange(4)
    factors, work = by_work(four + 1, 0, np.ones(4)), np.array([1, 0.5, 1, 0.25])
    made = ProvisionalBuffer(four, four + 1, 0 * four, work, np.eye(4), four >= 0, factors)
    change, (settled,) = revise([made], np.array([True, False, False, True]), by_work)
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
    made = provisional(clients, applied, deltas)
    change, _ = revise([made], np.array(left_out), evenly)
    kept = deltas[[not left_out[client] for client in clients]]
    wanted = WEIGHT * kept.mean(axis=0) if len(kept) else np.zeros(3)
    before = (made.factors * made.applied) @ deltas
    np.testing.assert_allclose(before + (0 if change is None else change), wanted, atol=1e-6)
