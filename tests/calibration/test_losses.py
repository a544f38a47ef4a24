"""How packets are lost, from what was sent again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.calibration.losses import fitted_loss, lost_in_bursts
from asyncfl.calibration.messages import SeenMessage
from asyncfl.world.loss import GilbertElliottLoss, NoLoss

rates = st.floats(0.001, 1.0)


def test_two_packets_in_a_bursty_channel_by_hand() -> None:
    # bad share 1/4; good stays good with .8, bad stays bad with .4
    np.testing.assert_allclose(lost_in_bursts(2, 0.2, 0.6), [0.75 * 0.8, 0.75 * 0.2 + 0.25 * 0.6, 0.25 * 0.4])


@given(packets=st.integers(1, 40), turns_bad=rates, turns_good=rates)
def test_bursts_are_a_law_whose_mean_is_the_long_runs(packets: int, turns_bad: float, turns_good: float) -> None:
    law = lost_in_bursts(packets, turns_bad, turns_good)
    assert law.sum() == pytest.approx(1.0)
    mean = GilbertElliottLoss(good_to_bad=turns_bad, bad_to_good=turns_good).mean_loss()
    assert law @ np.arange(packets + 1) == pytest.approx(packets * mean)


def test_nothing_sent_again_is_no_loss() -> None:
    assert fitted_loss([SeenMessage(0, (6000,), (0.0,), 1.0)] * 40, 1500).loss == NoLoss()


def test_independent_losses_are_counted() -> None:
    # 4 packets, one lost of them, none of the one that was sent again
    one = SeenMessage(0, (6000, 1500), (0.0, 1.0), 2.0)
    found = fitted_loss([one] * 10, 1500)
    assert (found.packets, found.lost) == (50, 10)
    assert found.loss.mean_loss() == pytest.approx(0.2)


def test_a_message_that_was_given_up_lost_at_least_one_packet_more() -> None:
    # one packet, never sent again: 3 of 10 did not arrive
    arrived = SeenMessage(0, (1000,), (0.0,), 1.0)
    lost = SeenMessage(0, (1000,), (0.0,), np.nan)
    found = fitted_loss([arrived] * 7 + [lost] * 3, 1500)
    assert found.loss.mean_loss() == pytest.approx(0.3, rel=1e-4)
