"""Estimate the time and memory of a run before it starts, and refuse runs beyond the limits.

The estimates use the scenario alone and are good to a factor of `DOUBT`: enough to catch a typing error
(`aggregate_s: 1e9`, `hidden: [1000000]`). So a run is refused only where it would take too long even if the estimate of
its time were that much too high. Raise the limits with `--max-hours` and `--max-gib` on the command line, or
`limits=Limits(...)` in Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.streams import Streams
from asyncfl.learning.optimizer import slots_of
from asyncfl.measurements import KeepEvery
from asyncfl.scenario import Scenario

DOUBT = 10.0
"""Largest factor between the estimated and the real time of a run."""
_CHANGE_S = 5e-6
"""Seconds of one core for one client to go online or offline."""
_TASK_S = 1e-4
"""Seconds of one core for the events of one task, without training."""
_EVALUATION_S = 1.5e-4
"""Seconds of one core for one client that evaluates a version on shared processors."""
_CLIENT_S = 5e-5
"""Seconds of one core for the ledger and the tables of one client of a seed."""
_NUMBER_S = 2e-8
"""Seconds of one core to draw, scale and partition one number of a training sample."""
_TASK_BYTES, _CLIENT_BYTES = 2000, 2000
"""Bytes of the events and the state of one task, and of one client."""
_ACCOUNTED_BYTES = 4000
"""Bytes of one task in the ledger and the tables, while they are made."""
_ROW_BYTES = 5000
"""Bytes of one client in the ledger and the tables, while they are made."""


@dataclass(frozen=True)
class Limits:
    """Largest time and memory of a run."""

    hours: float = 2.0
    """Hours of one core, all seeds together. The longest published experiment takes a quarter of an hour."""
    gib: float = 16.0

    def check(self, scenario: Scenario, training: bool = True) -> None:
        """Raise ScenarioError where the estimate exceeds a limit. `training`: False for the clock alone."""
        faults = list(self._faults(scenario, training))
        if faults:
            raise ScenarioError(faults)

    def _faults(self, scenario: Scenario, training: bool) -> Iterator[Fault]:
        """Yield a fault for each limit that the estimate exceeds, of the field that contributes most."""
        tasks_s, waiting_s = clock_seconds(scenario)
        parts = {
            "protocol.rounds": tasks_s + (scenario.estimated_cost() if training else 0.0),
            "world": waiting_s,
            "data.clients": _clients_seconds(scenario) if training else 0.0,
            "privacy.exposures": (tasks_s + waiting_s) * timelines_before(scenario) if training else 0.0,
        }
        seconds = sum(parts.values())
        if seconds > DOUBT * self.hours * 3600:
            field = max(parts, key=parts.__getitem__)
            way_out = "shorten the times in world, or set protocol.time_limit_s" if field == "world" else "lower it"
            yield Fault(
                field,
                f"the run must take at most {self.hours:g} hours of one core, and would take about "
                f"{_duration(seconds)}; {way_out}, or raise the limit (--max-hours, Limits(hours=...))",
            )
        shares = _memory_shares(scenario, training)
        needed = sum(shares.values())
        if needed > self.gib * 2**30:
            yield Fault(
                max(shares, key=shares.__getitem__),
                f"the run must take at most {self.gib:g} GiB of memory, and would take about {needed / 2**30:.3g}; "
                "make it smaller, or raise the limit (--max-gib, Limits(gib=...))",
            )


USUAL = Limits()


def clock_seconds(scenario: Scenario) -> tuple[float, float]:
    """Estimate the seconds of one core that the clock takes, without training, over all seeds.

    Returns:
        Seconds for the tasks, and seconds for changes of availability, and for tasks and evaluations by clients while
        the server is busy.
    """
    planned, idle, changes = _clock_events(scenario)
    every = scenario.evaluation_schedule.test_every
    evaluations = _evaluating_at_once(scenario) * (scenario.protocol.rounds // every if every else 1)
    busy_s = _CHANGE_S * changes + _TASK_S * idle + _EVALUATION_S * evaluations
    return len(scenario.seeds) * _TASK_S * planned, len(scenario.seeds) * busy_s


def _evaluating_at_once(scenario: Scenario) -> int:
    """Return the number of clients that evaluate a version on processors that they share; 0 where none does."""
    world = scenario.world
    is_shared = world.evaluate_at == "clients" and world.processors is not None and world.evaluate_s > 0
    return scenario.data.clients if is_shared else 0


def _clock_events(scenario: Scenario) -> tuple[float, float, float]:
    """Estimate the tasks that versions are made of, those that idle clients do meanwhile, and changes of availability,
    of one seed."""
    world, dispatch, clients = scenario.world, scenario.protocol.dispatch, scenario.data.clients
    rounds, tasks = scenario.protocol.rounds, dispatch.at_publish(clients) or scenario.participants
    speeds = world.device.draw(min(clients, 1000), Streams(0).generator("device"))
    samples = scenario.training.processed(scenario.data.samples_per_client or 1000)
    task_s = max(float(np.median(speeds)) * samples, 1e-9)
    busy_s = world.aggregate_s + world.aggregate_s_per_number * scenario.n_parameters * scenario.participants
    slowdown = max(1.0, _evaluating_at_once(scenario) / (world.processors or 1.0))
    busy_s += 0.0 if world.evaluate_beside else world.evaluate_s * slowdown
    if scenario.defence.detector is not None:
        busy_s += world.score_s + world.evaluation_cost * task_s * scenario.participants
    virtual_s = min(rounds * (busy_s + task_s), scenario.protocol.time_limit_s or math.inf)
    # Clients that are kept busy continue while the server aggregates.
    idle_tasks = dispatch.level(clients) * min(rounds * busy_s, virtual_s) / task_s
    changes = clients * virtual_s * world.availability.changes_per_s
    return float(rounds * tasks + dispatch.level(clients)), idle_tasks, changes


def _clients_seconds(scenario: Scenario) -> float:
    """Estimate the seconds of one core for the clients' data, ledger and tables, over all seeds."""
    data = scenario.data
    numbers = math.prod(data.shape) * data.clients * (data.samples_per_client or 0)
    return len(scenario.seeds) * (_CLIENT_S * data.clients + _NUMBER_S * numbers)


