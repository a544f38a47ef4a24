"""The server's half of a live federation, asked piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.federation.prepare import prepare
from asyncfl.federation.resolve import resolve
from asyncfl.live.host import Host
from asyncfl.live.members import Member, Members
from asyncfl.live.terms import Terms
from asyncfl.live.vocabulary import Begin, Over, Task
from asyncfl.messages import ClientGone, Dispatch, SetTimer
from asyncfl.scenario import Scenario
from asyncfl.server import Server
from asyncfl.simulation import SimulatedRuns
from tests.live import virtual_loop
from tests.live.conftest import SMALL


def hosted(scene: Callable[[Host, list[Any]], Awaitable[None]], **terms: Any) -> None:
    """A host of six clients, of whom 0, 1 and 2 are there and ready; `said` is what it says to whom."""

    async def main() -> None:
        federation = prepare(resolve(Scenario.read(SMALL), 0, SimulatedRuns()))
        members, said = Members(6, {}, federation.learner.n_parameters), list[Any]()
        for number in range(3):
            connection: Any = object()
            member = Member(number, str(number), 20, ready=True, online=True, connection=connection)
            member.say = lambda message, models=None, who=number: said.append((who, message, models))  # type: ignore[method-assign, misc]
            members.by_number[number] = member
        with ThreadPoolExecutor(1) as executor:
            await scene(Host(federation, Server(federation.plan), members, executor, Terms(**terms)), said)

    virtual_loop.run(main)


def kinds(host: Host) -> list[tuple[str, int]]:
    host.event_log.flush(1e9)
    rows = host.event_log.recorder.table().to_pylist()
    return [(row["kind"], row["client"]) for row in rows]


def test_at_first_nothing_has_happened_and_those_who_wait_are_counted() -> None:
    async def scene(host: Host, said: list[Any]) -> None:
        assert (host.trained, host.spent, host.in_flight, host.stopped) == (0, {}, 0, None)
        assert (host.serial, host._waiting, host.over.is_set()) == (False, 3, False)
        host.members.by_number[1].connection = None
        assert host._waiting == 2
        anything: Any = object()
        for number in (0, 2):
            host.members.by_number[number].task = anything
        assert host.in_flight == 2
        host.clock.begin(40.0)
        assert host._nothing_before() == 40.0
        host.members.by_number[0].at_s = 12.0
        host.members.by_number[2].at_s = 0.0
        assert host._nothing_before() == 0.0

    hosted(scene)


@pytest.mark.parametrize("shape", [False, True])
def test_who_cannot_be_reached_is_gone_and_others_are_sent_their_task(shape: bool) -> None:
    async def scene(host: Host, said: list[Any]) -> None:
        host.server.start(0.0)
        host.clock.begin(7.0)
        host.event_log.version = 0
        host.members.by_number[1].online = False
        assert host._dispatch(Dispatch(0, 5, 0)) == ClientGone(7.0, 5, 0, None)
        assert host._dispatch(Dispatch(1, 1, 0)) == ClientGone(7.0, 1, 1, None)
        assert host.members.by_number[1].missed
        assert host._dispatch(Dispatch(2, 2, 0)) is None
        member = host.members.by_number[2]
        assert member.task is not None
        assert (member.task.number, member.sent_s, member.at_s, said) == (2, 7.0, 7.0, [])
        for start in host._starts:
            start()
        [(who, task, model)] = said
        assert (who, task) == (2, Task(2, 0, 0, False))
        np.testing.assert_array_equal(model, host.server.tasks.download(0))
        assert kinds(host) == [("went_offline", 5), ("went_offline", 1), ("dispatched", 2), ("download_started", 2)]
        assert host.traffic.bytes_down == (0 if shape else host.load.download_bytes)

    hosted(scene, shape=shape)


def test_timers_are_heard_while_the_run_goes_on_and_who_waits_for_a_task_asks_once() -> None:
    async def scene(host: Host, said: list[Any]) -> None:
        heard: list[Any] = []
        server: Any = SimpleNamespace(
            handle=lambda message: heard.append(message) or ["answer"],
            validator=SimpleNamespace(tasks_of=lambda client: [7] if client == 1 else []),
        )
        host.server = server
        host.clock.begin(1.0)
        host.event_log.version = 0
        host._set_timer(SetTimer("deadline", 3.0))
        assert (len(host._timers), host._urgent) == (1, [])
        await asyncio.sleep(3.0)
        assert host._timers == set()
        [fires] = host._urgent
        assert fires() == ["answer"]
        assert [host.idle(host.members.by_number[number]) for number in (0, 1)] == [["answer"], []]
        assert [type(one).__name__ for one in heard] == ["TimerFired", "ClientIdle"]
        assert [one.time_s for one in heard] == [4.0, 4.0]
        host.stopped = "over"
        assert fires() == []
        assert host.idle(host.members.by_number[0]) == []
        assert (kinds(host), len(heard)) == ([("timer_fired", -1)], 2)

    hosted(scene)


def test_whose_budget_is_spent_from_the_start_is_no_client_and_when_all_is_over_everybody_hears_why() -> None:
    async def scene(host: Host, said: list[Any]) -> None:
        for number in range(3):
            host.members.by_number[number].spent = "all of it"
        leases: list[str] = []
        lease: Any = SimpleNamespace(cancel=lambda: leases.append("cancelled"))
        host.members.by_number[2].lease = lease

        async def ends() -> None:
            while not host.spent:
                await asyncio.sleep(0.01)
            host.end("enough " * 200)

        ending = asyncio.ensure_future(ends())
        assert await host.run(3) == "enough " * 200
        await ending
        assert host.spent == {0: 0.0, 1: 0.0, 2: 0.0}
        begun = [(who, message) for who, message, _ in said[:3]]
        assert begun == [(number, Begin()) for number in range(3)]
        assert [(who, message) for who, message, _ in said[-3:]] == [
            (number, Over(("enough " * 200)[:1000])) for number in range(3)
        ]
        assert (leases, host.over.is_set()) == (["cancelled"], True)
        assert [kind for kind, _ in kinds(host)].count("budget_spent") == 3

    hosted(scene)
