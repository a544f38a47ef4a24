"""Links fitted to messages that are written by hand, and made by a link that is known."""

import math

import numpy as np
import pytest

from asyncfl.calibration.links import ObservedMessage, fit_links, messages_of
from asyncfl.trace.events import Kind
from asyncfl.world.distributions import Fixed
from asyncfl.world.links import Link
from asyncfl.world.loss import NoLoss
from tests.calibration.by_hand import observe_run

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


def test_messages_of_one_size_are_all_latency() -> None:
    found = fit_links(2, [sent(0, 5000), sent(0, 5000), sent(1, 5000, s_per_byte=2e-4)], BEFORE)
    assert found.latency_s == pytest.approx([0.7, 1.2])
    assert found.bandwidth_bps.tolist() == [math.inf, math.inf]
    assert (found.bandwidth, found.separable, found.timeout_s) == (None, 0, 0.7)


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
    assert found.loss.packets == 5
    assert found.latency.distribution == found.jitter.distribution == Fixed(value=0.0)
    nothing = fit_links(1, [], BEFORE)
    assert (nothing.loss.loss, nothing.loss.packets) == (NoLoss(), 0)


def test_jitter_is_the_delay_beyond_the_clients_fastest_message() -> None:
    late = [0.1, 0.0, 0.3]
    messages = [sent(0, size, latency=0.2 + more) for size, more in zip((5000, 5000, 5000), late, strict=True)]
    found = fit_links(1, messages, BEFORE)
    # Of few values only the mean is kept: of .1 and .3 it is .2, and a third of it was in the quickest of three.
    assert found.jitter.distribution.expected() == pytest.approx(0.2)
    assert found.latency_s == pytest.approx([0.7 - 0.2 / 3])
    assert found.jitter.exact == pytest.approx([0.1, 0.3])
    for more_s, there in ((0.9e-5, False), (1.1e-5, True)):
        jitter = fit_links(1, [sent(0, 5000), sent(0, 5000, latency=0.2 + more_s)], BEFORE).jitter
        assert (jitter.distribution.expected() > 0) is there