def timelines_before(scenario: Scenario) -> int:
    """Return the number of clock-only runs that are simulated before each seed to measure how much is overheard."""
    asked = scenario.privacy.assumed_exposures(scenario.protocol.rounds, scenario.participants, scenario.data.clients)
    return 0 if isinstance(asked, int) else asked.replicates


def memory_bytes(scenario: Scenario, training: bool = True) -> float:
    """Estimate the peak memory of a run in bytes: models and updates, samples, clients, and records of tasks, also
    while ledger and tables are made of them."""
    return sum(_memory_shares(scenario, training).values())


def _memory_shares(scenario: Scenario, training: bool) -> dict[str, float]:
    """Estimate field of the scenario -> bytes that follow from it."""
    data, (planned, idle, _) = scenario.data, _clock_events(scenario)
    # How long clients idle is the least certain.
    planned += idle / DOUBT
    window = scenario.defence.strikes.window if scenario.defence.strikes is not None else None
    of_clients = _CLIENT_BYTES + 3.0 * (window or 0)
    tasks = _TASK_BYTES * planned
    if not training:
        return {"protocol.rounds": tasks, "data.clients": of_clients * data.clients}
    tasks += _ACCOUNTED_BYTES * planned
    threats = scenario.threats
    if threats is not None and threats.attack.sees == "buffer":
        # Each attacker's upload names the honest ones of its buffer.
        tasks += 8.0 * planned * threats.count(scenario.participants)
    # As bytes, as float32, and a copy while they are partitioned.
    # Samples that stay on disk are loaded only for the clients in training.
    holders = 1 if data.own is not None and data.own.on_disk else data.clients
    samples = 9.0 * math.prod(data.shape) * holders * (data.samples_per_client or 0)
    # Outputs and targets of one client's samples, and outputs of an evaluation's chunk.
    samples += 4.0 * data.outputs * (3 * (data.samples_per_client or 0) + 2000)
    clients = (of_clients + _ROW_BYTES) * data.clients + samples
    return {"protocol.rounds": tasks, "data.clients": clients, "model": _model_bytes(scenario)}


def _model_bytes(scenario: Scenario) -> float:
    """Estimate the bytes of two rows per update (collected, noised), open tasks' models, training and compression."""
    clients = scenario.data.clients
    at_once = max(scenario.participants, scenario.protocol.dispatch.level(clients))
    kept = clients if scenario.compression.remembers else 0
    kept += clients * len(slots_of(scenario.training)) if scenario.training.state == "kept" else 0
    kept += (len(scenario.algorithm.carries) + bool(scenario.algorithm.personal_pull)) * clients
    kept += math.ceil(scenario.algorithm.server_vectors(clients))
    keep = scenario.evaluation.keep
    kept += scenario.protocol.rounds // keep.every if isinstance(keep, KeepEvery) else 0
    shape, outputs = scenario.data.shape, scenario.data.outputs
    own = (
        4.0 * clients * scenario.model.parameter_split(shape, outputs).own.n_parameters
        if scenario.model.personal
        else 0.0
    )
    return own + 4.0 * scenario.n_parameters * (2 * scenario.participants + at_once + kept + 10)


def _duration(seconds: float) -> str:
    for unit, length in (("years", 365.25 * 86400), ("days", 86400), ("hours", 3600)):
        if seconds > 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds / 60:.3g} minutes"
