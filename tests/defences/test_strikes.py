"""Strikes and bans: sequences by hand, and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.defences.strikes import Strikes

sequences = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40)


def banned_at(strikes, sequence):
    """Number of the judged update (from 1) of one client that led to its ban, or None."""
    state = strikes.start(1)
    for number, strike in enumerate(sequence, start=1):
        banned, state = strikes.step(state, [0], [strike])
        if banned:
            return number
    return None


@pytest.mark.parametrize(
    ("sequence", "number"),
    [((1, 0, 0, 1), None), ((1, 0, 1), 3), ((1, 1), 2), ((0, 0, 1, 0, 1), 5), ((1, 0, 0, 1, 1), 5), ((0,) * 9, None)],
)
def test_ban_at_two_strikes_within_the_last_three_updates(sequence, number):
    assert banned_at(Strikes(threshold=2, window=3), sequence) == number


@pytest.mark.parametrize(("threshold", "number"), [(1, 1), (2, 4), (3, None)])
def test_strikes_never_expire_without_a_window(threshold, number):
    assert banned_at(Strikes(threshold=threshold), (1, 0, 0, 1)) == number


def test_several_updates_of_a_client_count_in_order():
    state = Strikes(threshold=2, window=3).start(3)
    banned, state = Strikes(threshold=2, window=3).step(state, [2, 0, 2, 1], [True, True, True, False])
    assert banned == (2,)
    assert state.banned.tolist() == [False, False, True]


@given(sequences)
def test_state_is_immutable_and_steps_can_be_joined(sequence):
    strikes = Strikes(threshold=2, window=3)
    start = strikes.start(4)
    clients, struck = [client for client, _ in sequence], [strike for _, strike in sequence]
    at_once, end = strikes.step(start, clients, struck)
    assert not start.total.any()
    assert not start.banned.any()
    state, one_by_one = start, ()
    for client, strike in sequence:
        banned, state = strikes.step(state, [client], [strike])
        one_by_one += banned
    assert at_once == one_by_one
    assert (end.banned == state.banned).all()
    assert (end.history == state.history).all()


@given(sequences)
def test_longer_window_bans_at_least_the_same_clients(sequence):
    clients, struck = [client for client, _ in sequence], [strike for _, strike in sequence]
    short, long = Strikes(threshold=2, window=3), Strikes(threshold=2)
    by_short, _ = short.step(short.start(4), clients, struck)
    by_long, _ = long.step(long.start(4), clients, struck)
    assert set(by_short) <= set(by_long)


def test_window_shorter_than_the_threshold_is_refused():
    with pytest.raises(ValidationError, match="window must be >= threshold"):
        Strikes(threshold=3, window=2)
