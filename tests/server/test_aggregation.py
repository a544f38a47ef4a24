"""Aggregation of a buffer: malformed updates, scores, verdicts, strikes and bans."""

from typing import Any

import numpy as np
import pytest

from asyncfl.base.errors import MessageError
from asyncfl.base.messages import (
    Ban,
    ClientIdle,
    Collect,
    Collected,
    Dispatch,
    Fate,
    Judged,
    Publish,
    RequestScores,
    ScoresArrived,
    SetTimer,
    Settle,
    Stop,
    TimerFired,
    UpdateArrived,
)
from asyncfl.base.streams import Streams
from asyncfl.defences import Buffer, DefenceContext, Detector, ScoreRequest, Strikes, Verdict, accept_all
from asyncfl.server import Buffered, DefencePlan, FedAsync, Protocol, Server, ServerPhase, ServerPlan, Sync
from asyncfl.server.dispatch import ConstantDispatch


class Above(Detector):
    """Flags and strikes models above a threshold."""

    kind: str = "above"
    threshold: float = 10.0

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> tuple[Verdict, Any]:
        bad = buffer.models[:, 0] > self.threshold
        return Verdict(bad, bad, details=tuple("too high" if b else "" for b in bad), notes={"highest": 1.0}), state


class Asking(Detector):
    """Asks the sender of each row in turn, at most twice, and flags updates of score 0."""

    kind: str = "asking"

    def request(self, state: Any, buffer: Buffer, tried: tuple[int, ...]) -> tuple[ScoreRequest | None, Any]:
        if len(tried) == 2:
            return None, state
        return ScoreRequest(int(buffer.clients[len(tried)]), buffer.models), state

    def judge(self, state: Any, buffer: Buffer, scores: Any) -> tuple[Verdict, Any]:
        if scores is None:
            return accept_all(buffer), state
        return Verdict(scores == 0, scores == 0), state


CONTEXT = DefenceContext(4, np.full(4, 10), 1, 0.1, None, np.ones(4, np.int64))


def server(protocol: Protocol, detector: Detector | None, strikes: Strikes | None = None, **plan: Any) -> Server:
    defence = DefencePlan(detector=detector, strikes=strikes, context=CONTEXT)
    zero = np.zeros(1, np.float32)
    return Server(ServerPlan(protocol, np.full(4, 10), zero, Streams(1), defence=defence, **plan))


