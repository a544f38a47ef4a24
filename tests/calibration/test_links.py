"""Links fitted to messages that are written by hand, and made by a link that is known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.calibration.links import ObservedMessage, fit_links, fit_loss, lost_in_bursts, messages_of
from asyncfl.trace.events import Kind
from asyncfl.world.distributions import Fixed
from asyncfl.world.links import Link
from asyncfl.world.loss import GilbertElliottLoss, NoLoss
from tests.calibration.conftest import observe_run

BEFORE = Link(retransmissions=4, retransmission_timeout_s=0.7, mtu_bytes=1000)
NAN = math.nan


def sent(
    client: int, *sizes: int, s_per_byte: float = 1e-4, wait: float = 0.5, latency: float = 0.2
) -> ObservedMessage:
    """A message over a link of these; a size of 0 at the end: it was lost."""
    lost = sizes[-1] == 0
    sizes = sizes[:-1] if lost else sizes
    began = np.concatenate([[0.0], np.cumsum([size * s_per_byte + wait for size in sizes[:-1]])])
    return ObservedMessage(
        client, sizes, tuple(began.tolist()), NAN if lost else float(began[-1]) + sizes[-1] * s_per_byte + latency
    )


def test_messages_are_read_from_events_of_their_direction() -> None:
    def event(time_s: float, kind: Kind, task: int, size: int = -1, detail: str = "") -> tuple[float, Kind, dict]:  # type: ignore[type-arg]
        return time_s, kind, {"task": task, "client": task % 2, "bytes": size, "detail": detail}

    run = observe_run(
        event(0.0, Kind.DISPATCHED, 0),
        event(1.0, Kind.DOWNLOAD_STARTED, 0, 5000, "down"),
        event(1.5, Kind.DOWNLOAD_STARTED, 1, 4000, "down"),
        event(2.0, Kind.RETRANSMITTED, 0, 1000, "down"),
        event(2.5, Kind.RETRANSMITTED, 0, 700, "up"),
        event(3.0, Kind.DOWNLOADED, 0, 6000, "down"),
        event(3.5, Kind.RETRANSMITTED, 1, 2000, "down"),
        event(3.75, Kind.RETRANSMITTED, 1, 1000, "down"),
        event(4.0, Kind.LOST, 1, 7000, "down"),
        event(5.0, Kind.DOWNLOADED, 7, 100, "down"),
        event(6.0, Kind.UPLOAD_STARTED, 0, 300, "up"),
        event(7.0, Kind.UPLOADED, 0, 300, "up"),
        event(8.0, Kind.DOWNLOAD_STARTED, 2, 300, "down"),
    )
    down = messages_of(run, "down")
    assert down[0] == ObservedMessage(0, (5000, 1000), (0.0, 1.0), 2.0)
    assert (down[1].client, down[1].sizes, down[1].began_s) == (1, (4000, 2000, 1000), (0.0, 2.0, 2.25))
    assert math.isnan(down[1].arrived_s)
    assert len(down) == 2
    assert messages_of(run, "up") == [ObservedMessage(0, (300,), (0.0,), 1.0)]


def test_a_link_is_found_from_messages_of_two_sizes_or_sent_again() -> None:
    of_two = [sent(1, 5000, 2000, 1000, s_per_byte=2e-4, latency=0.3), sent(1, 5000, 0)]
    messages = [sent(0, 5000), sent(0, 8000), *of_two]
    found = fit_links(3, messages, BEFORE)
    assert found.latency_s == pytest.approx([0.2, 0.3, 0.25])
    assert found.bandwidth_bps == pytest.approx([8 / 1e-4, 8 / 2e-4, 8 / 1.5e-4])
    assert found.timeout_s == pytest.approx(0.5)
    assert (found.messages, found.separable, found.unseen) == (3, 2, (2,))
    assert (found.retransmissions, found.timeout_s) == (0, pytest.approx(0.5))
    assert found.latency.distribution.expected() == pytest.approx(0.25)
    assert found.bandwidth is not None
    # The mean of the clients that were seen, not of whom the median was given.
    assert found.bandwidth.distribution.expected() == pytest.approx((8 / 1e-4 + 8 / 2e-4) / 2)
    assert found.jitter.distribution == Fixed(value=0.0)


def test_retransmissions_are_as_many_as_a_lost_message_had() -> None:
    def retransmissions(*messages: ObservedMessage) -> int:
        return fit_links(1, messages, BEFORE).retransmissions

    assert retransmissions(sent(0, 5000), sent(0, 4000, 1000)) == 4
    assert retransmissions(sent(0, 5000), sent(0, 4000, *[1000] * 5)) == 5
    assert retransmissions(sent(0, 5000), sent(0, 4000, 2000, 1000, 0), sent(0, 4000, 1000, 0)) == 2


def test_a_client_with_messages_of_one_size_gets_the_median_latency_of_the_others() -> None:
    known = [sent(0, 5000), sent(0, 8000)]
    found = fit_links(3, [*known, sent(1, 5000, s_per_byte=3e-4), sent(2, 5000, s_per_byte=2e-6, latency=0.05)], BEFORE)
    assert found.latency_s == pytest.approx([0.2, 0.2, 0.06])
    assert found.bandwidth_bps == pytest.approx([8 / 1e-4, 8 / 3e-4, math.inf])
    assert found.separable == 1
    # The size is that of what arrived, without what had to be sent before.
    found = fit_links(2, [*known, sent(1, 9000, 0), sent(1, 4000, s_per_byte=3e-4)], BEFORE)
    assert found.bandwidth_bps[1] == pytest.approx(8 / 3e-4)


def test_a_direction_without_arrivals_keeps_the_scenarios_settings() -> None:
    found = fit_links(2, [sent(0, 5000, 0)], BEFORE)
    assert found.latency_s.tolist() == [0.0, 0.0]
    assert found.bandwidth_bps.tolist() == [math.inf, math.inf]
    assert (found.messages, found.separable, found.unseen) == (0, 0, (0, 1))
    assert (found.retransmissions, found.timeout_s) == (4, 0.7)
    assert found.packets == 5
    assert found.latency.distribution == found.jitter.distribution == Fixed(value=0.0)
    nothing = fit_links(1, [], BEFORE)
    assert (nothing.loss, nothing.packets) == (NoLoss(), 0)


def test_jitter_is_the_delay_beyond_the_clients_fastest_message() -> None:
    late = [0.1, 0.0, 0.3]
    messages = [sent(0, size, latency=0.2 + more) for size, more in zip((5000, 5000, 5000), late, strict=True)]
    found = fit_links(1, messages, BEFORE)
    # Of few values only the mean is kept: of .1 and .3 it is .2, and a third of it was in the quickest of three.
    assert found.jitter.distribution.expected() == pytest.approx(0.2)
    assert found.latency_s == pytest.approx([0.7 - 0.2 / 3])
    for more_s, there in ((0.9e-5, False), (1.1e-5, True)):
        jitter = fit_links(1, [sent(0, 5000), sent(0, 5000, latency=0.2 + more_s)], BEFORE).jitter
        assert (jitter.distribution.expected() > 0) is there


rates = st.floats(0.001, 1.0)


@given(packets=st.integers(1, 40), turns_bad=rates, turns_good=rates)
def test_the_law_of_losses_in_bursts_has_the_long_run_mean(packets: int, turns_bad: float, turns_good: float) -> None:
    law = lost_in_bursts(packets, turns_bad, turns_good)
    assert law.sum() == pytest.approx(1.0)
    mean = GilbertElliottLoss(good_to_bad=turns_bad, bad_to_good=turns_good).mean_loss()
    assert law @ np.arange(packets + 1) == pytest.approx(packets * mean)


def test_a_message_that_was_given_up_lost_at_least_one_packet_more() -> None:
    # one packet, never sent again: 3 of 10 did not arrive
    arrived = ObservedMessage(0, (1000,), (0.0,), 1.0)
    lost = ObservedMessage(0, (1000,), (0.0,), np.nan)
    loss, _ = fit_loss([arrived] * 7 + [lost] * 3, 1500)
    assert loss.mean_loss() == pytest.approx(0.3, rel=1e-4)


def test_the_last_transmission_of_a_lost_message_lost_at_least_one_packet() -> None:
    # Of 8 packets 2 were sent again, in vain: 8 + 2 went, 2 are known to be lost, and of the last 2 one at least.
    loss, packets = fit_loss([ObservedMessage(0, (8000, 2000), (0.0, 1.0), np.nan)], 1000)
    assert packets == 10
    p = np.linspace(0.2, 0.5, 30001)
    likelihood = p**2 * (1 - p) ** 6 * (1 - (1 - p) ** 2)
    assert loss.mean_loss() == pytest.approx(p[likelihood.argmax()], abs=2e-5)


def test_independent_losses_have_one_parameter_and_bursts_two() -> None:
    # Of 2 packets each nothing is lost of 20 messages, one of 20, both of 20: a channel that stays good with 2/3.
    whole = ObservedMessage(0, (2000,), (0.0,), 1.0)
    one, both = (ObservedMessage(0, (2000, size), (0.0, 1.0), 2.0) for size in (1000, 2000))
    loss, _ = fit_loss([*[whole] * 20, *[one] * 20, *[both] * 20], 1000)
    # The law of bursts gives 1/3 to each, independent losses (1/4, 1/2, 1/4): better by more than a parameter is worth.
    assert isinstance(loss, GilbertElliottLoss)
    assert (loss.good_to_bad, loss.bad_to_good) == pytest.approx((1 / 3, 1 / 3), abs=1e-3)
