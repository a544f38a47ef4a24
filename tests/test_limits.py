from __future__ import annotations

import math
from typing import Any

import pytest

from asyncfl import simulate
from asyncfl.api import timeline
from asyncfl.errors import ScenarioError
from asyncfl.limits import Limits, _duration, clock_seconds, memory_bytes
from asyncfl.scenario import Scenario

SAFL = {"protocol": {"kind": "buffered", "rounds": 3, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 4}}}
SAFL |= {"defence": {"detector": {"kind": "safl"}}}
COMING_AND_GOING = {"availability": {"kind": "alternating", "on_s": 20, "off_s": 5}}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"protocol.rounds": 10_000_000}, "protocol.rounds"),
        ({"training.epochs": 1_000_000, "protocol.rounds": 1000}, "protocol.rounds"),
        ({"world": {"aggregate_s": 1e9, **COMING_AND_GOING}, "protocol.rounds": 5}, "world"),
        ({**SAFL, "world.evaluation_cost": 1e30}, "world"),
        ({**SAFL, "world.score_s": 1e9}, "world"),
        (
            {
                "privacy": {"kind": "nbafl", "epsilon": 6.0, "exposures": {"kind": "measured", "replicates": 10_000}},
                "protocol.rounds": 1000,
            },
            "privacy.exposures",
        ),
        ({"model.hidden": [10**6, 10**6], "training.epochs": 1, "protocol.rounds": 1}, "model"),
        ({"defence": {"strikes": {"window": 1_000_000}}, "data.clients": 100_000, "data.samples_per_client": 1}, None),
    ],
)
def test_what_would_take_too_much_is_refused_before_anything_begins(
    scenario: Scenario, changes: dict[str, Any], field: str | None
) -> None:
    large = scenario.override(changes)
    with pytest.raises(ScenarioError) as caught:
        simulate(large)
    faults = {fault.field: fault.message for fault in caught.value.faults}
    assert (field or "data.clients") in faults
    assert all("would take about" in message and "raise the limit (--max-" in message for message in faults.values())


def test_the_clock_alone_is_not_asked_for_the_training(scenario: Scenario) -> None:
    large = scenario.override({"training.epochs": 1_000_000})
    short = Limits(hours=0.01)
    with pytest.raises(ScenarioError, match="hours of one core"):
        short.check(large)
    assert timeline(large, limits=short)[0].stopped == "all versions published"


def test_a_limit_can_be_raised_and_lowered(scenario: Scenario) -> None:
    large = scenario.override({"training.epochs": 1_000_000})
    Limits(hours=1e6).check(large)
    with pytest.raises(ScenarioError, match=r"at most 0 hours of one core, and would take about 0\.\d+ min"):
        simulate(scenario, limits=Limits(hours=0))
    with pytest.raises(ScenarioError, match="at most 0 GiB of memory"):
        simulate(scenario, limits=Limits(gib=0))


@pytest.mark.parametrize(
    ("tasks_s", "waiting_s", "cost_s", "timelines", "hours", "told"),
    [
        (1800.0, 900.0, 900.0, 0, 1.0, None),
        (1800.0, 900.0, 901.0, 0, 1.0, ("protocol.rounds", "60 minutes; lower it")),
        (0.0, 7205.0, 0.0, 0, 1.0, ("world", "2 hours; shorten the times in world, or set protocol.time_limit_s")),
        (10.0, 20.0, 0.0, 119, 1.0, None),
        (10.0, 20.0, 0.0, 1199, 1.5, ("privacy.exposures", "10 hours; lower it")),
    ],
)
def test_hours_are_reached_and_not_passed(
    scenario: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    tasks_s: float,
    waiting_s: float,
    cost_s: float,
    timelines: int,
    hours: float,
    told: tuple[str, str] | None,
) -> None:
    monkeypatch.setattr("asyncfl.limits.clock_seconds", lambda scenario: (tasks_s, waiting_s))
    monkeypatch.setattr("asyncfl.limits.timelines_before", lambda scenario: timelines)
    monkeypatch.setattr(Scenario, "estimated_cost", lambda self: cost_s)
    faults = list(Limits(hours, math.inf)._faults(scenario, True))
    assert [(fault.field, fault.message) for fault in faults] == (
        []
        if told is None
        else [
            (
                told[0],
                f"the run must take at most {hours:g} hours of one core, and would take about {told[1]}, or raise the "
                "limit (--max-hours, Limits(hours=...))",
            )
        ]
    )
    alone = list(Limits((tasks_s + waiting_s) / 3600, math.inf)._faults(scenario, False))
    assert alone == []