def kinds(actions: list[Any], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def arrive(machine: Server, *tasks: int) -> list[Any]:
    actions: list[Any] = []
    for task in tasks:
        actions = machine.handle(UpdateArrived(1.0, task))
    return actions


def hand_over(machine: Server, actions: list[Any], *values: float, **fields: Any) -> list[Any]:
    (collect,) = kinds(actions, Collect)
    models = np.array(values, np.float32)[:, None]
    return machine.handle(Collected(1.0, collect.tasks, models, np.zeros(len(values)), **fields))


def test_flagged_updates_are_left_out_and_the_verdict_is_recorded() -> None:
    machine = server(Sync(rounds=2, participants=3), Above())
    clients = [a.client for a in kinds(machine.start(), Dispatch)]
    asked = arrive(machine, 0, 1, 2)
    first, second, third = kinds(asked, Collect)[0].tasks
    actions = hand_over(machine, asked, 1.0, 50.0, 3.0)
    assert [(s.task, s.fate, s.detail) for s in kinds(actions, Settle)] == [
        (second, Fate.FLAGGED, "too high"),
        (first, Fate.AGGREGATED, ""),
        (third, Fate.AGGREGATED, ""),
    ]
    assert kinds(actions, Judged) == [
        Judged(0, tuple(sorted(clients)), (False, True, False), (), (("highest", 1.0),), (first, second, third))
    ]
    (publish,) = kinds(actions, Publish)
    assert publish.model == pytest.approx([2.0])
    assert publish.participants == 2


def test_strikes_ban_a_client_and_settle_its_tasks() -> None:
    protocol = Buffered(rounds=9, buffer=1, dispatch=ConstantDispatch(in_flight=4))
    machine = server(protocol, Above(), Strikes(threshold=1))
    flying = {a.task: a.client for a in kinds(machine.start(), Dispatch)}
    actions = hand_over(machine, arrive(machine, 0), 50.0)
    assert kinds(actions, Ban) == [Ban(flying[0])]
    assert flying[0] not in {a.client for a in kinds(actions, Dispatch)}
    assert machine.handle(ClientIdle(2.0, flying[0])) == []
    assert not machine.population.is_idle(flying[0])


def test_a_banned_clients_queued_and_flying_updates_end_as_banned() -> None:
    protocol = Buffered(rounds=9, buffer=2, dispatch=ConstantDispatch(in_flight=4))
    machine = server(protocol, Asking(), Strikes(threshold=1))
    flying = {a.task: a.client for a in kinds(machine.start(), Dispatch)}
    actions = hand_over(machine, arrive(machine, 0, 1), 1.0, 2.0)
    (request,) = kinds(actions, RequestScores)
    # The client of task 0 has been given another task since, and delivers it while the scores are on their way.
    again = next(t for t in machine.tasks.open.values() if t.client == flying[0] and t.number > 1)
    arrive(machine, again.number)
    actions = machine.handle(ScoresArrived(3.0, request.request, np.array([0.0, 1.0])))
    assert Settle(again.number, Fate.BANNED) in actions
    assert Ban(flying[0]) in actions
    machine.stop("the test is over")
    machine.tasks.check()


def test_scores_are_asked_for_and_waited_for_while_arrivals_queue() -> None:
    protocol = Buffered(rounds=9, buffer=2, dispatch=ConstantDispatch(in_flight=4))
    machine = server(protocol, Asking())
    flying = {a.task: a.client for a in kinds(machine.start(), Dispatch)}
    actions = hand_over(machine, arrive(machine, 0, 1), 1.0, 2.0)
    (request,) = kinds(actions, RequestScores)
    assert (request.client, machine.phase) == (flying[0], ServerPhase.SCORING)
    assert kinds(arrive(machine, 2, 3), Collect) == []
    actions = machine.handle(ScoresArrived(3.0, request.request, np.array([1.0, 0.0])))
    assert [s.fate for s in kinds(actions, Settle)] == [Fate.FLAGGED, Fate.AGGREGATED]
    assert kinds(actions, Collect) == [Collect((2, 3))]


def test_an_evaluator_that_does_not_answer_is_replaced_and_a_late_answer_is_refused() -> None:
    machine = server(Sync(rounds=1, participants=3), Asking())
    clients = [a.client for a in kinds(machine.start(), Dispatch)]
    (first,) = kinds(hand_over(machine, arrive(machine, 0, 1, 2), 1.0, 2.0, 3.0), RequestScores)
    (second,) = kinds(machine.handle(ScoresArrived(2.0, first.request, None)), RequestScores)
    assert [first.client, second.client] == sorted(clients)[:2]
    with pytest.raises(MessageError, match="answered already"):
        machine.handle(ScoresArrived(2.5, first.request, np.zeros(3)))
    actions = machine.handle(ScoresArrived(3.0, second.request, None))
    assert kinds(actions, Publish)[0].model == pytest.approx([2.0])


def test_a_buffer_of_one_attacker_alone_is_discarded_and_the_next_serves_the_same_version() -> None:
    machine = server(FedAsync(rounds=2, in_flight=2), None)
    machine.start()
    actions = hand_over(machine, arrive(machine, 0), np.nan)
    assert [(s.task, s.fate) for s in kinds(actions, Settle)] == [(0, Fate.REJECTED)]
    assert kinds(actions, Stop) == kinds(actions, Publish) == []
    assert [d.version for d in kinds(actions, Dispatch)] == [0]
    (publish,) = kinds(hand_over(machine, arrive(machine, 1), 1.0), Publish)
    assert publish.version == 1


def test_another_cohort_is_drawn_if_no_update_of_the_first_was_sound() -> None:
    machine = server(Sync(rounds=1, participants=2), None)
    machine.start()
    actions = hand_over(machine, arrive(machine, 0, 1), np.nan, np.nan)
    assert kinds(actions, SetTimer) == [SetTimer("cohort", 0.0)]
    assert len(kinds(machine.handle(TimerFired(1.0, "cohort")), Dispatch)) == 2
    (publish,) = kinds(hand_over(machine, arrive(machine, 2, 3), np.nan, 4.0), Publish)
    assert publish.model == pytest.approx([4.0])


def test_malformed_updates_are_rejected_and_struck() -> None:
    machine = server(Sync(rounds=2, participants=3), None, Strikes(threshold=1))
    clients = [a.client for a in kinds(machine.start(), Dispatch)]
    sound = np.array([True, False, True])
    asked = arrive(machine, 0, 1, 2)
    first, second, third = kinds(asked, Collect)[0].tasks
    actions = hand_over(machine, asked, 1.0, 2.0, np.nan, sound=sound)
    assert [(s.task, s.fate) for s in kinds(actions, Settle)] == [
        (second, Fate.REJECTED),
        (third, Fate.REJECTED),
        (first, Fate.AGGREGATED),
    ]
    assert {ban.client for ban in kinds(actions, Ban)} == set(sorted(clients)[1:])


def test_a_ban_for_a_malformed_update_takes_the_clients_other_update_out_of_the_buffer() -> None:
    protocol = Buffered(rounds=9, buffer=3, dispatch=ConstantDispatch(in_flight=4))
    machine = server(protocol, None, Strikes(threshold=1))
    flying = {a.task: a.client for a in kinds(machine.start(), Dispatch)}
    (again,) = kinds(arrive(machine, 0), Dispatch)
    assert again.client == flying[0], "all other clients are busy"
    arrive(machine, again.task)
    actions = hand_over(machine, arrive(machine, 1), 5.0, np.nan, 3.0)
    assert [(s.task, s.fate) for s in kinds(actions, Settle)] == [
        (again.task, Fate.REJECTED),
        (again.task + 1, Fate.BANNED),
        (0, Fate.BANNED),
        (1, Fate.AGGREGATED),
    ]
    assert kinds(actions, Ban) == [Ban(flying[0])]
    (publish,) = kinds(actions, Publish)
    assert publish.model == pytest.approx([3.0])
    assert publish.participants == 1


def test_judging_takes_server_time_only_with_a_detector() -> None:
    for detector, seconds in ((Above(), 3.0), (None, 2.0)):
        machine = server(Sync(rounds=2, participants=1), detector, aggregate_s=2.0, score_s=1.0)
        machine.start()
        actions = hand_over(machine, arrive(machine, 0), 1.0)
        assert kinds(actions, SetTimer) == [SetTimer("aggregated", seconds)]


def test_a_run_ends_when_every_client_is_banned() -> None:
    machine = server(Sync(rounds=5), Above(), Strikes(threshold=1))
    machine.start()
    actions = hand_over(machine, arrive(machine, 0, 1, 2, 3), 50.0, 50.0, 50.0, 50.0)
    assert kinds(actions, Stop) == [Stop("every client is banned")]
    machine.tasks.check()


def test_a_rehearsal_of_nothing_sound_strikes_all_and_moves_nothing() -> None:
    machine = server(Buffered(rounds=2, buffer=2, dispatch=ConstantDispatch(in_flight=2)), Above())
    machine.start()
    arrive(machine, 0, 1)
    broken = np.array([[np.nan], [np.inf]], np.float32)
    struck, model = machine.rehearse(broken, np.zeros(2), None, lambda client, models: np.ones(len(models)))
    assert struck.tolist() == [True, True]
    assert model.tolist() == [0.0]
    half_struck, half_model = machine.rehearse(
        np.array([[np.nan], [3.0]], np.float32), np.zeros(2), None, lambda client, models: models[0]
    )
    assert (half_struck.tolist(), half_model.tolist()) == ([True, False], [3.0])
