"""Windows of a day: local time, time zones, nights that run into each other."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from asyncfl.base.streams import Streams
from asyncfl.world.availability import ClientTraits, DiurnalAvailability

HOUR_S = 3600.0


def presence(clients: int = 1, **fields: object):
    return DiurnalAvailability.model_validate(fields).start(ClientTraits(np.ones(clients)), Streams(1))


def changes(one, client: int, until_s: float) -> list[float]:
    times, time_s = [], 0.0
    while (time_s := one.next_change(client, time_s)) < until_s:
        times.append(time_s)
    return times


def test_a_window_is_open_at_the_same_local_time_each_day() -> None:
    one = presence(from_h=22.0, hours=8.0, starts_at_h=12.0)
    # It is noon: the window opens in 10 hours and shuts in 18, and again a day later.
    assert changes(one, 0, 48 * HOUR_S) == pytest.approx([10 * HOUR_S, 18 * HOUR_S, 34 * HOUR_S, 42 * HOUR_S])
    assert not one.online(0, 0.0)
    assert presence(from_h=22.0, hours=8.0, starts_at_h=3.0).online(0, 0.0), "the window of the night before"


def test_clients_further_east_come_online_sooner() -> None:
    shares = {}
    for zone in (-5.0, 0.0, 5.5):
        one = presence(from_h=23.0, hours=2.0, zones_h=[zone])
        shares[zone] = changes(one, 0, 24 * HOUR_S)[0] / HOUR_S
    assert shares == pytest.approx({-5.0: 4.0, 0.0: 1.0, 5.5: 17.5})


def test_windows_that_touch_are_one() -> None:
    one = presence(from_h=20.0, hours=24.0)
    assert one.online(0, 0.0)
    assert one.next_change(0, 0.0) == math.inf
    never = presence(hours={"kind": "pareto", "minimum": 1e-300, "alpha": 50})
    assert not never.online(0, 5e4)


@given(
    seed=st.integers(0, 50),
    spread_h=st.floats(0, 6),
    mean_h=st.floats(0.5, 12),
    zone=st.floats(-12, 14),
    asked_s=st.lists(st.floats(0, 5e5), min_size=1, max_size=8),
)
def test_answers_do_not_depend_on_the_order_of_calls(
    seed: int, spread_h: float, mean_h: float, zone: float, asked_s: list[float]
) -> None:
    pattern = DiurnalAvailability(
        from_h={"kind": "uniform", "low": 20.0, "high": 20.0 + spread_h},
        hours={"kind": "exponential", "mean": mean_h},
        zones_h=(zone,),
    )
    one, other = (pattern.start(ClientTraits(np.ones(2)), Streams(seed)) for _ in range(2))
    before = {time_s: (one.online(1, time_s), one.next_change(1, time_s)) for time_s in asked_s}
    for time_s in sorted(asked_s):
        online, until_s = other.online(1, time_s), other.next_change(1, time_s)
        assert before[time_s] == (online, until_s)
        assert time_s < until_s < math.inf
        assert other.online(1, until_s) != online
    times = changes(other, 1, 6e5)
    assert all(a < b for a, b in pairwise(times))


def test_a_window_begins_on_its_day_or_the_next_and_lasts_a_day_at_most() -> None:
    late = presence(from_h=60.0, hours=1.0)
    assert late.online(0, 0.0), "48 h after the midnight of the day before yesterday"
    assert changes(late, 0, 30 * HOUR_S) == pytest.approx([1 * HOUR_S, 24 * HOUR_S, 25 * HOUR_S])
    for hours_later in (0.0, 24.0):
        one = presence(from_h=6.0 + hours_later, hours=20.0)
        assert changes(one, 0, 30 * HOUR_S) == pytest.approx([2 * HOUR_S, 6 * HOUR_S, 26 * HOUR_S])
    # Of zone -12 the night of the day before the day before is still on at noon UTC.
    behind = presence(from_h=47.0, hours=24.0, zones_h=[-12])
    assert behind.online(0, 0.0)
    long = presence(from_h=20.0, hours=30.0)
    assert long.next_change(0, 0.0) == math.inf
    assert presence(from_h=20.0, hours=23.5).next_change(0, 0.0) == pytest.approx(19.5 * HOUR_S)


@pytest.mark.parametrize("shares", [(1,), (0, 0)])
def test_shares_are_one_for_each_zone_and_not_all_0(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError, match=rf"one number for each of zones_h \(2\), not all 0, got {len(shares)}"):
        DiurnalAvailability(hours=1, zones_h=(0, 1), shares=shares)
