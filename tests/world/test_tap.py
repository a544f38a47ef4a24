"""The probability that the tap holds a message, whole or in part, by hand and by counting all outcomes."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.world.tap import Tap

PLACES = ("sender", "link", "receiver")


def tap(packet_loss: float, at: Any = "sender") -> Tap:
    return Tap(uplink=True, packet_loss=packet_loss, at=at)


def test_held_probability_worked_out_by_hand() -> None:
    # One packet sent once, one twice, one three times, each transmission missed with 1/2.
    assert tap(0.5).held_probability((3, 2, 1), 0) == pytest.approx(1 / 2 * 3 / 4 * 7 / 8)
    assert tap(0.1).held_probability((2,), 0) == pytest.approx(0.81)
    assert tap(0.1).held_probability((2, 2), 0) == pytest.approx(0.99**2)


def test_losses_before_the_tap_are_not_heard() -> None:
    # Two packets, one lost and sent again. At the receiver each packet passes the tap once; half way the lost one
    # passed it with 1/2.
    assert [tap(0.0, at).held_probability((2, 1), 0) for at in PLACES] == [1.0, 1.0, 1.0]
    assert [tap(0.1, at).held_probability((2, 1), 0) for at in PLACES] == pytest.approx(
        [0.9 * 0.99, 0.9 * (1 - 0.1 * 0.55), 0.9 * 0.9]
    )
    # Not sent again: the receiver has not got it, so a tap there has not either.
    assert [tap(0.0, at).held_probability((2,), 1) for at in PLACES] == [1.0, 0.5, 0.0]
    assert [tap(0.1, at).held_probability((2,), 1) for at in PLACES] == pytest.approx([0.81, 0.9 * 0.45, 0.0])


def test_any_packet_is_a_part() -> None:
    assert tap(0.1).caught_probability((68,), 0) == pytest.approx(1 - 0.1**68)
    assert tap(0.1).held_probability((68,), 0) == pytest.approx(0.9**68)
    # Three packets, two lost: the tap hears one of three transmissions, or none.
    assert [tap(0.4, at).caught_probability((3,), 2) for at in PLACES] == pytest.approx(
        [1 - 0.4**3, 1 - 0.4 * 0.7**2, 1 - 0.4]
    )
    assert [tap(0.0, at).caught_probability((2,), 2) for at in PLACES] == [1.0, 0.75, 0.0]


@pytest.mark.parametrize("at", PLACES)
@pytest.mark.parametrize("pending", [0, 1])
def test_probabilities_count_all_ways_to_miss_transmissions(at, pending) -> None:
    sent, missed, passed = (3, 2, 2), 0.3, {"sender": 0.0, "link": 0.5, "receiver": 1.0}[at]
    times_sent = [sum(packet < n for n in sent) for packet in range(sent[0])]
    whole = part = 0.0
    for outcome in itertools.product([True, False], repeat=sum(times_sent)):
        probability, caught, of_packets = 1.0, [], iter(outcome)
        for packet, times in enumerate(times_sent):
            # All transmissions of a packet but the last were lost; the last of the packets that are pending was too.
            arrived = packet >= pending
            hears = [(1 - missed) * (1 if arrived and number == times - 1 else 1 - passed) for number in range(times)]
            own = list(itertools.islice(of_packets, times))
            probability *= np.prod([p if heard else 1 - p for p, heard in zip(hears, own, strict=True)])
            caught.append(any(own))
        whole += probability * all(caught)
        part += probability * any(caught)
    assert tap(missed, at).held_probability(sent, pending) == pytest.approx(whole)
    assert tap(missed, at).caught_probability(sent, pending) == pytest.approx(part)


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=6).map(lambda x: sorted(x, reverse=True)),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_retransmissions_help_the_tap_and_further_packets_and_distance_do_not(sent, share, packet_loss) -> None:
    pending = int(share * sent[-1])
    by_place = [tap(packet_loss, at).held_probability(sent, pending) for at in PLACES]
    assert by_place == sorted(by_place, reverse=True)
    for at, held in zip(PLACES, by_place, strict=True):
        heard = tap(packet_loss, at)
        assert 0 <= held <= heard.caught_probability(sent, pending) + 1e-12 <= 1 + 1e-12
        assert heard.held_probability([*sent, pending] if pending else sent, pending) >= held - 1e-12
        assert heard.held_probability([sent[0] + 1, *sent[1:]], pending) <= held


def test_a_loss_without_a_tapped_link_is_refused() -> None:
    with pytest.raises(ValidationError, match="packet_loss has no effect"):
        Tap(packet_loss=0.1)
    with pytest.raises(ValidationError):
        Tap(uplink=True, packet_loss=1.1)
    assert Tap(scoring=True, packet_loss=0.1).packet_loss == 0.1
