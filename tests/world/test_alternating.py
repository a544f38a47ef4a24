"""Clients that are online and offline in turns, against the laws of a stationary renewal process."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from asyncfl.base.streams import Streams
from asyncfl.world.availability import (
    AlternatingAvailability,
    AnyAvailability,
    ClientTraits,
)


def traits(clients: int) -> ClientTraits:
    return ClientTraits(np.ones(clients))


FIXED = AlternatingAvailability(on_s=3, off_s=1)


def changes(pattern, clients, streams, until_s) -> list[list[tuple[float, bool]]]:
    """All changes of every client, each (time, online from then on)."""
    presence = pattern.start(traits(clients), streams)
    lists = []
    for client in range(clients):
        time_s, seen = 0.0, []
        while (time_s := presence.next_change(client, time_s)) < until_s:
            seen.append((time_s, presence.online(client, time_s)))
        lists.append(seen)
    return lists


def test_fixed_periods_alternate_from_somewhere_within_the_first() -> None:
    for seen in changes(FIXED, 20, Streams(1), 40):
        times, states = np.array([t for t, _ in seen]), [s for _, s in seen]
        assert all(a != b for a, b in pairwise(states))
        lengths = np.diff(times)
        np.testing.assert_allclose(lengths, [3 if on else 1 for on in states[:-1]])
        assert times[0] <= (1 if states[0] else 3)


@pytest.mark.parametrize(
    "pattern",
    [
        FIXED,
        AlternatingAvailability(
            on_s={"kind": "exponential", "mean": 3}, off_s={"kind": "lognormal", "median": 1, "sigma": 1}
        ),
        AlternatingAvailability(
            on_s={"kind": "uniform", "low": 0, "high": 4}, off_s={"kind": "pareto", "minimum": 1, "alpha": 3}
        ),
    ],
)
def test_the_share_online_is_stationary_from_the_first_moment(pattern) -> None:
    presence = pattern.start(traits(3000), Streams(2))
    share = pattern.online_share
    for time_s in (0.0, 0.5, 1.7, 6.0, 20.0):
        online = presence.all_online(time_s).mean()
        assert abs(online - share) < 4 * math.sqrt(share * (1 - share) / 3000), time_s


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 60), max_size=30).map(sorted), st.integers(0, 1000))
def test_further_calls_change_no_answer(times, seed) -> None:
    pattern = AlternatingAvailability(on_s={"kind": "exponential", "mean": 2}, off_s={"kind": "exponential", "mean": 1})
    asked, left_alone = (pattern.start(traits(3), Streams(seed)) for _ in range(2))
    for time_s in times:
        state = asked.online(1, time_s)
        following = asked.next_change(1, time_s)
        assert following > time_s
        assert asked.online(1, math.nextafter(following, 0)) is state
    assert asked.next_change(1, 60.0) == left_alone.next_change(1, 60.0)
    assert asked.online(1, 60.0) == left_alone.all_online(60.0)[1]
    assert asked.next_change(2, 60.0) == left_alone.next_change(2, 60.0)


def test_time_moves_on_where_periods_are_too_short_to_measure() -> None:
    pattern = AlternatingAvailability(on_s=1e-300, off_s=1e6)
    presence = pattern.start(traits(1), Streams(0))
    time_s = 0.0
    for _ in range(10):
        following = presence.next_change(0, time_s)
        assert following > time_s
        time_s = following


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "alternating", "on_s": 0, "off_s": 1},
        {"kind": "alternating", "on_s": {"kind": "pareto", "minimum": 1, "alpha": 0.9}, "off_s": 1},
        {"kind": "sometimes"},
    ],
)
def test_illegal_patterns_are_refused(description) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(AnyAvailability).validate_python(description)
