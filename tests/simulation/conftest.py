"""A simulated federation whose clients do not train: whole seeds in milliseconds, with all kinds of faults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from asyncfl.base.instrument import Instrument
from asyncfl.base.streams import Streams
from asyncfl.defences import Detector, Mean, Rule, Strikes
from asyncfl.protocol import Buffered, DefencePlan, Protocol, Server, ServerPlan
from asyncfl.protocol.messages import Collect, Collected, Publish, ScoreRequest
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.clients import SimulatedClients
from asyncfl.simulation.driver import Driver
from asyncfl.simulation.phases import Workload
from asyncfl.simulation.timeline_recorder import TimelineRecorder
from asyncfl.testing import context
from asyncfl.world import World

N_PARAMETERS = 4


class Clients(SimulatedClients):
    """Clients that move each model by a draw of their own; `broken` ones upload NaN, `loud` ones ten times the rest."""

    def __init__(
        self, server: Server, load: Workload, broken: Sequence[int], loud: Sequence[int], every_task: bool, **more: Any
    ) -> None:
        super().__init__(server, load, **more)
        self.broken, self.loud, self.every_task = broken, loud, every_task
        self.held: set[int] = set()
        """Tasks that were trained ahead and not collected or dropped yet."""

    def train(self, task: TaskRecord) -> None:
        assert task.base is not None
        self.held.add(task.number)

    def drop(self, task: TaskRecord) -> None:
        self.held.remove(task.number)

    def collect(self, time_s: float, action: Collect) -> Collected:
        tasks = self.server.tasks.collect(action.tasks)
        rows = np.empty((len(tasks), N_PARAMETERS), dtype=np.float32)
        for row, task in zip(rows, tasks, strict=True):
            moved = np.random.default_rng(task.number).normal(1.0, 0.3, N_PARAMETERS)
            row[:] = self.server.tasks.model(task.base_version) + moved * (-10 if task.client in self.loud else 1)
            if task.client in self.broken:
                row[0] = np.nan
            self.held.discard(task.number)
            task.trained = False
        rows.flags.writeable = False
        return Collected(action.tasks, rows, np.zeros(len(tasks)), time_s=time_s)

    def score(self, request: ScoreRequest, turn: int) -> NDArray[np.float64]:
        return np.asarray(request.models.mean(axis=1), dtype=np.float64)


@dataclass
class Watching(Instrument):
    """Stores what was published, and stops the run at version `until`."""

    until: int | None = None
    at: Callable[[Publish], None] | None = None
    published_at: list[tuple[int, float]] = field(default_factory=list)

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        self.published_at.append((publish.version, time_s))
        if self.at is not None:
            self.at(publish)
        return "diverged: it was to" if publish.version == self.until else None


def federation(
    protocol: Protocol | dict[str, Any],
    world: dict[str, Any],
    *,
    clients: int = 10,
    seed: int = 0,
    rule: Rule | None = None,
    detector: Detector | None = None,
    strikes: Strikes | None = None,
    broken: Sequence[int] = (),
    loud: Sequence[int] = (),
    every_task: bool = False,
    until: int | None = None,
    at: Callable[[Publish], None] | None = None,
) -> Driver:
    """One seed that is ready to run. The models have four parameters and travel in packets of four bytes."""
    chosen = protocol if isinstance(protocol, Protocol) else Buffered.model_validate(protocol)
    described, streams = World.model_validate(world), Streams(seed)
    server = Server(
        ServerPlan(
            chosen,
            np.full(clients, 100),
            np.zeros(N_PARAMETERS, dtype=np.float32),
            streams,
            DefencePlan(rule or Mean(), detector, strikes, context(clients, N_PARAMETERS)),
            aggregate_s=described.aggregate_s,
            aggregate_s_per_update=described.aggregate_s_per_number * N_PARAMETERS,
            evaluate_s=0.0 if described.evaluate_beside else described.evaluate_s,
            evaluate_every=1,
            score_s=described.score_s,
        )
    )
    return Driver(
        server,
        described.start(clients, streams),
        TimelineRecorder(seed),
        Clients(
            server,
            Workload(np.full(clients, 100), 1, *[4 * N_PARAMETERS] * 3),
            broken,
            loud,
            every_task,
            scoring=chosen.scoring,
        ),
        instruments=(Watching(until, at),),
    )


@pytest.fixture(scope="session", name="federation")
def make_federation() -> Callable[..., Driver]:
    """`federation`."""
    return federation
