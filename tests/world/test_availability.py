"""Availability: alternating periods, windows of a day, measured intervals, and the variation between clients."""

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import spearmanr

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.world import World
from asyncfl.world.availability import (
    AlternatingAvailability,
    ClientTraits,
    CsvAvailability,
    DiurnalAvailability,
    Variation,
)


def traits(clients: int) -> ClientTraits:
    return ClientTraits(np.ones(clients))


FIXED = AlternatingAvailability(on_s=3, off_s=1)


def changes_of(one, client: int, until_s: float) -> Iterator[float]:
    time_s = 0.0
    while (time_s := one.next_change(client, time_s)) < until_s:
        yield time_s


def test_fixed_periods_alternate_from_somewhere_within_the_first() -> None:
    presence = FIXED.start(traits(20), Streams(1))
    for client in range(20):
        # A pattern is asked in the order of time.
        times, states = np.array([(at, presence.online(client, at)) for at in changes_of(presence, client, 40)]).T
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
    share = pattern.on_s.expected() / (pattern.on_s.expected() + pattern.off_s.expected())
    for time_s in (0.0, 0.5, 1.7, 6.0, 20.0):
        online = presence.all_online(time_s).mean()
        assert abs(online - share) < 4 * math.sqrt(share * (1 - share) / 3000), time_s


@settings(max_examples=40)
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


HOUR_S = 3600.0


def diurnal(clients: int = 1, **fields: object):
    return DiurnalAvailability.model_validate(fields).start(traits(clients), Streams(1))


def test_a_window_is_open_at_the_same_local_time_each_day() -> None:
    one = diurnal(from_h=22.0, hours=8.0, starts_at_h=12.0)
    # It is noon: the window opens in 10 hours and shuts in 18, and again a day later.
    assert list(changes_of(one, 0, 48 * HOUR_S)) == pytest.approx([10 * HOUR_S, 18 * HOUR_S, 34 * HOUR_S, 42 * HOUR_S])
    assert not one.online(0, 0.0)
    assert diurnal(from_h=22.0, hours=8.0, starts_at_h=3.0).online(0, 0.0), "the window of the night before"


def test_clients_further_east_come_online_sooner() -> None:
    shares = {}
    for zone in (-5.0, 0.0, 5.5):
        one = diurnal(from_h=23.0, hours=2.0, zones_h=[zone])
        shares[zone] = next(changes_of(one, 0, 24 * HOUR_S)) / HOUR_S
    assert shares == pytest.approx({-5.0: 4.0, 0.0: 1.0, 5.5: 17.5})


def test_windows_that_touch_are_one() -> None:
    one = diurnal(from_h=20.0, hours=24.0)
    assert one.online(0, 0.0)
    assert one.next_change(0, 0.0) == math.inf
    never = diurnal(hours={"kind": "pareto", "minimum": 1e-300, "alpha": 50})
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
    one, other = (pattern.start(traits(2), Streams(seed)) for _ in range(2))
    before = {time_s: (one.online(1, time_s), one.next_change(1, time_s)) for time_s in asked_s}
    for time_s in sorted(asked_s):
        online, until_s = other.online(1, time_s), other.next_change(1, time_s)
        assert before[time_s] == (online, until_s)
        assert time_s < until_s < math.inf
        assert other.online(1, until_s) != online
    times = changes_of(other, 1, 6e5)
    assert all(a < b for a, b in pairwise(times))


def test_a_window_begins_on_its_day_or_the_next_and_lasts_a_day_at_most() -> None:
    late = diurnal(from_h=60.0, hours=1.0)
    assert late.online(0, 0.0), "48 h after the midnight of the day before yesterday"
    assert list(changes_of(late, 0, 30 * HOUR_S)) == pytest.approx([1 * HOUR_S, 24 * HOUR_S, 25 * HOUR_S])
    for hours_later in (0.0, 24.0):
        one = diurnal(from_h=6.0 + hours_later, hours=20.0)
        assert list(changes_of(one, 0, 30 * HOUR_S)) == pytest.approx([2 * HOUR_S, 6 * HOUR_S, 26 * HOUR_S])
    # Of zone -12 the night of the day before the day before is still on at noon UTC.
    behind = diurnal(from_h=47.0, hours=24.0, zones_h=[-12])
    assert behind.online(0, 0.0)
    long = diurnal(from_h=20.0, hours=30.0)
    assert long.next_change(0, 0.0) == math.inf
    assert diurnal(from_h=20.0, hours=23.5).next_change(0, 0.0) == pytest.approx(19.5 * HOUR_S)


@pytest.mark.parametrize("shares", [(1,), (0, 0)])
def test_shares_are_one_for_each_zone_and_not_all_0(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError, match=rf"one number for each of zones_h \(2\), not all 0, got {len(shares)}"):
        DiurnalAvailability(hours=1, zones_h=(0, 1), shares=shares)


