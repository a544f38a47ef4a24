"""Tasks whose phases are planned at their begin leave the same tables as tasks that go from phase to phase."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from asyncfl.results.run_tables import clients_table, rounds_table
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.simulation.planned_tasks import PlannedTasks

LOSSES = ({"kind": "none"}, {"kind": "independent", "probability": 0.03})
PROTOCOLS = (
    {"kind": "buffered", "rounds": 12, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 6}},
    {
        "kind": "buffered",
        "rounds": 8,
        "buffer": 3,
        "max_staleness": 1,
        "dispatch": {"kind": "constant", "in_flight": 9},
    },
    {"kind": "fedasync", "rounds": 25, "in_flight": 5},
    {"kind": "sync", "rounds": 5},
    {"kind": "sync", "rounds": 5, "open": {"kind": "deadline", "seconds": 0.5}},
    {
        "kind": "buffered",
        "rounds": 40,
        "buffer": 2,
        "time_limit_s": 7.0,
        "dispatch": {"kind": "constant", "in_flight": 3},
    },
)


def drawn_scenario(seed: int) -> Scenario:
    """A small federation; half of them have equal devices and links without delay, so that many times are equal."""
    random = Random(seed)
    equal = random.random() < 0.5
    link = {
        "latency_s": 0.0 if equal else {"kind": "uniform", "low": 0.0, "high": 0.3},
        "loss": random.choice(LOSSES),
        "retransmissions": random.choice([0, 1, 3]),
        "retransmission_timeout_s": random.choice([0.0, 0.5]),
    }
    if random.random() < 0.7:
        link["bandwidth_bps"] = 1e6
    world: dict[str, Any] = {
        "device": {"kind": "fixed", "s_per_sample": 0.01}
        if equal
        else {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 1.0},
        "uplink": link,
        "downlink": link | {"loss": random.choice(LOSSES)},
        "dropout": random.choice([0.0, 0.2]),
        "dropout_per_s": random.choice([0.0, 0.1]),
        "aggregate_s": random.choice([0.0, 0.2]),
    }
    if random.random() < 0.7:
        world["tap"] = {
            "uplink": True,
            "downlink": random.random() < 0.5,
            "at": random.choice(["sender", "link", "receiver"]),
            "packet_loss": random.choice([0.0, 0.1]),
        }
    if random.random() < 0.4:
        world["availability"] = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 3.0}, "off_s": 1.0}
    training = {"deadline_s": 0.15, "epochs": 3} if random.random() < 0.3 else {}
    return Scenario.read(
        {
            "data": {"dataset": "mnist", "clients": 9, "samples_per_client": 10, "source": "embedded"},
            "model": {"kind": "mlp", "hidden": [4]},
            "protocol": random.choice(PROTOCOLS),
            "training": training,
            "world": world,
        }
    )


def test_tables_of_tasks_in_columns_are_those_of_tasks_planned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = drawn_scenario(0).override(
        {
            "protocol": {
                "kind": "buffered",
                "rounds": 30,
                "buffer": 9,
                "dispatch": {"kind": "constant", "in_flight": 40},
            },
            "data.clients": 400,
            "world.tap": {"uplink": True, "downlink": True, "at": "link", "packet_loss": 0.1},
            "world.dropout_per_s": 0.0,
            "world.uplink.loss": {"kind": "independent", "probability": 0.3},
        }
    )
    monkeypatch.setattr("asyncfl.simulation.planned_tasks.LEAST", 30)
    begun = []
    begin = PlannedTasks._begin_in_columns
    monkeypatch.setattr(
        PlannedTasks, "_begin_in_columns", lambda *given: (begun.append(given[1].number), begin(*given))
    )
    together = simulate_clock(scenario, 0)
    assert len(begun) > 200
    monkeypatch.setattr("asyncfl.simulation.planned_tasks.LEAST", 10**9)
    alone = simulate_clock(scenario, 0)
    assert together.events.to_pandas().equals(alone.events.to_pandas())
    assert together.tasks.to_pandas().equals(alone.tasks.to_pandas())
    assert together.traffic == alone.traffic


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_planned_tasks_leave_the_tables_of_tasks_that_go_from_phase_to_phase(
    seed: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = drawn_scenario(seed)
    monkeypatch.setattr("asyncfl.protocol.recorder.FLUSH_AT", 40 * 11)
    monkeypatch.setattr("asyncfl.simulation.action_executor.FLUSH_AT", 40 * 11)
    # Guesses of the next three tasks, most of which are wrong among nine clients.
    monkeypatch.setattr("asyncfl.simulation.planned_tasks.BLOCK", 3)
    monkeypatch.setattr("asyncfl.simulation.planned_tasks.LEAST", 1)
    monkeypatch.setattr("asyncfl.protocol.machine.IDLE_PER_GUESS", 1)
    planned = simulate_clock(scenario, seed, whole=whole)
    monkeypatch.setattr(PlannedTasks, "begin", lambda planned, task: False)
    stepped = simulate_clock(scenario, seed, whole=whole)
    assert planned.events.to_pandas().equals(stepped.events.to_pandas())
    assert planned.tasks.to_pandas().equals(stepped.tasks.to_pandas())
    assert rounds_table(planned).to_pandas().equals(rounds_table(stepped).to_pandas())
    assert clients_table(planned).to_pandas().equals(clients_table(stepped).to_pandas())
    assert planned.traffic == stepped.traffic


def test_a_long_table_of_tasks_that_is_kept_on_disk_is_that_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = simulate_clock(drawn_scenario(1), 1)
    monkeypatch.setattr("asyncfl.protocol.task_record.ON_DISK_FROM", 1)
    on_disk = simulate_clock(drawn_scenario(1), 1)
    assert len(on_disk.tasks) > 0
    assert on_disk.tasks.to_pandas().equals(in_memory.tasks.to_pandas())
    assert clients_table(on_disk).to_pandas().equals(clients_table(in_memory).to_pandas())
