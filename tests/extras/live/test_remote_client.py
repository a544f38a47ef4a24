"""The server's half by plain calls: connections, answers, and random clients that answer, lie and vanish."""

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace as replaced

from asyncfl.base.errors import MessageError
from asyncfl.base.message import Message
from asyncfl.extras.live.client_messages import (
    Begin,
    ClientEvent,
    ClientScoreRequest,
    Gone,
    Hello,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
)
from asyncfl.extras.live.clock import LiveTiming
from asyncfl.extras.live.live_executor import Handling
from asyncfl.extras.live.live_federation import LiveFederation
from asyncfl.extras.live.remote_client import RemoteClient
from asyncfl.protocol import Server
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns
from asyncfl.simulation.prepare import prepare, resolve
from tests.extras.live.conftest import SMALL

DESCRIPTION: dict[str, Any] = {
    **SMALL,
    "data": {**SMALL["data"], "clients": 4},
    "protocol": {"kind": "buffered", "rounds": 50, "buffer": 2, "dispatch": {"kind": "continuous"}},
    "world": {"failure_detection": {"kind": "lease", "seconds": 3.0}},
}
SCORED = {"defence": {"detector": {"kind": "safl"}}}
WRONG: tuple[Any, ...] = (
    Update(0, None, 0.0, None, ()),
    Gone(0, Fate.LOST_UP, ()),
    Scores(0, None, ()),
    Spent("all of it"),
    Trace(0, ()),
)


WHOLE: tuple[Any, ...] = (
    (0.25, "downloaded", 24, 1),
    (0.5, "training_started"),
    (1.0, "trained"),
    (1.0, "upload_started", 8),
    (2.0, "uploaded", 8, 1, "up"),
)
"""Events of a task that goes well, in a report."""


class Clock:
    """A clock that a test turns."""

    now, has_begun = 0.0, False