@pytest.mark.parametrize(
    ("needed", "of_model", "training", "told"),
    [
        (3 * 2**30, 2**30, True, None),
        (3 * 2**30 + 2**22, 1.5 * 2**30 + 2**21, True, ("data.clients", "3")),
        (4 * 2**30, 2 * 2**30 + 1, True, ("model", "4")),
        (4 * 2**30, 4 * 2**30, False, ("data.clients", "4")),
    ],
)
def test_memory_is_reached_and_not_passed(
    scenario: Scenario,
    monkeypatch: pytest.MonkeyPatch,
    needed: float,
    of_model: float,
    training: bool,
    told: tuple[str, str] | None,
) -> None:
    monkeypatch.setattr("asyncfl.limits.memory_bytes", lambda scenario, training: needed)
    monkeypatch.setattr("asyncfl.limits._model_bytes", lambda scenario: of_model)
    faults = list(Limits(math.inf, 3.0)._faults(scenario, training))
    assert [(fault.field, fault.message) for fault in faults] == (
        []
        if told is None
        else [
            (
                told[0],
                f"the run must take at most 3 GiB of memory, and would take about {told[1]}; make it smaller, or raise "
                "the limit (--max-gib, Limits(gib=...))",
            )
        ]
    )


def test_what_the_clock_takes_is_counted(scenario: Scenario) -> None:
    """Three versions of five tasks each take 15 times .3 ms; 40 s of waiting a task of .5 s on each of four places."""
    plain = scenario.override({"protocol.rounds": 3, "seeds": [0, 1]})
    clients = plain.data.clients
    assert clock_seconds(plain)[0] == pytest.approx(2 * 3 * plain.participants * 3e-4)
    device = {"kind": "fixed", "s_per_sample": 0.01}
    buffered = plain.override(
        {
            **SAFL,
            "protocol.rounds": 3,
            "world": {"device": device, "aggregate_s": 7.0, "score_s": 2.0, "evaluate_s": 1.0},
        }
    )
    task_s = 0.01 * (buffered.data.samples_per_client or 0) * buffered.training.epochs
    asked_s = buffered.world.evaluation_cost * task_s * buffered.participants
    busy_s = 7.0 + 2.0 + (0.0 if buffered.world.evaluate_beside else 1.0) + asked_s
    tasks, waiting = clock_seconds(buffered)
    assert tasks == pytest.approx(2 * 3 * 4 * 3e-4)
    assert waiting == pytest.approx(2 * 3e-4 * 4 * 3 * busy_s / task_s)
    beside = buffered.override({"world.evaluate_beside": not buffered.world.evaluate_beside})
    assert abs(clock_seconds(beside)[1] - waiting) == pytest.approx(2 * 3e-4 * 4 * 3 * 1.0 / task_s)
    limited = buffered.override({"protocol.time_limit_s": 2.0})
    assert clock_seconds(limited)[1] == pytest.approx(2 * 3e-4 * 4 * 2.0 / task_s)
    going = limited.override({"world.availability": {"kind": "alternating", "on_s": 3.0, "off_s": 1.0}})
    changes = going.world.availability.changes_per_s
    assert clock_seconds(going)[1] - clock_seconds(limited)[1] == pytest.approx(2 * 5e-6 * clients * 2.0 * changes)
    numbers = buffered.override({"world.aggregate_s_per_number": 1e-6})
    more_s = 1e-6 * numbers.n_parameters * numbers.participants
    assert clock_seconds(numbers)[1] - waiting == pytest.approx(2 * 3e-4 * 4 * 3 * more_s / task_s)


