from typing import Any

import pytest

from asyncfl import simulate
from asyncfl.api import timeline
from asyncfl.base.errors import ScenarioError
from asyncfl.scenario import Scenario
from asyncfl.simulation.limits import Limits, clock_seconds, memory_bytes

SAFL = {"protocol": {"kind": "buffered", "rounds": 3, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 4}}}
SAFL |= {"defence": {"detector": {"kind": "safl"}}}
COMING_AND_GOING = {"availability": {"kind": "alternating", "on_s": 20, "off_s": 5}}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"protocol.rounds": 10_000_000, "training.epochs": 1000}, "protocol.rounds"),
        ({"training.epochs": 1_000_000, "protocol.rounds": 10_000}, "protocol.rounds"),
        ({"world": {"aggregate_s": 1e9, **COMING_AND_GOING}, "protocol.rounds": 500}, "world"),
        ({**SAFL, "world.evaluation_cost": 1e30}, "world"),
        ({**SAFL, "world.score_s": 1e9}, "world"),
        (
            {
                "privacy": {"kind": "nbafl", "epsilon": 6.0, "exposures": {"kind": "measured", "replicates": 10_000}},
                "protocol.rounds": 50_000,
            },
            "privacy.exposures",
        ),
        ({"model.hidden": [10**6, 10**6], "training.epochs": 1, "protocol.rounds": 1}, "model"),
        ({"protocol.rounds": 1_000_000, "data.samples_per_client": 1, "training.epochs": 1}, "protocol.rounds"),
        ({"data.clients": 2_000_000, "data.samples_per_client": 1, "protocol.participants": 5}, "data.clients"),
        ({"defence": {"strikes": {"window": 1_000_000}}, "data.clients": 100_000, "data.samples_per_client": 1}, None),
    ],
)
def test_too_expensive_scenarios_are_refused_at_once(
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
    short = Limits(hours=0.001)
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


def test_a_hundred_thousand_clients_are_estimated_to_take_seconds_of_their_own(scenario: Scenario) -> None:
    large = scenario.override({"data.clients": 100_000, "data.samples_per_client": 1, "protocol.participants": 5})
    Limits(hours=2 / 3600).check(large)
    with pytest.raises(ScenarioError, match=r"^data\.clients: the run must take at most .* would take about 0\.1"):
        Limits(hours=0.5 / 3600).check(large)


def test_a_large_timeline_is_not_refused(scenario: Scenario) -> None:
    """A task in flight is not one per version: this took 25 CPU seconds."""
    dispatch = {"kind": "constant", "in_flight": 10_000}
    protocol = {"kind": "buffered", "rounds": 1500, "buffer": 100, "dispatch": dispatch}
    Limits(hours=60 / 3600).check(scenario.override({"data.clients": 200_000, "protocol": protocol}), training=False)


def test_clients_that_evaluate_together_are_in_the_estimate(scenario: Scenario) -> None:
    """A run of 2,000 clients and 20 versions took 5.5 CPU seconds, of which evaluations were nearly all."""
    many = {"data.clients": 2000, "protocol.rounds": 20, "evaluation.test_every": 1}
    alone, together = (
        sum(
            clock_seconds(scenario.override({**many, "world": {"processors": 4, "evaluate_s": 0.1, "evaluate_at": at}}))
        )
        for at in ("server", "clients")
    )
    assert together - alone == pytest.approx(2000 * 20 * 1.4e-4, rel=0.5)


def test_ledger_and_tables_are_in_the_estimate(scenario: Scenario) -> None:
    """A record of a task in the tables, as Python objects while they are made, takes some kilobytes."""
    long = scenario.override({"protocol.rounds": 100_000})
    tasks = 100_000 * 5
    assert memory_bytes(long) - memory_bytes(long, training=False) > 4000 * tasks
    kept_busy = {"kind": "buffered", "rounds": 1000, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 5}}
    slow = scenario.override({"protocol": kept_busy, "world.aggregate_s": 1000.0})
    assert memory_bytes(slow) > 10 * memory_bytes(slow.override({"world.aggregate_s": 0.0}))


def test_estimated_memory_grows_with_model_and_federation(scenario: Scenario) -> None:
    # 5 clients, all in a cohort; two rows for each, a model in flight for each, ten for training.
    assert memory_bytes(scenario) > 4 * scenario.n_parameters * (3 * 5 + 10)
    assert memory_bytes(scenario.override({"data.clients": 50})) > 5 * memory_bytes(scenario)
    assert memory_bytes(scenario, training=False) < memory_bytes(scenario)