class Link:
    """A connection that keeps what the client was sent."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def send(self, message: Any, models: Any = None) -> None:
        self.heard.append(message)


class Table:
    """A federation of four clients, its clock and its connections."""

    def __init__(self, description: dict[str, Any], *, known: bool = False, shape: bool = False) -> None:
        federation = prepare(resolve(Scenario.read({**DESCRIPTION, **description}), 0, SimulatedRuns()))
        plan = federation.plan.__class__(**{**vars(federation.plan), "all_present": known})
        self.clock: Any = Clock()
        self.n = federation.learner.n_parameters
        self.live = LiveFederation(federation, Server(plan), self.clock, LiveTiming(shape=shape))
        self.links: dict[int, Link] = {}

    def do(self, handling: Handling) -> None:
        """Carry out a handling, and all that waits."""
        steps = self.live.carry_out(handling)
        try:
            work = next(steps)
            while True:
                work = steps.send(work())
        except StopIteration:
            pass
        if self.live.later and self.clock.has_begun:
            self.do(self.live.take_later())

    def connect(
        self, number: int, instance: str = "one", tasks: tuple[int, ...] = (), samples: int = 20, **more: Any
    ) -> RemoteClient:
        link = Link()
        self.live.connect(Hello(number, samples, tasks=tasks, instance=instance, **more), link)
        self.links[number] = link
        self.do(iter(()))
        return self.live.clients[number]

    def hear(self, number: int, message: Any, model: bool = False, value: float = 0.0) -> None:
        models = np.full((int(model), self.n), value, np.float32)
        self.do(self.live.clients[number].receive(message, models, self.clock.now))

    def disconnect(self, number: int) -> None:
        self.live.clients[number].disconnect(self.links.pop(number))
        self.do(iter(()))

    def begin(self) -> None:
        self.clock.has_begun = True
        self.do(self.live.beginning())
        self.do(self.live.starting())

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        due = sorted(
            (alarm for alarm in self.live.alarms if alarm.time_s <= self.clock.now), key=lambda one: one.time_s
        )
        for alarm in due:
            self.live.alarms.remove(alarm)
            self.live.later.append(alarm.handling)
            self.do(iter(()))

    def events(self) -> list[tuple[str, int]]:
        return [(row["kind"], row["client"]) for row in self.live.event_log.table().to_pylist()]


def begun(*numbers: int, shape: bool = False, **description: Any) -> Table:
    table = Table(description, shape=shape)
    for number in numbers:
        table.connect(number)
    table.begin()
    return table


def kinds(messages: list[Message]) -> list[type]:
    return [type(one) for one in messages]


def test_a_client_is_told_that_the_run_begins_then_is_given_a_task() -> None:
    table = begun(0, 1)
    client = table.live.clients[0]
    assert kinds(table.links[0].heard) == [Begin, Task]
    assert client.task is not None
    table.clock.now = 2.0
    report = tuple(ClientEvent(*event) for event in WHOLE)
    table.hear(0, Update(client.task.number, 0.5, 0.0, None, report), model=True)
    assert (Kind.TRAINED, 0) in table.events()
    assert table.live.trained == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Update(1, 0.5, 0.0, None, ()), "task 1 is client 1's, got an answer of 0"),
        (Gone(9, Fate.LOST_UP, ()), "task 9 is not one that client 0 is at"),
        (Gone(0, Fate.AGGREGATED, ()), "a task of a client does not end 'aggregated'"),
        (Update(0, 0.5, 0.0, 3.0, ()), "task 0 has a budget of None, got 3.0"),
        (Update(0, 0.5, 0.0, None, (), 1), "task 0 comes of 1 epochs, and nobody is stopped"),
        (Update(0, 1e308, 0.0, None, ()), "a loss must be at most 3.4e.38 or not finite, got 1e.308"),
        (Update(0, 0.5, 1e308, None, ()), "task 0 asks for noise of 0, got an update with 1e.308"),
        (
            Trace(0, (ClientEvent(0.0, "trained", detail="1 of 3 epochs"),)),
            "a report tells of downloaded, lost, .* got 'trained'",
        ),
    ],
)
def test_answers_that_cannot_be_true_are_refused(answer: Any, why: str) -> None:
    table = begun(0, 1)
    with pytest.raises(MessageError, match=why):
        table.hear(0, answer, isinstance(answer, Update))
    assert table.live.clients[0].task is not None


def test_a_lease_ends_the_task_of_a_client_that_stays_away() -> None:
    table = begun(0, 1)
    client = table.live.clients[0]
    table.disconnect(0)
    assert not client.is_online
    table.wait(2.9)
    assert client.task is not None
    table.wait(0.2)
    assert client.task is None
    assert table.live.server.tasks.fates["timed_out"] == 1


def test_a_client_that_is_back_with_its_task_keeps_it_beyond_the_lease() -> None:
    table = begun(0, 1)
    client = table.live.clients[0]
    assert client.task is not None
    number = client.task.number
    table.disconnect(0)
    table.wait(1.0)
    table.connect(0, tasks=(number, 77))
    table.wait(10.0)
    assert client.task is not None
    assert client.task.number == number
    assert [kind for kind, one in table.events() if one == 0][-2:] == ["went_offline", "came_online"]


def test_a_task_that_a_client_is_given_after_it_came_back_is_not_lost() -> None:
    """It comes back while a buffer is aggregated; the version gives it a task before its return is handled."""
    table = begun(0, 1)
    client = table.live.clients[0]
    assert client.task is not None
    old = client.task.number
    table.live.connect(Hello(0, 20, instance="one"), link := Link())
    for _ in table.live.carry_out(client.receive(Gone(old, Fate.LOST_UP, ()), np.zeros((0, table.n), np.float32), 0.0)):
        raise AssertionError("nothing is aggregated")
    assert client.task.number != old
    given = client.task.number
    table.do(iter(()))
    assert client.task.number == given
    assert [message.task for message in link.heard if isinstance(message, Task)] == [given]


def test_repeated_traces_take_no_memory() -> None:
    table = begun(0, 1)
    client = table.live.clients[0]
    for number in (-1, 99, 0, -1, *range(20)):
        table.hear(0, Trace(number, ()))
    assert client.task is not None
    assert client._traced == [-1, client.task.number]


def test_another_node_of_a_client_begins_anew() -> None:
    table = begun(0, 1)
    client = table.live.clients[0]
    assert client.task is not None
    old = client.task.number
    table.disconnect(0)
    table.connect(0, "two", remembers=True)
    assert client.task is not None
    assert client.task.number != old
    assert table.live.server.tasks.fates["dropped_out"] == 1
    assert table.live.renewed == [], "it goes on with what the one before had kept"
    assert [kind for kind, one in table.events() if one == 0][-5:-2] == ["went_offline", "dropped_out", "came_online"]
    table.disconnect(0)
    table.connect(0, "three")
    assert table.live.renewed == [0]


def test_a_node_whose_budget_is_spent_is_retired_in_the_place_that_it_takes() -> None:
    table = begun(0, 1)
    table.disconnect(0)
    client = table.connect(0, "two", spent="all of it", remembers=True)
    assert client.spent == "all of it"
    assert list(table.live.spent) == [0]


@pytest.mark.parametrize("known", [False, True])
def test_a_client_has_the_same_number_of_samples_for_the_whole_run(known: bool) -> None:
    table = Table({}, known=known)
    with pytest.raises(MessageError, match=r"client must be 0\.\.3, got 4"):
        table.connect(4)
    with pytest.raises(MessageError, match="samples, got 0"):
        table.connect(0, samples=0)
    if known:
        with pytest.raises(MessageError, match="client 0 has 20 samples, got 60"):
            table.connect(0, samples=60)
    assert table.live.clients == {}
    table.connect(0, samples=20)
    for node in ("one", "two"):
        with pytest.raises(MessageError, match="client 0 has 20 samples, got 60"):
            table.connect(0, node, samples=60)


def test_the_end_of_a_replaced_connection_has_no_effect() -> None:
    table = begun(0, 1)
    old, client = table.links[0], table.live.clients[0]
    table.connect(0, tasks=(0, 1))
    client.disconnect(old)
    assert client.is_online


@pytest.mark.parametrize("spent", [False, True])
def test_requests_for_scores_come_at_once_and_are_answered_for_a_spent_client(spent: bool) -> None:
    table = begun(0, 1, 2, 3, **SCORED)
    if spent:
        for number in range(4):
            table.hear(number, Spent("all of it"))
    for number in range(4):
        task = table.live.clients[number].task
        if task is not None:
            table.clock.now += 1.0
            table.hear(number, Update(task.number, 0.5, 0.0, None, ()), model=True)
    asked = [number for number in range(4) if ClientScoreRequest in kinds(table.links[number].heard)]
    assert bool(asked) != spent
    assert ("scores_requested" in dict(table.events())) or spent
    for number in asked:
        sent = next(one for one in table.links[number].heard if isinstance(one, ClientScoreRequest))
        request = table.live.clients[number].request
        assert request is not None
        with pytest.raises(MessageError, match="is for scores of"):
            table.hear(number, Scores(sent.request, np.full(77, 0.5), ()))
        table.hear(number, Scores(sent.request, np.full(len(request.models), 0.5), ()))
        assert table.live.clients[number].request is not request
    assert not asked or table.live.server.version == 1


ANY_NUMBER = st.one_of(st.integers(0, 9), st.just(2**53))
ANY_FLOAT = st.one_of(st.just(0.5), st.floats())
ANY_REPORT = st.one_of(
    st.integers(0, len(WHOLE)).map(lambda length: tuple(ClientEvent(*event) for event in WHOLE[:length])),
    st.lists(
        st.builds(
            ClientEvent,
            st.floats(0, 1e12),
            st.sampled_from(["sent", *(kind.value for kind in Kind)]),
            st.integers(-1, 2**53),
            st.integers(-1, 2**53),
            st.sampled_from(["", "down", "up", "scoring up", "x" * 1000]),
        ),
        max_size=5,
    ).map(tuple),
)
ANY_MESSAGE: st.SearchStrategy[Any] = st.one_of(
    st.builds(Update, ANY_NUMBER, st.none() | ANY_FLOAT, ANY_FLOAT, st.none() | ANY_FLOAT, ANY_REPORT, st.none()),
    st.builds(Gone, ANY_NUMBER, st.sampled_from([Fate.LOST_UP, Fate.DROPPED_OUT, Fate.AGGREGATED]), ANY_REPORT),
    st.builds(Scores, ANY_NUMBER, st.none() | st.lists(ANY_FLOAT, max_size=4).map(np.array), ANY_REPORT),
    st.builds(Trace, st.integers(-1, 9), ANY_REPORT),
)


class AnyClients(RuleBasedStateMachine):
    """Whatever clients say and do, only MessageError comes of it, each task has one fate, and all events
    fit into their table."""

    numbers = st.integers(0, 3)
    node = st.sampled_from(["one", "two"])

    @initialize(scored=st.booleans(), serial=st.booleans(), instant=st.booleans(), shape=st.booleans())
    def start(self, scored: bool, serial: bool, instant: bool, shape: bool) -> None:
        detection = {"kind": "instant"} if instant else {"kind": "lease", "seconds": 3.0}
        protocol = {**DESCRIPTION["protocol"], "scoring": "serial" if serial else "parallel"}
        description = {"world": {"failure_detection": detection}, "protocol": protocol, **(SCORED if scored else {})}
        self.table = begun(0, 1, 2, 3, shape=shape, **description)

    @rule(number=numbers, instance=node, keeps=st.booleans(), spent=st.none() | st.just("all of it"))
    def connects(self, number: int, instance: str, keeps: bool, spent: str | None) -> None:
        client = self.table.live.clients[number]
        tasks = () if client.task is None or not keeps else (client.task.number,)
        self.table.connect(number, instance, tasks, spent=spent)

    @rule(number=numbers, samples=st.integers(0, 99).filter(lambda samples: samples != 20))
    def brings_other_samples(self, number: int, samples: int) -> None:
        with pytest.raises(MessageError):
            self.table.connect(number, samples=samples)

    @rule(number=numbers, message=ANY_MESSAGE, own=st.booleans(), value=st.sampled_from([0.0, 3e38, np.nan]))
    def lies(self, number: int, message: Any, own: bool, value: float) -> None:
        client = self.table.live.clients[number]
        if own and client.task is not None and hasattr(message, "task"):
            message = replaced(message, task=client.task.number)
        if own and client.request is not None and isinstance(message, Scores):
            message = replaced(message, request=client.request.request)
        self.says(number, message, isinstance(message, Update), value)

    @rule(number=numbers, seconds=st.floats(0, 5))
    def disconnects(self, number: int, seconds: float) -> None:
        if number in self.table.links:
            self.table.disconnect(number)
        self.table.wait(seconds)

    @rule(number=numbers, lost=st.booleans())
    def answers(self, number: int, lost: bool) -> None:
        task = self.table.live.clients[number].task
        if task is not None:
            answer = Gone(task.number, Fate.LOST_UP, ()) if lost else Update(task.number, 0.5, 0.0, None, ())
            self.says(number, answer, not lost)

    @rule(number=numbers, none=st.booleans())
    def scores(self, number: int, none: bool) -> None:
        request = self.table.live.clients[number].request
        if request is not None:
            given = None if none else np.full(len(request.models), 0.5)
            self.says(number, Scores(request.request, given, ()))

    @rule(number=numbers, message=st.sampled_from(WRONG), model=st.booleans(), about=st.integers(0, 30))
    def says_anything(self, number: int, message: Any, model: bool, about: int) -> None:
        fields = {one: about for one in ("task", "request") if hasattr(message, one)}
        self.says(number, replaced(message, **fields), model)

    def says(self, number: int, message: Any, model: bool = False, value: float = 0.0) -> None:
        if number in self.table.links:
            was_online = self.table.live.clients[number].is_online
            try:
                self.table.hear(number, message, model, value)
            except MessageError:
                assert self.table.live.clients[number].is_online == was_online
                self.table.do(iter(()))

    @precondition(lambda self: hasattr(self, "table"))
    @invariant()
    def is_sound(self) -> None:
        live = self.table.live
        live.server.tasks.check()
        for client in live.clients.values():
            assert client.link is not None or not client.is_online
            assert (client.number in self.table.links) == (client.link is not None)

    def teardown(self) -> None:
        if hasattr(self, "table"):
            stopped = self.table.live.stopped
            assert stopped is None or stopped.startswith(("diverged", "every client", "all versions")), stopped
            self.table.do(self.table.live.stopping("seen"))
            live, seen = self.table.live, self.table.events()
            assert sum(live.server.tasks.fates.values()) == sum(kind == "dispatched" for kind, _ in seen)


AnyClients.TestCase.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)
TestAnyClients = AnyClients.TestCase