LINES = "device,from_s,until_s,note\n7,10,20,a\n3,0,5,b\n7,20,25,c\n7,40,60,d\n3,90,100,e\n"


def of_file(tmp_path: Path, text: str = LINES, **fields: object) -> CsvAvailability:
    path = tmp_path / "measured.csv"
    path.write_text(text)
    return CsvAvailability.model_validate({"path": str(path), "rows": "in_order"} | fields)


def test_intervals_of_devices_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    presence = of_file(tmp_path).start(traits(3), Streams(0))
    assert [presence.online(0, t) for t in (0.0, 4.9, 5.0, 90.0, 100.0)] == [True, True, False, True, False]
    assert [presence.next_change(1, t) for t in (0.0, 10.0, 19.0, 25.0, 50.0)] == [10.0, 25.0, 25.0, 40.0, 60.0]
    assert presence.next_change(1, 60.0) == math.inf, "who has had its last interval never comes again"
    assert presence.all_online(0.0).tolist() == [True, False, True], "client 2 has the first device again"


def test_an_interval_goes_on_across_the_end_of_a_repetition(tmp_path: Path) -> None:
    presence = of_file(tmp_path, repeats_after_s=100.0).start(traits(2), Streams(0))
    assert presence.next_change(0, 0.0) == 5.0
    assert presence.next_change(0, 95.0) == presence.next_change(0, 102.0) == 105.0
    assert presence.next_change(1, 60.0) == 110.0
    assert presence.online(1, 1050.0)
    assert presence.next_change(1, 1050.0) == 1060.0
    always = of_file(tmp_path, "device,from_s,until_s\n1,0,50\n1,50,100\n", repeats_after_s=100.0)
    assert always.start(traits(1), Streams(0)).next_change(0, 1234.0) == math.inf


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("device,from_s\n1,2\n", {}, "until_s"),
        ("device,from_s,until_s\n1,5,5\n", {}, "device 1: until_s must be > from_s, got 5 to 5"),
        ("device,from_s,until_s\n1,0,5\n1,4,9\n", {}, "one interval begins at 4 s and another ends at 5 s"),
        ("device,from_s,until_s\n1,0,50\n", {"repeats_after_s": 20.0}, "must end by repeats_after_s"),
        ("device,from_s,until_s\n1,-1,50\n", {}, "line 2, column from_s"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, text: str, fields: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        of_file(tmp_path, text, **fields).start(traits(1), Streams(0))


SPEEDS = np.random.default_rng(0).lognormal(0, 1, 4000)
SIZES = np.random.default_rng(1).integers(10, 1000, 4000)


@pytest.mark.parametrize("rho", [-0.8, 0.0, 0.6, 1.0])
def test_the_rank_correlation_is_that_of_a_gaussian_copula(rho: float) -> None:
    """Spearman's correlation of a Gaussian copula is 6/pi asin(rho/2)."""
    for along, of in (("speed", -SPEEDS), ("samples", SIZES)):
        varies = Variation(sigma=0.7, along=along, correlation=rho)
        factors = varies.factors(ClientTraits(SPEEDS, SIZES), Streams(3))
        assert spearmanr(factors, of).statistic == pytest.approx(6 / np.pi * np.arcsin(rho / 2), abs=0.04)
        assert np.median(factors) == pytest.approx(1, abs=0.05)
        assert np.log(factors).std() == pytest.approx(0.7, abs=0.03)


def test_faster_clients_are_online_for_longer_from_the_first_moment() -> None:
    varies = {"sigma": 1.0, "correlation": 1.0}
    pattern = AlternatingAvailability(on_s={"kind": "exponential", "mean": 10}, off_s=10, varies=varies)
    presence = pattern.start(ClientTraits(SPEEDS), Streams(0))
    factor = Variation.model_validate(varies).factors(ClientTraits(SPEEDS), Streams(0))
    fast = np.median(SPEEDS) > SPEEDS
    for time_s in (0.0, 35.0):
        online = presence.all_online(time_s)
        expected = factor / (factor + 1)
        assert online[fast].mean() == pytest.approx(expected[fast].mean(), abs=0.04)
        assert online[~fast].mean() == pytest.approx(expected[~fast].mean(), abs=0.04)


def test_a_world_passes_on_the_sizes_of_the_clients_data() -> None:
    pattern = {"kind": "alternating", "on_s": 1.0, "off_s": 1.0, "varies": {"sigma": 1.0, "along": "samples"}}
    world = World.model_validate({"availability": pattern})
    assert world.start(3, Streams(0), np.array([1, 2, 3])).clients == 3
    with pytest.raises(ValueError, match="samples"):
        world.start(3, Streams(0))
