"""Links fitted to messages that are written by hand, and made by a link that is known."""

import math

import pytest

from asyncfl.extras.calibration.links import fit_links, transmissions_of
from asyncfl.protocol.events import Kind
from asyncfl.world.distributions import Fixed
from tests.extras.calibration.conftest import observe_run

Row = tuple[int, float, float, bool]


def sent(client: int, *sizes: int, s_per_byte: float = 1e-4, latency: float = 0.2) -> list[Row]:
    """The transmissions of a message over a link of these."""
    *before, last = sizes
    return [
        *((client, size, size * s_per_byte, False) for size in before),
        (client, last, last * s_per_byte + latency, True),
    ]


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
    down = transmissions_of(run, "down", 0.75)
    assert down == [(0, 5000, 0.25, False), (0, 1000, 1.0, True)], "what was lost is left out"
    assert transmissions_of(run, "up", 0.75) == [(0, 300, 1.0, True)]


def test_a_link_is_found_from_messages_of_two_sizes_or_sent_again() -> None:
    resent = sent(1, 5000, 2000, 1000, s_per_byte=2e-4, latency=0.3)
    found = fit_links(3, [*sent(0, 5000), *sent(0, 8000), *resent])
    assert found.latency_s == pytest.approx([0.2, 0.3, 0.25])
    assert found.bandwidth_bps == pytest.approx([8 / 1e-4, 8 / 2e-4, 8 / 1.5e-4])
    assert (found.messages, found.separable, found.unseen) == (3, 2, (2,))
    assert found.latency.distribution.expected() == pytest.approx(0.25)
    assert found.bandwidth is not None
    # The mean of the clients that were seen, not of whom the median was given.
    assert found.bandwidth.distribution.expected() == pytest.approx((8 / 1e-4 + 8 / 2e-4) / 2)
    assert found.jitter.distribution == Fixed(value=0.0)


def test_a_client_with_messages_of_one_size_gets_the_median_latency_of_the_others() -> None:
    known = [*sent(0, 5000), *sent(0, 8000)]
    found = fit_links(3, [*known, *sent(1, 5000, s_per_byte=3e-4), *sent(2, 5000, s_per_byte=2e-6, latency=0.05)])
    assert found.latency_s == pytest.approx([0.2, 0.2, 0.06])
    assert found.bandwidth_bps == pytest.approx([8 / 1e-4, 8 / 3e-4, math.inf])
    assert found.separable == 1


def test_a_direction_without_arrivals_is_instant() -> None:
    found = fit_links(2, [])
    assert found.latency_s.tolist() == [0.0, 0.0]
    assert found.bandwidth_bps.tolist() == [math.inf, math.inf]
    assert (found.messages, found.separable, found.unseen) == (0, 0, (0, 1))
    assert found.latency.distribution == found.jitter.distribution == Fixed(value=0.0)


def test_jitter_is_the_delay_beyond_the_clients_fastest_message() -> None:
    late = [0.1, 0.0, 0.3]
    found = fit_links(1, [row for more in late for row in sent(0, 5000, latency=0.2 + more)])
    # Of few values only the mean is kept: of .1 and .3 it is .2, and a third of it was in the quickest of three.
    assert found.jitter.distribution.expected() == pytest.approx(0.2)
    assert found.latency_s == pytest.approx([0.7 - 0.2 / 3])
    for more_s, there in ((0.9e-5, False), (1.1e-5, True)):
        jitter = fit_links(1, [*sent(0, 5000), *sent(0, 5000, latency=0.2 + more_s)]).jitter
        assert (jitter.distribution.expected() > 0) is there