def test_memory_is_counted(scenario: Scenario) -> None:
    data, n, rounds = scenario.data, scenario.n_parameters, scenario.protocol.rounds
    people = 2000 * data.clients + 2000 * rounds * scenario.participants
    images = 9 * math.prod(data.shape) * data.clients * (data.samples_per_client or 0)
    rows = 2 * scenario.participants + max(scenario.participants, scenario.protocol.dispatch.level(data.clients)) + 10
    assert memory_bytes(scenario, training=False) == people
    assert memory_bytes(scenario) == people + images + 4 * n * rows
    strict = scenario.override({"defence": {"strikes": {"window": 7}}})
    assert memory_bytes(strict, training=False) == people + 3 * data.clients * 7
    kept = scenario.override({"evaluation.keep": {"every": 2}, "protocol.rounds": 5})
    usual = scenario.override({"protocol.rounds": 5})
    assert memory_bytes(kept) - memory_bytes(usual) == 4 * n * 2
    remembering = scenario.override({"compression": {"kind": "top_k", "share": 0.1}})
    assert memory_bytes(remembering) - memory_bytes(scenario) == 4 * n * data.clients


def test_usual_limits_are_two_hours_and_sixteen_gib() -> None:
    assert (Limits().hours, Limits().gib) == (2.0, 16.0)


def test_a_time_limit_bounds_what_is_waited_for(scenario: Scenario) -> None:
    waiting = {"world": {"aggregate_s": 1e9, **COMING_AND_GOING}}
    assert clock_seconds(scenario.override({**waiting, "protocol.time_limit_s": 1000}))[1] < 1


def test_what_is_asked_for_grows_with_model_and_federation(scenario: Scenario) -> None:
    # 5 clients, all in a cohort; two rows for each, a model in flight for each, ten for training.
    assert memory_bytes(scenario) > 4 * scenario.n_parameters * (3 * 5 + 10)
    assert memory_bytes(scenario.override({"data.clients": 50})) > 5 * memory_bytes(scenario)
    assert memory_bytes(scenario, training=False) < memory_bytes(scenario)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 2_000_000_000}, "seeds: must be a number of seeds, 1..100000"),
        ({"seeds": [2**63]}, "seeds.0: must be a whole number of at most 64 bits"),
        ({"seeds": 10**400}, "seeds: must be a number of seeds, 1..100000"),
        ({"model.hidden": [10**8]}, "model.hidden.0: must be less than or equal to 1000000, got 100000000"),
        ({"model.hidden": [8] * 200}, "model.hidden: "),
        (
            {"defence": {"strikes": {"window": 2**63 - 1}}},
            "defence.strikes.window: must be less than or equal",
        ),
        ({"protocol.rounds": True}, "protocol.rounds: must be a valid integer, got True"),
        ({"world.aggregate_s": float("nan")}, "world.aggregate_s: "),
    ],
)
def test_sizes_are_bounded_when_a_scenario_is_read(scenario: Scenario, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario.override(changes)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (90, "1.5 minutes"),
        (7200, "120 minutes"),
        (7201, "2 hours"),
        (100_000, "27.8 hours"),
        (172_800, "48 hours"),
        (259_200, "3 days"),
        (2 * 31_557_600, "730 days"),
        (3 * 31_557_600, "3 years"),
    ],
)
def test_a_duration_is_told_in_the_largest_unit_of_which_there_are_more_than_two(seconds: float, told: str) -> None:
    assert _duration(seconds) == told
