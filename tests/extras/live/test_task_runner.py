"""A client's tasks: its privacy budget is charged when something is sent, and its own state is kept between them."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.client_state import ClientState, ClientStates
from asyncfl.base.errors import MessageError
from asyncfl.client import Assignment
from asyncfl.client.compress import REMAINDER
from asyncfl.extras.live.client_messages import ClientEvent, ClientScoreRequest, Gone, Scores, Spent, Task, Update
from asyncfl.extras.live.clock import LiveClock
from asyncfl.extras.live.live_run import training_of
from asyncfl.extras.live.local_training import LocalTraining, TrainedUpdate
from asyncfl.extras.live.task_runner import Activity, TaskRunner
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.simulation.phases import LinkMessage, Phase, ScoringPhase
from asyncfl.simulation.prepare import Federation, prepare, resolve
from asyncfl.world import Transfer
from tests.extras.live import virtual_loop
from tests.extras.live.conftest import SMALL

MODEL = np.arange(3, dtype=np.float32)
DONE = TrainedUpdate(MODEL[None] + 1, 0.25, 0.5, None)
UP = LinkMessage(Transfer(3.0, True, 2, 2, 3, 1, 150, math.inf, (), (), 150, 0.0), "up")
TRAINING = Phase(Kind.TRAINING_STARTED, Kind.TRAINED, 2.0, epochs=2, detail="2 of 3 epochs")
UPLOAD = Phase(Kind.UPLOAD_STARTED, Kind.UPLOADED, 3.0, sending=UP)


class Client:
    """Client 2 from second 100 on: a task trains for 2 s and is sent in 3 s, an answer to a request in 3 s."""

    def __init__(self, *, affords: bool, spent: bool = False) -> None:
        self.calls: list[Any] = []
        self.messages: list[tuple[float, Any]] = []
        self.spent = spent
        budgets = SimpleNamespace(
            resume=lambda client: affords,
            describe_spending=lambda client: f"client {client} has spent it",
            charge_upload=lambda client, epochs: self.calls.append(("charge_upload", client, epochs)),
            affords=lambda client, turn: self.calls.append(("affords", client, turn)) or affords,
            charge_scores=lambda client, models: True,
        )
        training = SimpleNamespace(
            train=lambda assignment, *_: self.calls.append(("train", assignment.task)) or DONE,
            score=lambda *_: np.array([0.5, 0.75]),
            states=ClientStates(),
            carries=(),
        )
        self.setup: Any = SimpleNamespace(
            number=2,
            training=training,
            executor=None,
            load=SimpleNamespace(deadline_s=6.0),
            world=SimpleNamespace(next_change=lambda client, now_s: math.inf),
            budgets=budgets,
            phases=lambda said: [(TRAINING, True), (UPLOAD, True)],
            measured=lambda phase, training: phase,
            scenario=SimpleNamespace(reports_losses=False),
            scoring_phases=lambda said, models: [ScoringPhase(3.0, UP, "scoring up")],
        )

    def runner(self) -> TaskRunner:
        clock = LiveClock(1.0)
        clock.begin(100.0)

        def say(message: Any, models: Any = None) -> None:
            self.messages.append((clock.now, message))

        runner = TaskRunner(self.setup, clock, say)
        runner._spent = self.spent
        self.calls.clear()
        return runner

    def handles(self, *given: Task | ClientScoreRequest) -> None:
        """Carry out tasks and requests one after another."""

        async def main() -> None:
            runner = self.runner()
            for one in given:
                if isinstance(one, Task):
                    await runner.task(one, MODEL, Activity(one.task, runner._clock.now))
                else:
                    await runner.score(one, MODEL, Activity(-1, runner._clock.now))

        virtual_loop.run(main)


@pytest.mark.parametrize("affords", [True, False])
def test_an_upload_is_charged_when_it_begins(affords: bool) -> None:
    client = Client(affords=affords)
    client.handles(Task(7, 2, 3, 4), Task(8, 2, 3, 5))
    assert client.calls[:3] == [("train", 7), ("charge_upload", 2, 2), ("affords", 2, 5)]
    report = [ClientEvent(0.0, "training_started"), ClientEvent(2.0, "trained", detail="2 of 3 epochs")]
    report += [ClientEvent(2.0, "upload_started", 150)]
    report += [] if affords else [ClientEvent(2.0, "budget_spent", detail="client 2 has spent it")]
    update = Update(7, None, 0.5, None, (*report, ClientEvent(5.0, "uploaded", 150, 2, "up")), 2)
    if affords:
        assert client.messages[0] == (105.0, update)
        assert [type(message) for _, message in client.messages] == [Update, Update]
    else:
        spent = Spent("client 2 has spent it")
        gone = Gone(8, Fate.DROPPED_OUT, ())
        assert client.messages == [(102.0, spent), (105.0, update), (105.0, spent), (105.0, gone)]
        assert ("train", 8) not in client.calls


def test_a_task_of_another_client_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(MessageError, match="task 7 is client 1's, got by client 2"):
            Client(affords=True).runner().begin(Task(7, 1, 3, 4), MODEL, Activity(7, 100.0))

    virtual_loop.run(main)


def test_a_client_that_has_spent_its_budget_neither_trains_nor_scores() -> None:
    client = Client(affords=True, spent=True)
    client.handles(Task(7, 2, 3, 4), ClientScoreRequest(5, 1))
    assert [message for _, message in client.messages] == [
        Spent("client 2 has spent it"),
        Gone(7, Fate.DROPPED_OUT, ()),
        Scores(5, None, ()),
    ]
    assert client.calls == []


def test_scores_are_withheld_when_an_upload_spends_the_budget_meanwhile() -> None:
    client = Client(affords=False)

    async def main() -> None:
        runner = client.runner()
        task, request = (Activity(number, 100.0) for number in (8, -1))
        await asyncio.gather(
            runner.score(ClientScoreRequest(5, 1), MODEL, request), runner.task(Task(8, 2, 3, 5), MODEL, task)
        )

    virtual_loop.run(main)
    assert [type(message) for _, message in client.messages] == [Spent, Scores, Update]
    assert client.messages[1][1].scores is None


def training_and_federation(description: dict[str, Any]) -> tuple[LocalTraining, Federation]:
    federation = prepare(resolve(Scenario.read({**SMALL, **description}), 0, SimulatedRuns()))
    return training_of(federation, federation.resolved.streams), federation


def assignment(federation: Federation, task: int) -> Assignment:
    base = np.random.default_rng(1).normal(0, 0.1, federation.learner.n_parameters).astype(np.float32)
    return Assignment(task, 1, 0, base, task)


def test_a_residual_comes_from_the_training_that_was_kept() -> None:
    """A training that was given up may end after the next one has."""
    training, federation = training_and_federation({"compression": {"kind": "top_k", "share": 0.1}})
    kept, given_up = (training.train(assignment(federation, task), False) for task in (1, 0))
    assert kept.state != given_up.state
    assert training._path().states.of(1) == training.states.of(1) == ClientState()
    training.states.update(1, kept.state)
    again = training.train(assignment(federation, 2), False)
    other, _ = training_and_federation({"compression": {"kind": "top_k", "share": 0.1}})
    other.states.update(1, other.train(assignment(federation, 1), False).state)
    assert again.state == other.train(assignment(federation, 2), False).state
    assert list(again.state.arrays) == [REMAINDER]


def test_scores_use_the_personal_layers_at_their_beginning() -> None:
    training, federation = training_and_federation({"model": {**SMALL["model"], "personal": ["3.*"]}})
    began = training.states.of(1)
    models = np.random.default_rng(0).standard_normal((8, federation.learner.n_parameters)).astype(np.float32)
    before = training.score(1, ClientScoreRequest(0, 0), models)
    done = training.train(assignment(federation, 0), False)
    own = training._path().personal
    assert own is not None
    np.testing.assert_array_equal(own.of(1), own.learner.initial)
    training.states.update(1, done.state)
    assert (training.score(1, ClientScoreRequest(0, 0), models) != before).any()
    np.testing.assert_array_equal(training.score(1, ClientScoreRequest(0, 0), models, began), before)
