"""How packets are lost, from what was sent again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.calibration.links import ObservedMessage, fit_loss, lost_in_bursts
from asyncfl.world.loss import GilbertElliottLoss

rates = st.floats(0.001, 1.0)


def test_two_packets_in_a_bursty_channel_by_hand() -> None:
    # bad share 1/4; good stays good with .8, bad stays bad with .4
    np.testing.assert_allclose(lost_in_bursts(2, 0.2, 0.6), [0.75 * 0.8, 0.75 * 0.2 + 0.25 * 0.6, 0.25 * 0.4])


@given(packets=st.integers(1, 40), turns_bad=rates, turns_good=rates)
def test_the_law_of_losses_in_bursts_has_the_long_run_mean(packets: int, turns_bad: float, turns_good: float) -> None:
    law = lost_in_bursts(packets, turns_bad, turns_good)
    assert law.sum() == pytest.approx(1.0)
    mean = GilbertElliottLoss(good_to_bad=turns_bad, bad_to_good=turns_good).mean_loss()
    assert law @ np.arange(packets + 1) == pytest.approx(packets * mean)


def test_independent_losses_are_counted() -> None:
    # 4 packets, one lost of them, none of the one that was sent again
    one = ObservedMessage(0, (6000, 1500), (0.0, 1.0), 2.0)
    found = fit_loss([one] * 10, 1500)
    assert (found.packets, found.lost) == (50, 10)
    assert found.loss.mean_loss() == pytest.approx(0.2)


def test_a_message_that_was_given_up_lost_at_least_one_packet_more() -> None:
    # one packet, never sent again: 3 of 10 did not arrive
    arrived = ObservedMessage(0, (1000,), (0.0,), 1.0)
    lost = ObservedMessage(0, (1000,), (0.0,), np.nan)
    found = fit_loss([arrived] * 7 + [lost] * 3, 1500)
    assert found.loss.mean_loss() == pytest.approx(0.3, rel=1e-4)


def test_the_last_transmission_of_a_lost_message_lost_at_least_one_packet() -> None:
    # Of 8 packets 2 were sent again, in vain: 8 + 2 went, 2 are known to be lost, and of the last 2 one at least.
    found = fit_loss([ObservedMessage(0, (8000, 2000), (0.0, 1.0), np.nan)], 1000)
    assert (found.packets, found.lost, found.compared) == (10, 2, {})
    p = np.linspace(0.2, 0.5, 30001)
    likelihood = p**2 * (1 - p) ** 6 * (1 - (1 - p) ** 2)
    assert found.loss.mean_loss() == pytest.approx(p[likelihood.argmax()], abs=2e-5)


def test_independent_losses_have_one_parameter_and_bursts_two() -> None:
    # Of 2 packets each nothing is lost of 20 messages, one of 20, both of 20: a channel that stays good with 2/3.
    whole = ObservedMessage(0, (2000,), (0.0,), 1.0)
    one, both = (ObservedMessage(0, (2000, size), (0.0, 1.0), 2.0) for size in (1000, 2000))
    found = fit_loss([*[whole] * 20, *[one] * 20, *[both] * 20], 1000)
    # Half of all packets: (1/4, 1/2, 1/4) for 0, 1 and 2.
    alone = 20 * np.log(0.25) + 20 * np.log(0.5) + 20 * np.log(0.25)
    assert found.compared["independent"] == pytest.approx(2 - 2 * alone)
    assert found.compared["gilbert_elliott"] == pytest.approx(4 - 2 * 60 * np.log(1 / 3))
    assert isinstance(found.loss, GilbertElliottLoss)
    assert (found.loss.good_to_bad, found.loss.bad_to_good) == pytest.approx((1 / 3, 1 / 3), abs=1e-3)
