"""The versions that updates of one client enter (`protocol.min_separation`, `protocol.max_participations`)."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import ScenarioError
from asyncfl.protocol import Buffered
from asyncfl.protocol.dispatch import ContinuousDispatch
from asyncfl.protocol.messages import ClientGone, ClientIdle, Fate
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.testing import Fires, Lost, Play
from tests.protocol.test_machine import server


def limited(buffer: int = 1, **fields: Any) -> Buffered:
    return Buffered(rounds=50, buffer=buffer, dispatch=ContinuousDispatch(), **fields)


def test_a_client_rests_until_the_next_version_is_far_enough_from_its_last() -> None:
    """b = 3, and client 0 is in version 1: an update that it begins at version 3 enters version 4 at the earliest."""
    play = Play(server(limited(min_separation=3))).start()
    busy = []
    for client in (0, 1, 2, 3, 0):
        play.step(client)
        busy.append(0 in play.busy)
    assert busy == [False, False, True, True, False]


def test_a_client_rests_while_the_fate_of_its_update_is_open() -> None:
    """Client 0's update waits for a buffer of two: which version it enters is not known yet."""
    play = Play(server(limited(2, min_separation=1))).start()
    play.step(0)
    assert 0 not in play.busy
    play.tell(ClientIdle(0, time_s=play.time_s))
    assert 0 not in play.busy
    play.step(1)
    assert {0, 1} <= set(play.busy)


def test_a_client_rests_while_its_version_is_being_made() -> None:
    play = Play(server(limited(min_separation=1), aggregate_s=5.0)).start()
    play.step(0)
    assert 0 not in play.busy
    play.step(Fires("aggregated"))
    assert 0 in play.busy


def test_clients_that_only_later_versions_could_release_are_counted() -> None:
    """Clients 1, 2 and 3 are away, and client 0 may not be in the next version."""
    play = Play(server(limited(min_separation=2))).start()
    for client in (1, 2, 3):
        play.tell(ClientGone(client, play._task_of(client), Fate.DROPPED_OUT, time_s=play.time_s))
    play.step(0)
    assert (play.busy, play.server.resting, play.stopped) == ([], 1, None)
    play.tell(ClientIdle(2, time_s=play.time_s))
    play.step(2)
    assert (play.busy, play.server.resting) == ([0], 1)


def test_an_update_that_was_lost_entered_no_version() -> None:
    play = Play(server(limited(min_separation=3))).start()
    play.step(Lost(0)).step(1)
    assert 0 in play.busy
    assert 1 not in play.busy


def test_a_client_that_took_part_k_times_is_never_asked_again() -> None:
    play = Play(server(limited(max_participations=2))).start()
    for client in (0, 1, 0):
        play.step(client)
    assert 0 not in play.busy
    for client in (1, 2, 2, 3, 3):
        play.step(client)
    assert len(play.published) == 1 + 2 * 4
    assert play.stopped == "every client has taken part as often as it may"


@pytest.mark.parametrize(
    ("protocol", "most"),
    [
        ({"kind": "sync", "rounds": 5}, 1),
        ({"kind": "sync", "rounds": 5, "participants": 3}, 3),
        ({"kind": "fedbuff", "rounds": 5, "buffer": 4, "dispatch": {"kind": "continuous"}}, 2),
        ({"kind": "fedasync", "rounds": 5, "in_flight": 2}, 10),
    ],
)
def test_a_separation_that_leaves_versions_without_clients_is_refused(
    scenario: Scenario, protocol: dict[str, Any], most: int
) -> None:
    scenario.override({"data.clients": 10, "protocol": {**protocol, "min_separation": most}})
    with pytest.raises(
        ScenarioError, match=rf"protocol.min_separation: must be 1..{most}, got {most + 1}: each version"
    ):
        scenario.override({"data.clients": 10, "protocol": {**protocol, "min_separation": most + 1}})


PROTOCOLS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"kind": "sync", "participants": 3},
        {"kind": "sync", "participants": 3, "over_selection": 1.7, "late": "carry"},
        {"kind": "sync", "participants": 3, "open": {"kind": "quorum", "share": 0.5}, "late": "carry"},
        {"kind": "sync", "participants": 3, "open": {"kind": "deadline", "seconds": 0.3, "at_least": 1}},
        {"kind": "fedbuff", "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 6}},
        {"kind": "fedbuff", "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 6}, "max_staleness": 1},
        {"kind": "fedbuff", "buffer": 3, "dispatch": {"kind": "continuous"}, "per_client": 1},
        {"kind": "buffered", "buffer": 2, "dispatch": {"kind": "cohort", "participants": 4}, "late": "drop"},
        {"kind": "fedasync", "in_flight": 5},
    ]
)
WORLDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "world.availability": st.just({"kind": "alternating", "on_s": 1.0, "off_s": 0.5}),
        "world.uplink.loss": st.just({"kind": "independent", "probability": 0.1}),
        "world.aggregate_s": st.just(0.2),
        "threats": st.just({"attackers": 2, "attack": {"kind": "flooding", "times": 20.0}}),
        "world.failure_detection": st.sampled_from([{"kind": "instant"}, {"kind": "lease", "seconds": 0.4}]),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROTOCOLS, WORLDS, st.sampled_from([None, 1, 2, 4]), st.sampled_from([None, 1, 3]), st.integers(0, 5))
def test_no_client_takes_part_more_often_or_sooner_than_it_may(
    scenario: Scenario, protocol: dict[str, Any], world: dict[str, Any], b: int | None, k: int | None, seed: int
) -> None:
    limits = {"min_separation": b, "max_participations": k}
    device = {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 1.5}
    whole = {**protocol, "rounds": 25, "time_limit_s": 30.0, **limits}
    run = simulate_clock(
        scenario.override({"data.clients": 12, "world.device": device, "protocol": whole, **world}), seed
    )
    entered: dict[int, set[int]] = defaultdict(set)
    updates = 0
    for event in run.events.to_pylist():
        if event["kind"] == "aggregated":
            entered[event["client"]].add(event["version"] + 1)
            updates += 1
    assert updates
    for versions in entered.values():
        if b is not None:
            assert all(after - before >= b for before, after in pairwise(sorted(versions)))
        if k is not None:
            assert len(versions) <= k
    if b is not None or k is not None:
        assert updates == sum(map(len, entered.values())), "one update in a version"


def test_limits_that_bind_nobody_change_nothing(scenario: Scenario) -> None:
    """In whole cohorts of clients that are asked once at a time, a separation of 1 is what happens anyway."""
    protocol = {"kind": "sync", "rounds": 4, "participants": 5}
    changes = {"data.clients": 10, "protocol": protocol}
    free = simulate_seed(scenario.override(changes), 0)
    bound = simulate_seed(scenario.override(changes | {"protocol.min_separation": 1}), 0)
    assert free.events.to_pandas().equals(bound.events.to_pandas())
    assert [one["test_accuracy"] for one in free.rounds] == [one["test_accuracy"] for one in bound.rounds]
