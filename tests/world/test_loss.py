"""Numbers of lost packets against exact distributions, worked out packet by packet."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from asyncfl.world import loss as loss_module
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, NoLoss

BURSTY = GilbertElliottLoss(good_to_bad=0.1, bad_to_good=0.3, loss_in_good=0.05, loss_in_bad=0.8)


def exact(loss: GilbertElliottLoss, bad: bool, packets: int) -> np.ndarray:
    """Joint probability of (packets lost, state of the next packet), one packet after another: (packets + 1, 2)."""
    table = np.zeros((packets + 1, 2))
    table[0, int(bad)] = 1
    stay = np.array([1 - loss.good_to_bad, 1 - loss.bad_to_good])
    lose = np.array([loss.loss_in_good, loss.loss_in_bad])
    for _ in range(packets):
        after = table * (1 - lose)
        after[1:] += table[:-1] * lose
        table = after * stay + (after * (1 - stay))[:, ::-1]
    return table


def agrees(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    """Chi-square test at a fixed seed; cells expected fewer than five times are put together."""
    expected = probabilities.ravel() * counts.sum()
    counts = counts.ravel().astype(float)
    rare = expected < 5
    assert counts[expected == 0].sum() == 0
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 0
    return kept.sum() == 1 or stats.chisquare(observed[kept], expected[kept]).pvalue > 1e-3


@pytest.mark.parametrize("many_cycles", [16, -1], ids=["by sojourn", "by cycle"])
@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize(
    ("loss", "packets"),
    [
        (BURSTY, 12),
        (BURSTY, 1),
        (GilbertElliottLoss(good_to_bad=0.4, bad_to_good=0.9), 40),
        (GilbertElliottLoss(good_to_bad=1, bad_to_good=1), 7),
        (GilbertElliottLoss(good_to_bad=1e-15, bad_to_good=0.5), 20),
    ],
)
def test_losses_of_a_run_of_packets_have_their_exact_distribution(monkeypatch, many_cycles, bad, loss, packets) -> None:
    monkeypatch.setattr(loss_module, "MANY_CYCLES", many_cycles)
    rng = np.random.default_rng(11)
    counts = np.zeros((packets + 1, 2))
    for _ in range(4000):
        lost, next_bad = loss.step(bad, packets, 0.0, rng)
        counts[lost, int(next_bad)] += 1
    assert agrees(counts, exact(loss, bad, packets))


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("slots", [0, 1, 3, 3.9])
def test_silence_moves_the_channel_as_packets_would(bad, slots) -> None:
    rng = np.random.default_rng(5)
    certain = GilbertElliottLoss(good_to_bad=0.3, bad_to_good=0.2)
    lost = sum(certain.step(bad, 1, slots, rng)[0] for _ in range(4000))
    bad_then = exact(certain, bad, math.floor(slots))[:, 1].sum()
    assert abs(lost - 4000 * bad_then) <= 4 * math.sqrt(4000 * bad_then * (1 - bad_then))


@settings(max_examples=200)
@given(
    st.floats(1e-18, 1),
    st.floats(1e-18, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 5000),
    st.floats(0, 1e300) | st.just(math.inf),
    st.integers(0, 2**32),
)
def test_never_more_lost_than_sent(leave_good, leave_bad, in_good, in_bad, packets, silence, seed) -> None:
    loss = GilbertElliottLoss(good_to_bad=leave_good, bad_to_good=leave_bad, loss_in_good=in_good, loss_in_bad=in_bad)
    rng = np.random.default_rng(seed)
    lost, state = loss.step(loss.start(rng), packets, silence, rng)
    assert 0 <= lost <= packets
    assert isinstance(lost, int)
    assert isinstance(state, bool)


@pytest.mark.parametrize(
    ("loss", "mean", "lossless"),
    [
        (NoLoss(), 0, True),
        (IndependentLoss(probability=0.3), 0.3, False),
        (IndependentLoss(probability=0), 0, True),
        # Bad for 0.1 / (0.1 + 0.3) of all packets.
        (BURSTY, 0.25 * 0.8 + 0.75 * 0.05, False),
        (GilbertElliottLoss(good_to_bad=0.1, bad_to_good=0.3, loss_in_good=0.2, loss_in_bad=0), 0.75 * 0.2, False),
        (GilbertElliottLoss(good_to_bad=0.1, bad_to_good=0.3, loss_in_bad=0), 0, True),
    ],
)
def test_long_run_loss_worked_out_by_hand(loss, mean, lossless) -> None:
    assert loss.mean_loss() == pytest.approx(mean)
    assert loss.lossless is lossless
