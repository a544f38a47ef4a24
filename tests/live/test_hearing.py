"""What follows from what clients say, told by a host that only writes down what it is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.errors import MessageError
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.live.hearing import Hearing
from asyncfl.live.members import Member
from asyncfl.live.vocabulary import Begin, Gone, Leaving, Ready, Spent, Trace, Update
from asyncfl.live.wire import WireError
from asyncfl.messages import BudgetSpent, ClientGone, ClientJoined, Fate, UpdateArrived

MODEL = np.zeros((1, 3), np.float32)


class House:
    """Client 2 is at task 7 of 8 at second 10; client 1 at task 6."""

    def __init__(self, *, shape: bool = False, every: bool = False, known: bool = True) -> None:
        self.happened: list[Any] = []
        self.stopped: str | None = None
        self.terms = SimpleNamespace(shape=shape)
        self.tasks = {6, 7} if known else {6}
        """Of those that are recorded."""
        self.part = False
        self.started = True
        self.clock = SimpleNamespace(has_begun=True, now=10.0)
        self.someone_ready = SimpleNamespace(set=lambda: self.happened.append("somebody is ready"))
        self.federation = SimpleNamespace(path=SimpleNamespace(every_task=every))
        self.traffic = SimpleNamespace(count=lambda size, way: self.happened.append((size, way)))
        self.trained = 0
        self.spent: dict[int, float] = {}
        self.presence = SimpleNamespace(came_online=self._named("online"), left=self._named("left"))
        self.questions = SimpleNamespace(ask_held=self._named("asks what it held"))
        self.idle = self._named("idle")
        self.reports = SimpleNamespace(
            place=lambda member, task, report, at_s: self.happened.append(("told of", member.number, task, at_s))
        )
        self.event_log = SimpleNamespace(
            record=lambda kind, *, client, detail: self.happened.append((kind.value, client, detail))
        )
        self.payloads = SimpleNamespace(
            check=lambda said, task: self.happened.append(("checked", said.task)),
            lost=lambda task: self.happened.append(("in vain", task.number, task.trained)),
            size_of=lambda model: model.nbytes,
            read=lambda model, task: model,
            keep=lambda payload: self.happened.append(("kept", payload.update.task, payload.task.epochs)),
        )
        self.server = SimpleNamespace(
            validator=SimpleNamespace(is_started=True, takes_part=lambda client: self.part, sender_of={6: 1, 7: 2}.get),
            tasks=SimpleNamespace(begun=8),
            handle=lambda message: [message],
        )
        self.member = Member(2, "ann", 20, task=TaskInFlight(7, 2, 1, trained=True))
        self.said: list[Any] = []
        self.member.say = lambda message, models=None: self.said.append(message)  # type: ignore[method-assign]
        host: Any = self
        self.hearing = Hearing(host)

    def _named(self, what: str) -> Any:
        return lambda member: self.happened.append((what, member.number)) or []

    def then(self, happens: Any) -> None:
        self.happened.append("then")
        happens()

    def hear(self, said: Any, models: Any = MODEL[:0]) -> list[Any]:
        return self.hearing.hear(self.member, said, models, 9.5)


def update(task: int = 7) -> Update:
    return Update(task, 0.5, None, 0.0, None, False, (), 2)


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("spent", [None, "all of it"])
def test_who_is_ready_joins_a_run_that_has_begun_without_it(part: bool, started: bool, spent: str | None) -> None:
    house = House()
    house.part, house.server.validator.is_started = part, started
    house.member.task = None
    actions = house.hear(Ready(False, spent))
    assert (house.member.ready, house.member.online, house.member.spent) == (True, False, spent)
    assert house.said == [Begin(10.0)]
    joins = started and not part
    assert house.happened[:2] == ["somebody is ready", ("online", 2)][: 1 + joins]
    assert actions == [ClientJoined(10.0, 2, 20), *([BudgetSpent(10.0, 2)] if spent else [])] * joins
    assert house.spent == ({2: 10.0} if joins and spent else {})


def test_who_is_ready_before_the_run_begins_is_told_nothing() -> None:
    house = House()
    house.clock.has_begun = house.server.validator.is_started = False
    assert house.hear(Ready(True, None)) == []
    assert house.said == []
    assert house.member.online


@pytest.mark.parametrize("at_task", [False, True])
def test_a_budget_is_spent_once_and_its_event_stands_in_the_tasks_report(at_task: bool) -> None:
    house = House()
    if not at_task:
        house.member.task = None
    assert house.hear(Spent("all of it")) == [BudgetSpent(10.0, 2)]
    assert house.happened == ([] if at_task else [("budget_spent", 2, "all of it")])
    assert house.member.spent == "all of it"
    assert house.spent == {2: 10.0}
    assert house.hear(Spent("again")) == []


def test_who_leaves_is_neither_ready_nor_online() -> None:
    house = House()
    house.member.ready = house.member.online = True
    assert house.hear(Leaving()) == []
    assert (house.member.ready, house.member.online) == (False, False)
    assert house.happened == [("left", 2)]


@pytest.mark.parametrize(("task", "known", "vain"), [(7, True, False), (7, False, True), (-1, False, False)])
def test_what_goes_no_further_stands_in_the_trace(task: int, known: bool, vain: bool) -> None:
    house = House(known=known)
    assert house.hear(Trace(task, ())) == []
    assert house.member.left == [task]
    assert house.happened == [("told of", 2, task, None), *[("in vain", 7, True)] * vain]


@pytest.mark.parametrize(("shape", "traffic"), [(False, [(12, "up")]), (True, [])])
@pytest.mark.parametrize("known", [False, True])
def test_an_update_is_checked_told_counted_kept_and_handed_on(
    shape: bool, traffic: list[tuple[int, str]], known: bool
) -> None:
    house = House(shape=shape, known=known)
    assert house.hear(update(), MODEL) == [UpdateArrived(10.0, 7)]
    assert house.happened == [
        ("checked", 7),
        ("told of", 2, 7, 9.5),
        *([] if known else [("in vain", 7, False)]),
        *traffic,
        *([("kept", 7, 2)] if known else []),
        ("asks what it held", 2),
    ]
    assert house.trained == 1
    assert house.member.task is None


@pytest.mark.parametrize("shape", [False, True])
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("fate", [Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT])
def test_a_task_that_came_to_nothing_was_trained_if_its_upload_was_lost(shape: bool, every: bool, fate: Fate) -> None:
    house = House(shape=shape, every=every, known=False)
    assert house.hear(Gone(7, fate.value, ())) == [ClientGone(10.0, 2, 7, fate)]
    trained = fate is Fate.LOST_UP and (every or not shape)
    assert house.happened == [
        ("told of", 2, 7, 9.5),
        ("in vain", 7, trained),
        "then",
        ("idle", 2),
        ("asks what it held", 2),
    ]
    assert (house.trained, house.member.task) == (0, None)


def test_what_cannot_be_true_is_refused_with_what_was_said() -> None:
    house = House()
    for said, models, kind, why in (
        (update(6), MODEL, MessageError, "task 6 is client 1's, got an answer of 2"),
        (update(), MODEL[:0], WireError, "an update comes with its model, got 0"),
        (update(), np.zeros((2, 3), np.float32), WireError, "an update comes with its model, got 2"),
        (Gone(7, "rejected", ()), MODEL[:0], WireError, "a task of a client does not end 'rejected'"),
        (update(5), MODEL, MessageError, "task 5 is not one that client 2 is at"),
        (Begin(1.0), MODEL[:0], WireError, "a client does not say Begin here"),
    ):
        with pytest.raises(kind) as caught:
            house.hear(said, models)
        assert str(caught.value) == why
    assert house.happened == []


def test_an_answer_to_what_was_given_up_is_let_pass_and_one_to_what_never_was_is_not() -> None:
    house = House()
    house.member.task = None
    assert house.hear(update(7), MODEL) == []
    assert house.hear(update(5), MODEL) == []
    with pytest.raises(MessageError, match="task 8 is not one that client 2 is at"):
        house.hear(update(8), MODEL)
    assert house.happened == []


def test_after_the_end_an_answer_goes_into_the_trace_alone() -> None:
    house = House()
    house.stopped = "all versions published"
    assert house.hear(update(), MODEL) == []
    assert house.happened == [("told of", 2, 7, 9.5)]
    assert house.trained == 0
