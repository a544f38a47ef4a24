"""Models that clients are asked to score: when they are sent, what of, and what becomes of those who do not answer."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.live.members import Member
from asyncfl.live.questions import Questions
from asyncfl.live.vocabulary import Judge, Scores
from asyncfl.messages import RequestScores, ScoresArrived

MODELS = np.arange(6, dtype=np.float32).reshape(3, 2)


class House:
    """Client 2 is online and at nothing; three models of two parameters are to be scored by it."""

    def __init__(self, *, serial: bool = False, shape: bool = False) -> None:
        self.happened: list[tuple[Any, ...]] = []
        self.said: list[tuple[Any, np.ndarray]] = []
        self.counted: list[tuple[int, str]] = []
        self.waiting: list[Callable[[], Any]] = []
        self.serial, self.terms = serial, SimpleNamespace(shape=shape)
        self.stopped: str | None = None
        self.attackers: Any = None
        self.clock = SimpleNamespace(now=30.0)
        self.load = SimpleNamespace(payload_bytes=8)
        self.event_log = SimpleNamespace(record=self._record)
        self.traffic = SimpleNamespace(count=lambda size, way: self.counted.append((size, way)))
        self.reports = SimpleNamespace(place=lambda member, number, report: self.happened.append((number, report)))
        self.server = SimpleNamespace(
            handle=lambda message: [message], validator=SimpleNamespace(check=lambda message: None)
        )
        self.member = Member(2, "ann", 20, online=True, last=(5, 3, 1), requests=4)
        self.members = SimpleNamespace(by_number={2: self.member})
        self.member.say = lambda message, models=None: self.said.append((message, models))  # type: ignore[method-assign]
        host: Any = self
        self.questions = Questions(host)
        self.asked = RequestScores(9, 2, MODELS)

    def _record(self, kind: Any, *, client: int, detail: str, size: int = -1) -> None:
        self.happened.append((kind.value, client, detail, size))

    def tell(self, happens: Callable[[], Any]) -> None:
        self.waiting.append(happens)


@pytest.mark.parametrize("shape", [True, False])
def test_a_client_that_is_at_nothing_is_asked_at_once(shape: bool) -> None:
    house = House(shape=shape)
    house.questions.ask(house.asked)
    assert house.happened == [("scores_requested", 2, "3 models", 24)]
    [(said, models)] = house.said
    assert said == Judge(9, 4, 5, 3, 1)
    np.testing.assert_array_equal(models, MODELS)
    assert house.counted == ([] if shape else [(24, "down")])
    member = house.member
    assert (member.request, member.held, member.requests) == (house.asked, None, 5)
    assert (member.asked_s, member.at_s) == (30.0, 30.0)


def test_what_it_is_at_began_earlier() -> None:
    house = House()
    house.member.at_s = 12.0
    house.questions.ask(house.asked)
    assert (house.member.asked_s, house.member.at_s) == (30.0, 12.0)


@pytest.mark.parametrize("malicious", [True, False])
def test_an_attacker_is_told_to_lie_by_its_last_task(malicious: bool) -> None:
    house = House()
    asked_of: list[tuple[int, int]] = []

    def tells(task: int, client: int) -> bool:
        asked_of.append((task, client))
        return malicious

    house.attackers = SimpleNamespace(malicious=tells)
    house.questions.ask(house.asked)
    assert house.said[0][0].attacks is malicious
    assert asked_of == [(5, 2)]


def test_in_turn_a_client_scores_when_its_task_is_over() -> None:
    house = House(serial=True)
    house.member.task = object()  # type: ignore[assignment]
    house.questions.ask(house.asked)
    assert (house.said, house.member.held, house.member.request) == ([], house.asked, None)
    house.questions.ask_held(house.member)
    assert len(house.said) == 1
    house.questions.ask_held(house.member)
    assert len(house.said) == 1, "once"
    idle = House(serial=True)
    idle.questions.ask(idle.asked)
    assert len(idle.said) == 1
    beside = House()
    beside.member.task = object()  # type: ignore[assignment]
    beside.questions.ask(beside.asked)
    assert len(beside.said) == 1, "not in turn, it scores beside its task"


@pytest.mark.parametrize("why", ["offline", "spent", "offline and at a task"])
def test_who_cannot_answer_is_not_asked_and_the_server_hears_so(why: str) -> None:
    house = House(serial=True)
    house.member.online = why == "spent"
    house.member.spent = "all of it" if why == "spent" else None
    house.member.task = object() if why.endswith("task") else None  # type: ignore[assignment]
    house.questions.ask(house.asked)
    assert (house.said, house.counted, house.member.requests) == ([], [], 4)
    [happens] = house.waiting
    [answer] = happens()
    assert (answer.request, answer.scores, answer.time_s) == (9, None, 30.0)
    assert house.happened[-1] == ("scored", 2, "no answer", -1)
    assert house.member.request is None
    assert happens() == [], "once"


def test_no_answer_counts_for_what_was_asked_alone_and_only_while_the_run_goes_on() -> None:
    house = House()
    other = RequestScores(10, 2, MODELS)
    assert house.questions.no_answer(house.member) == []
    house.questions.ask(house.asked)
    assert house.questions.no_answer(house.member, other) == []
    house.stopped = "over"
    assert house.questions.no_answer(house.member, house.asked) == []
    house.stopped = None
    assert [answer.request for answer in house.questions.no_answer(house.member, house.asked)] == [9]  # type: ignore[union-attr]
    house.questions.ask(other)
    assert len(house.questions.no_answer(house.member)) == 1


def test_an_answer_is_heard_once_and_only_of_what_was_asked() -> None:
    house = House()
    house.questions.ask(house.asked)
    assert house.questions.scored(house.member, Scores(8, (0.5, 0.25, 1.0), ())) == [], "it was given up"
    [answer] = house.questions.scored(house.member, Scores(9, (0.5, 0.25, 1.0), ()))
    assert isinstance(answer, ScoresArrived)
    assert (answer.time_s, answer.request) == (30.0, 9)
    np.testing.assert_array_equal(answer.scores, [0.5, 0.25, 1.0])
    assert answer.scores is not None
    assert answer.scores.dtype == np.float64
    assert house.happened[1:] == [(-1, ()), (-1, ()), ("scored", 2, "3 models", -1)]
    assert house.questions.scored(house.member, Scores(9, (0.5, 0.25, 1.0), ())) == []
    house.questions.ask(house.asked)
    [silent] = house.questions.scored(house.member, Scores(9, None, ()))
    assert silent.scores is None  # type: ignore[union-attr]
    assert house.happened[-1] == ("scored", 2, "no answer", -1)
