"""The probability that the tap holds a message, by hand and by counting all outcomes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.world.tap import Tap, held_probability


def test_held_probability_worked_out_by_hand() -> None:
    # One packet sent once, one twice, one three times, each transmission missed with 1/2.
    assert held_probability((3, 2, 1), 0.5) == pytest.approx(1 / 2 * 3 / 4 * 7 / 8)
    assert held_probability((2,), 0.1) == pytest.approx(0.81)
    assert held_probability((2, 2), 0.1) == pytest.approx(0.99**2)


def test_a_perfect_tap_holds_everything_and_a_deaf_one_nothing() -> None:
    assert held_probability((10_000, 3), 0.0) == 1.0
    assert held_probability((1, 1, 1), 1.0) == 0.0


def test_held_probability_counts_all_ways_to_miss_transmissions() -> None:
    sent, missed = (3, 2, 2), 0.3
    times_sent = [sum(packet < n for n in sent) for packet in range(sent[0])]
    total = 0.0
    for outcome in itertools.product([True, False], repeat=sum(times_sent)):
        probability = np.prod([1 - missed if caught else missed for caught in outcome])
        of_packets = iter(outcome)
        caught = [sum(itertools.islice(of_packets, times)) for times in times_sent]
        total += probability * all(caught)
    assert held_probability(sent, missed) == pytest.approx(total)


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=6).map(lambda x: sorted(x, reverse=True)),
    st.floats(0, 1),
)
def test_retransmissions_help_the_tap_and_further_packets_do_not(sent, packet_loss) -> None:
    held = held_probability(sent, packet_loss)
    assert 0 <= held <= 1
    assert held_probability([*sent, sent[-1]], packet_loss) >= held
    assert held_probability([sent[0] + 1, *sent[1:]], packet_loss) <= held


def test_a_loss_without_a_tapped_link_is_refused() -> None:
    with pytest.raises(ValidationError, match="packet_loss has no effect"):
        Tap(packet_loss=0.1)
    with pytest.raises(ValidationError):
        Tap(uplink=True, packet_loss=1.1)
    assert Tap(scoring=True, packet_loss=0.1).packet_loss == 0.1
