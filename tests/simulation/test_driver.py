"""Faults during a run: every task still has one fate, the run ends with its reason, or the exception is raised."""

import math
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import pytest

from asyncfl.defences import Safl, Strikes
from asyncfl.protocol import machine
from asyncfl.protocol.messages import Publish
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.simulation.driver import Driver

COHORTS = {"kind": "buffered", "rounds": 12, "buffer": 3, "dispatch": {"kind": "cohort", "participants": 10}}
CONSTANT = {"kind": "buffered", "rounds": 12, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 5}}
AWAY = {
    "device": {"kind": "lognormal", "median_s_per_sample": 0.005, "sigma": 0.5},
    "availability": {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 1.0}, "off_s": 1.0},
}


def events_of(driver: Driver) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = driver.clock.recorder.table().to_pylist()
    return rows


Federation: TypeAlias = Callable[..., Driver]


def check_whole(driver: Driver) -> None:
    """Check that the run has stopped, and that each dispatched task has one fate."""
    events = events_of(driver)
    assert [row["kind"] for row in events].index("stopped") == len(events) - 1
    dispatched = [row["task"] for row in events if row["kind"] == "dispatched"]
    assert len(set(dispatched)) == len(dispatched) == driver.tasks.fates.total()
    assert not driver.server.tasks.open


@pytest.mark.parametrize("aggregate_s", [0.0, 1.0])
def test_a_ban_of_a_client_that_was_drawn_but_cannot_be_reached_is_carried_out(
    federation: Federation, aggregate_s: float
) -> None:
    fates, unreached = Counter[str](), 0
    for seed in range(15):
        world = AWAY | {"aggregate_s": aggregate_s}
        driver = federation(COHORTS, world, seed=seed, broken=(1, 4, 7), strikes=Strikes(threshold=1))
        assert driver.run() == "all versions published"
        check_whole(driver)
        fates.update(driver.tasks.fates)
        unreached += driver.server.tasks.withdrawn
    assert fates["rejected"] > 0
    assert unreached


@pytest.mark.parametrize("protocol", [COHORTS, CONSTANT], ids=["cohorts", "constant"])
@pytest.mark.parametrize("until", [0, 1, 5])
def test_a_diverging_run_with_unreachable_clients_settles_every_task(
    federation: Federation, protocol: dict[str, Any], until: int
) -> None:
    unreached = 0
    for seed in range(10):
        driver = federation(protocol, AWAY | {"aggregate_s": 1.0}, seed=seed, until=until)
        assert driver.run() == "diverged: it was to"
        check_whole(driver)
        assert [version for version, _ in driver.instruments[0].published_at] == list(range(until + 1))  # type: ignore[attr-defined]
        unreached += driver.server.tasks.withdrawn
    assert unreached


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyboardInterrupt(), MemoryError()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("version", [0, 1, 6, 12])
def test_exceptions_of_instruments_are_raised(federation: Federation, version: int, error: BaseException) -> None:
    def fail(publish: Publish) -> None:
        if publish.version == version:
            raise error

    for world in ({}, {"aggregate_s": 1.0}):
        driver = federation(CONSTANT, world, at=fail)
        with pytest.raises(type(error)) as caught:
            driver.run()
        assert caught.value is error


PLACES = {
    "training": "asyncfl.learning.mlp:MlpLearner.train",
    "evaluation": "asyncfl.learning.mlp:MlpLearner.evaluate",
    "scoring": "asyncfl.simulation.clients:TrainingClients.score",
    "what a detector asks": "asyncfl.defences:Safl.request",
    "its verdict": "asyncfl.defences:Safl.judge",
    "rule": "asyncfl.defences.median:Median.solve",
    "attack": "asyncfl.threats:SignFlip.craft",
    "clients' noise": "asyncfl.client.upload_noise:add_noise",
    "server's noise": "asyncfl.simulation.release_store:add_noise",
    "staleness": "asyncfl.protocol.staleness:PolynomialStaleness.weight",
}


