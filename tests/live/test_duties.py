"""What a client does of what it is given, second by second, told by a craft that does nothing."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.client import Assignment
from asyncfl.federation.phases import LinkMessage, Phase, ScoringPhase
from asyncfl.live.clock import LiveClock
from asyncfl.live.duties import Duties
from asyncfl.live.errands import At
from asyncfl.live.vocabulary import Gone, Judge, Noted, Scores, Spent, Task, Update
from asyncfl.live.work import Done
from asyncfl.messages import Fate
from asyncfl.trace import Kind
from asyncfl.world import Transfer
from tests.live import virtual_loop

MODEL = np.arange(3, dtype=np.float32)
DONE = Done(MODEL[None] + 1, 0.25, 2.0, 0.5, None, False)
DOWN = LinkMessage(Transfer(1.0, True, 1, 1, 1, 0, 80, math.inf, (), (), 75, 0.0), "down")
UP = LinkMessage(Transfer(3.0, True, 2, 2, 3, 1, 150, 2.5, (1.0,), (50,), 100, 0.0), "up")
"""A packet is sent again after a second, and the tap has all after two and a half."""
WAY = [
    (Phase(Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED, 1.0, sending=DOWN), True),
    (Phase(Kind.TRAINING_STARTED, Kind.TRAINED, 2.0, epochs=2, detail="2 of 3 epochs"), True),
    (Phase(Kind.UPLOAD_STARTED, Kind.UPLOADED, 3.0, sending=UP), True),
]
WHOLE_WAY = (
    Noted(1.0, "downloaded", 80, 1, "down"),
    Noted(1.0, "training_started"),
    Noted(3.0, "trained", detail="2 of 3 epochs"),
    Noted(3.0, "upload_started", 100),
    Noted(4.0, "retransmitted", 50, 2, "up"),
    Noted(5.5, "overheard", detail="up"),
    Noted(6.0, "uploaded", 150, 2, "up"),
)


class House:
    """Client 2, at second 100, in a world that it leaves at second `until_s`."""

    def __init__(self, way: list[tuple[Phase, bool]], *, until_s: float = math.inf, spent: bool = False) -> None:
        self.happened: list[Any] = []
        self.said: list[tuple[float, Any, Any]] = []
        self.told: list[str] = []
        self.budgets: Any = None
        self.affords = True
        self.scoring: list[ScoringPhase] = []
        self.spent = spent
        self.way = way
        self.world: Any = SimpleNamespace(next_change=lambda client, now_s: until_s)
        self.at = At(7, 100.0)

    def track(self, *, affords: bool, answers: bool = True) -> None:
        """Have budgets that afford a further upload, and these scores, or not."""
        self.budgets = SimpleNamespace(
            describe_spending=lambda client: f"client {client} has spent it",
            charge_upload=lambda client, epochs: self.happened.append(("sends", client, epochs)),
            affords=lambda client, turn: self.happened.append(("affords", client, turn)) or affords,
            charge_scores=lambda client, models: self.happened.append(("answers", client, models)) or answers,
        )

    def craft(self, clock: LiveClock) -> Any:
        def train(assignment: Assignment, attacks: bool, deadline_s: float | None) -> Done:
            self.happened.append(("trains", assignment.task, assignment.epochs, attacks, deadline_s))
            return DONE

        def score(*arguments: Any, own: str) -> Any:
            self.happened.append(("scores", *arguments[:2], *arguments[3:], own))
            return np.array([0.5, 0.75])

        shop = SimpleNamespace(
            train=train,
            score=score,
            keep=lambda client, done: self.happened.append(("keeps", client, done is DONE, clock.now)),
            own_layers=lambda client: f"layers of {client}",
        )
        return SimpleNamespace(
            number=2,
            workshop=shop,
            executor=None,
            load=SimpleNamespace(deadline_s=6.0),
            world=self.world,
            budgets=self.budgets,
            phases=lambda said: self.way,
            measured=lambda phase, training: phase,
            scoring_phases=lambda said, models: self.scoring,
        )

    def does(self, *given: Task | Judge, speedup: float = 1.0) -> None:
        """Carry them out, one after another; each for a thousand real seconds at most."""

        async def main() -> None:
            clock = LiveClock(speedup)
            clock.begin(100.0)

            async def say(message: Any, models: Any = None) -> None:
                self.said.append((clock.now, message, models))

            duties = Duties(self.craft(clock), clock, say, self.told.append, spent=self.spent)
            for said in given:
                at = self.at if said is given[0] else At(said.task if isinstance(said, Task) else -1, clock.now)
                does = duties.task(said, MODEL, at) if isinstance(said, Task) else duties.judge(said, MODEL, at)
                await asyncio.wait_for(does, 1000.0)

        virtual_loop.run(main)


@pytest.mark.parametrize("until_s", [math.inf, 106.0])
def test_a_task_takes_the_worlds_time_and_ends_with_its_update(until_s: float) -> None:
    house = House(WAY, until_s=until_s)
    house.does(Task(7, 4, 3, True))
    [(now_s, update, model)] = house.said
    assert (now_s, update) == (106.0, Update(7, 0.25, 2.0, 0.5, None, False, WHOLE_WAY, 2))
    assert model is DONE.model
    assert house.happened == [("trains", 7, 2, True, None), ("keeps", 2, True, 103.0)]
    assert house.told == ["task 7: version 3 trained, loss 0.25, sent"]
    assert house.at.sending is None


@pytest.mark.parametrize(("until_s", "heard"), [(103.9, 4), (104.0, 5), (105.4, 5), (105.5, 6), (105.9, 6)])
def test_who_is_away_before_an_end_never_comes_to_it(until_s: float, heard: int) -> None:
    house = House(WAY, until_s=until_s)
    with pytest.raises(asyncio.TimeoutError):
        house.does(Task(7, 4, 3))
    assert house.said == []
    assert tuple(house.at.notes) == WHOLE_WAY[:heard]
    assert (house.at.sending, house.at.sent_s) == (UP, 103.0)


def test_a_task_that_fails_is_told_of_with_its_end() -> None:
    lost = [(one._replace(fails=Fate.LOST_UP, ends=Kind.LOST) if one.sending is UP else one, False) for one, _ in WAY]
    house = House(lost)
    house.does(Task(7, 4, 3))
    report = (*WHOLE_WAY[:-1], Noted(6.0, "lost", 150, 2, "up"))
    assert house.said == [(106.0, Gone(7, "lost_up", report), None)]
    assert (house.happened, house.told) == ([], []), "nobody needs what would be trained"
    with pytest.raises(ValueError, match="task 7 was not trained"):
        House([(one, False) for one, _ in WAY]).does(Task(7, 4, 3))


@pytest.mark.parametrize("affords", [True, False])
def test_an_upload_is_spent_when_it_begins_whether_or_not_it_arrives(affords: bool) -> None:
    house = House(WAY)
    house.track(affords=affords)
    house.does(Task(7, 4, 3), Task(8, 5, 3))
    again = [("trains", 8, 2, False, None), ("keeps", 2, True, 109.0), ("sends", 2, 2), ("affords", 2, 6)]
    assert house.happened[2:] == [("sends", 2, 2), ("affords", 2, 5), *(again if affords else [])]
    if affords:
        assert house.said.pop()[:2] == (112.0, Update(8, 0.25, 2.0, 0.5, None, False, WHOLE_WAY, 2))
    else:
        assert house.said.pop() == (106.0, Gone(8, "dropped_out", ()), None)
        assert house.said.pop() == (106.0, Spent("client 2 has spent it"), None)
    spent = [] if affords else [Noted(3.0, "budget_spent", detail="client 2 has spent it")]
    report = (*WHOLE_WAY[:4], *spent, *WHOLE_WAY[4:])
    said = [(103.0, Spent("client 2 has spent it"), None)] * (not affords)
    assert house.said == [*said, (106.0, Update(7, 0.25, 2.0, 0.5, None, False, report, 2), DONE.model)]


@pytest.mark.parametrize("tracks", [True, False])
def test_who_has_spent_its_budget_says_so_again_and_does_nothing(tracks: bool) -> None:
    house = House(WAY, spent=True)
    if tracks:
        house.track(affords=True)
    house.does(Task(7, 4, 3))
    why = "client 2 has spent it" if tracks else ""
    assert house.said == [(100.0, Spent(why), None), (100.0, Gone(7, "dropped_out", ()), None)]
    house.does(Judge(5, 1))
    assert house.said[2:] == [(100.0, Scores(5, None, ()), None)]
    assert house.happened == []


def test_in_the_real_world_a_deadline_is_one_of_real_seconds_and_training_begins_in_its_thread() -> None:
    house = House([(one._replace(duration_s=9.0), needed) for one, needed in WAY])
    house.world = None
    house.does(Task(7, 4, 3), speedup=4.0)
    assert house.happened[0] == ("trains", 7, 2, False, 1.5)
    [(now_s, update, _)] = house.said
    assert now_s == 100.0, "nothing is waited for but the training"
    told = [(one.kind, one.after_s) for one in update.report]
    kinds = ["downloaded", "training_started", "trained", "upload_started", "uploaded"]
    assert told == [(kind, 0.0) for kind in kinds]


LOST_UP = UP._replace(transfer=UP.transfer._replace(delivered=False))
SCORING = [ScoringPhase(1.0, DOWN, "scoring down"), ScoringPhase(2.0), ScoringPhase(3.0, UP, "scoring up")]


@pytest.mark.parametrize(
    ("last", "budget", "scores"),
    [(UP, None, (0.5, 0.75)), (LOST_UP, None, None), (UP, True, (0.5, 0.75)), (UP, False, None)],
)
def test_scores_are_given_where_the_answer_arrives_and_the_budget_allows_it(
    last: LinkMessage, budget: bool | None, scores: tuple[float, ...] | None
) -> None:
    house = House([])
    house.scoring = [*SCORING[:2], ScoringPhase(3.0, last, "scoring up")]
    if budget is not None:
        house.track(affords=True, answers=budget)
    house.does(Judge(5, 1, 7, 3, 4, True))
    asked = [("answers", 2, 3)] * (budget is not None)
    if budget is False:
        assert (house.said, house.happened) == ([(100.0, Scores(5, None, ()), None)], asked)
        return
    assert house.happened == [*asked, ("scores", 2, 1, True, 3, 4, "layers of 2")]
    report = (
        Noted(1.0, "sent", 80, detail="down"),
        Noted(4.0, "retransmitted", 50, 2, "scoring up"),
        Noted(5.5, "overheard", detail="scoring up"),
        Noted(6.0, "sent", 150, detail="up"),
    )
    assert house.said == [(106.0, Scores(5, scores, report), None)]


def test_a_request_that_does_not_arrive_is_not_answered() -> None:
    house = House([])
    house.scoring = [ScoringPhase(1.0, DOWN._replace(transfer=DOWN.transfer._replace(delivered=False)), "scoring down")]
    house.does(Judge(5, 1))
    assert house.said == [(101.0, Scores(5, None, (Noted(1.0, "sent", 80, detail="down"),)), None)]
    assert house.happened == []


def test_in_the_real_world_scores_take_as_long_as_they_take() -> None:
    house = House([])
    house.world, house.scoring = None, [ScoringPhase(0.0)]
    house.does(Judge(5, 1))
    assert house.said == [(100.0, Scores(5, (0.5, 0.75), ()), None)]


def test_whose_budget_an_upload_spends_meanwhile_gives_no_scores() -> None:
    house = House([WAY[2]])
    house.scoring = SCORING
    house.track(affords=False)

    async def main() -> None:
        clock = LiveClock(1.0)
        clock.begin(100.0)

        async def say(message: Any, models: Any = None) -> None:
            house.said.append((clock.now, message, models))

        duties = Duties(house.craft(clock), clock, say, house.told.append, spent=False)
        uploads = duties._spend(At(8, 100.0), Assignment(8, 2, 3, MODEL, 5))
        await asyncio.gather(duties.judge(Judge(5, 1), MODEL, house.at), uploads)

    virtual_loop.run(main)
    assert [type(message) for _, message, _ in house.said] == [Spent, Scores]
    assert house.said[1][1].scores is None


@pytest.mark.parametrize("gives_up", [True, False])
def test_a_training_that_fails_is_told_of_or_heard_by_who_runs_the_client(gives_up: bool) -> None:
    def breaks(*_: Any) -> Done:
        raise ValueError("it broke")

    class Failing(House):
        def craft(self, clock: LiveClock) -> Any:
            craft = super().craft(clock)
            craft.workshop.train = breaks
            if gives_up:
                gone = {"ends": Kind.DROPPED_OUT, "fails": Fate.DROPPED_OUT, "detail": "no epoch"}
                craft.measured = lambda phase, training: phase._replace(**gone) if phase.epochs else phase
            return craft

    house = Failing(WAY)
    if gives_up:
        house.does(Task(7, 4, 3))
        report = (*WHOLE_WAY[:2], Noted(3.0, "dropped_out", detail="no epoch"))
        assert house.said == [(103.0, Gone(7, "dropped_out", report), None)]
    else:
        with pytest.raises(ValueError, match="it broke"):
            house.does(Task(7, 4, 3))
    assert ("keeps", 2, True, 103.0) not in house.happened