@pytest.mark.parametrize("error", [ZeroDivisionError("no"), KeyboardInterrupt()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_exceptions_of_components_are_raised(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException
) -> None:
    private = scenario.override(
        {
            "protocol": {**CONSTANT, "rounds": 4},
            "threats": {"attack": {"kind": "sign_flip"}, "attackers": 3},
            "privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0},
            "defence": {"rule": {"kind": "median"}, "detector": {"kind": "safl"}},
        }
    )
    module, _, name = place.partition(":")
    owner: Any = import_module(module)
    *path, name = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original, calls = getattr(owner, name), 0
    fails_at = 0

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise error
        return original(*args, **named)

    monkeypatch.setattr(owner, name, counted)
    simulate_seed(private, 0)
    last = calls
    assert last > 0
    for fails_at in (1, (last + 1) // 2, last):  # noqa: B007 - `counted` reads it
        calls = 0
        with pytest.raises(type(error)) as caught:
            simulate_seed(private, 0)
        assert caught.value is error


def test_a_time_limit_during_an_aggregation_leaves_no_update_in_a_version_that_never_came(
    federation: Federation,
) -> None:
    slow = {"device": {"kind": "fixed", "s_per_sample": 0.01}, "aggregate_s": 10.0}
    # Three of five arrive after a second; the first version is out after 11 s, the second would be after 21 s.
    driver = federation({**CONSTANT, "time_limit_s": 15.0}, slow)
    assert driver.run() == "time limit reached"
    check_whole(driver)
    assert driver.tasks.fates["aggregated"] == driver.tasks.used == 3
    kinds = [row["kind"] for row in events_of(driver)]
    assert kinds.count("published") == kinds.count("aggregation_started") == 2
    assert kinds.count("aggregated") == 3


@pytest.mark.parametrize("aggregate_s", [0.0, 1.0])
def test_the_version_of_an_event_is_the_one_that_was_out(federation: Federation, aggregate_s: float) -> None:
    world = AWAY | {"aggregate_s": aggregate_s}
    driver = federation(CONSTANT, world, detector=Safl(), strikes=Strikes(threshold=2), loud=(1, 2))
    driver.run()
    events, out = events_of(driver), 0
    for row in events:
        out += row["kind"] == "published"
        assert row["version"] == max(out - 1, 0)
        if row["kind"] in ("aggregated", "flagged"):
            assert row["staleness"] == row["version"] - row["base_version"]
    assert {"aggregated", "published", "flagged"} <= {row["kind"] for row in events}


def test_the_bytes_of_a_message_that_breaks_off_are_those_that_had_left(federation: Federation) -> None:
    # Models of four packets of 4 bytes, each of which takes half a second up.
    link = {"bandwidth_bps": 64.0, "mtu_bytes": 4}
    broken = 0
    for seed in range(5):
        driver = federation(CONSTANT | {"rounds": 3}, AWAY | {"uplink": link, "downlink": link}, seed=seed)
        driver.run()
        events, told = events_of(driver), driver.traffic
        table = Tasks.of(tasks_of_events(driver.clock.recorder.table()))
        assert (table.bytes_up.sum(), table.bytes_down.sum()) == (told.bytes_up, told.bytes_down)
        began: dict[int, float] = {}
        for row in events:
            if row["kind"] in ("upload_started", "download_started"):
                began[row["task"]] = row["time_s"]
            elif row["kind"] == "went_offline" and row["bytes"] >= 0:
                assert row["bytes"] == 4 * math.floor((row["time_s"] - began[row["task"]]) / 0.5 + 1e-9)
                broken += row["bytes"]
    assert broken > 0


HARDLY = {"kind": "alternating", "on_s": 1e-6, "off_s": 1e12}
LOSSY = {"kind": "independent", "probability": 1 - 1e-9}


@pytest.mark.parametrize("protocol", [{"kind": "sync", "rounds": 3}, CONSTANT], ids=["sync", "buffered"])
@pytest.mark.parametrize(
    ("changes", "fate"),
    [
        ({"world.availability": HARDLY}, "timed_out"),
        ({"world.dropout": 1 - 1e-9}, "dropped_out"),
        ({"world.uplink.loss": LOSSY}, "lost_up"),
        ({"world.downlink.loss": LOSSY}, "lost_down"),
        ({"world.availability": HARDLY, "world.failure_detection": {"kind": "instant"}}, "dropped_out"),
    ],
    ids=["offline", "dropout", "uplink", "downlink", "instant"],
)
def test_a_run_to_which_nothing_comes_back_ends_with_its_reason(
    scenario: Scenario, protocol: dict[str, Any], changes: dict[str, Any], fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LEAST_TASKS", 30)
    monkeypatch.setattr(machine, "TASKS_PER_CLIENT", 7)
    run = simulate_clock(scenario.override({"protocol": protocol, **changes}), 0)
    assert run.stopped == f"no update reached the server in the last 35 tasks (35 {fate})"
    assert [row["version"] for row in run.rounds] == [0]
    assert run.events["kind"].to_pylist()[-1] == "stopped"
    assert run.fates[fate] == 35
    assert sum(run.fates.values()) == run.fates[fate] + run.fates["unfinished"]


def test_a_run_without_progress_ends_at_its_time_limit(scenario: Scenario) -> None:
    hardly = {"kind": "alternating", "on_s": 1e-6, "off_s": 100.0}
    never = scenario.override({"world.availability": hardly, "protocol.time_limit_s": 1000.0})
    run = simulate_clock(never, 0)
    assert run.stopped == "time limit reached"
    assert run.rounds[-1]["version"] == 0
    assert sum(run.fates.values()) == run.fates["timed_out"] + run.fates["unfinished"]
