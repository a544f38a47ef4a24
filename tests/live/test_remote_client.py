"""The server's half without sockets: admission, plain calls, and random clients that answer, lie, vanish and leave."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace as replaced

from asyncfl.base.errors import MessageError
from asyncfl.federation.prepare import prepare, resolve
from asyncfl.live.clock import Terms
from asyncfl.live.live_federation import ClientRegistry, LiveFederation, RefusedError
from asyncfl.live.remote_client import ALLOWED, ClientState, RemoteClient
from asyncfl.live.run_context import Handling
from asyncfl.live.wire import (
    Gone,
    Heard,
    Hello,
    Judge,
    Leaving,
    Message,
    Noted,
    Ready,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
    Welcome,
    WireError,
)
from asyncfl.scenario import Scenario
from asyncfl.server import Server
from asyncfl.simulation import SimulatedRuns
from asyncfl.trace import Kind
from tests.live.conftest import SMALL

DESCRIPTION: dict[str, Any] = {
    **SMALL,
    "data": {**SMALL["data"], "clients": 4},
    "protocol": {"kind": "buffered", "rounds": 50, "buffer": 2, "dispatch": {"kind": "continuous"}},
    "world": {"failure_detection": {"kind": "lease", "seconds": 3.0}},
}
SCORED = {"defence": {"detector": {"kind": "safl"}}}
WRONG: tuple[Any, ...] = (
    Ready(True, None),
    Update(0, None, 0.0, None, ()),
    Gone(0, "lost_up", ()),
    Scores(0, None, ()),
    Spent("all of it"),
    Trace(0, ()),
    Hello("0", "t0", 20),
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

    peer = "here"

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.ended = ""

    def write(self, message: Any, models: Any = None) -> None:
        self.heard.append(message)

    def end(self, reason: str) -> None:
        self.ended = reason


class Table:
    """A federation of four clients, its clock and its connections."""

    def __init__(self, description: dict[str, Any], *, known: bool = False, shape: bool = False) -> None:
        federation = prepare(resolve(Scenario.read({**DESCRIPTION, **description}), 0, SimulatedRuns()))
        plan = federation.plan.__class__(**{**vars(federation.plan), "all_present": known})
        self.clock: Any = Clock()
        self.n = federation.learner.n_parameters
        tokens = {str(number): f"t{number}" for number in range(4)}
        self.live = LiveFederation(federation, Server(plan), self.clock, Terms(shape=shape), tokens)
        self.links: dict[str, Link] = {}

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

    def connect(self, name: str, instance: str = "one", tasks: tuple[int, ...] = (), samples: int = 20) -> RemoteClient:
        link, hello = Link(), Hello(name, f"t{name}", samples, tasks, instance=instance)
        self.live.clients.authenticate(hello)
        client = self.live.connect(hello, link)
        self.links[name] = link
        self.do(iter(()))
        return client

    def hear(self, name: str, message: Any, model: bool = False, value: float = 0.0) -> None:
        models = np.full((int(model), self.n), value, np.float32)
        self.do(self.live.clients.by_name[name].receive(message, models, self.clock.now))

    def disconnect(self, name: str) -> None:
        self.live.clients.by_name[name].disconnect(self.links.pop(name))
        self.do(iter(()))

    def begin(self) -> None:
        self.clock.has_begun = True
        self.do(self.live.beginning())
        self.do(self.live.starting())

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        due = sorted((time_s, alarm) for alarm, (time_s, *_) in self.live.alarms.items() if time_s <= self.clock.now)
        for _, alarm in due:
            self.live.ring(alarm)
            self.do(iter(()))

    def events(self) -> list[tuple[str, int]]:
        return [(row["kind"], row["client"]) for row in self.live.event_log.table().to_pylist()]


def begun(*names: str, shape: bool = False, **description: Any) -> Table:
    table = Table(description, shape=shape)
    for name in names:
        table.connect(name)
        table.hear(name, Ready(True, None))
    table.begin()
    return table


def kinds(messages: list[Message]) -> list[type]:
    return [type(one) for one in messages]


@pytest.mark.parametrize("state", list(ClientState))
def test_messages_that_a_state_does_not_allow_are_refused(state: ClientState) -> None:
    table = begun("0", "1")
    client = table.live.clients.by_name["0"]
    client.state = state
    for message in (one for one in WRONG if not isinstance(one, ALLOWED[state])):
        with pytest.raises(WireError, match=f"a client does not say {type(message).__name__} here"):
            table.hear("0", message)
    assert client.state is state


def test_a_client_is_welcomed_then_begins_then_is_given_a_task() -> None:
    table = begun("0", "1")
    client = table.live.clients.by_name["0"]
    assert kinds(table.links["0"].heard)[0] is Welcome
    assert kinds(table.links["0"].heard)[2] is Task
    assert client.task is not None
    table.clock.now = 2.0
    report = tuple(Noted(*event) for event in WHOLE)
    table.hear("0", Update(client.task.number, 0.5, 0.0, None, report), model=True)
    assert (Kind.TRAINED, 0) in table.events()
    assert table.live.trained == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Update(1, 0.5, 0.0, None, ()), "task 1 is client 1's, got an answer of 0"),
        (Gone(9, "lost_up", ()), "task 9 is not one that client 0 is at"),
        (Gone(0, "aggregated", ()), "a task of a client does not end 'aggregated'"),
        (Update(0, 0.5, 0.0, 3.0, ()), "task 0 has a budget of None, got 3.0"),
        (Update(0, 0.5, 0.0, None, (), 1), "task 0 comes of 1 epochs, and nobody is stopped"),
        (Update(0, 1e308, 0.0, None, ()), "a loss must be at most 3.4e.38 or not finite, got 1e.308"),
        (Update(0, 0.5, 1e308, None, ()), "task 0 asks for noise of 0, got an update with 1e.308"),
        (
            Trace(0, (Noted(0.0, "trained", detail="1 of 3 epochs"),)),
            "a report tells of downloaded, lost, .* got 'trained'",
        ),
    ],
)
def test_answers_that_cannot_be_true_are_refused(answer: Any, why: str) -> None:
    table = begun("0", "1")
    with pytest.raises((MessageError, WireError), match=why):
        table.hear("0", answer, isinstance(answer, Update))
    assert table.live.clients.by_name["0"].task is not None


def test_a_lease_ends_the_task_of_a_client_that_stays_away() -> None:
    table = begun("0", "1")
    client = table.live.clients.by_name["0"]
    table.disconnect("0")
    assert client.state is ClientState.AWAY
    table.wait(2.9)
    assert client.task is not None
    table.wait(0.2)
    assert client.task is None
    assert table.live.server.tasks.fates["timed_out"] == 1


def test_a_client_that_is_back_with_its_task_keeps_it_beyond_the_lease() -> None:
    table = begun("0", "1")
    client = table.live.clients.by_name["0"]
    assert client.task is not None
    number = client.task.number
    table.disconnect("0")
    table.wait(1.0)
    table.connect("0", tasks=(number, 77))
    assert table.links["0"].heard[0].gone == (77,)
    table.wait(10.0)
    assert client.task is not None
    assert client.task.number == number
    assert [kind for kind, one in table.events() if one == 0][-2:] == ["went_offline", "came_online"]


def test_a_task_that_a_client_is_given_after_it_came_back_is_not_lost() -> None:
    """It comes back while a buffer is aggregated; the version gives it a task before its return is handled."""
    table = begun("0", "1")
    client = table.live.clients.by_name["0"]
    assert client.task is not None
    old = client.task.number
    table.live.connect(Hello("0", "t0", 20, (), instance="one"), link := Link())
    for _ in table.live.carry_out(client.receive(Gone(old, "lost_up", ()), np.zeros((0, table.n), np.float32), 0.0)):
        raise AssertionError("nothing is aggregated")
    assert client.task.number != old
    given = client.task.number
    table.do(iter(()))
    assert client.task.number == given
    assert [message.task for message in link.heard if isinstance(message, Task)] == [given]


def test_repeated_traces_take_no_memory() -> None:
    table = begun("0", "1")
    client = table.live.clients.by_name["0"]
    for number in (-1, 99, 0, -1, *range(20)):
        table.hear("0", Trace(number, ()))
    assert client.task is not None
    assert client._traced == [-1, client.task.number]


def test_another_process_of_a_client_begins_anew() -> None:
    table = begun("0", "1")
    client = table.live.clients.by_name["0"]
    table.disconnect("0")
    table.connect("0", "two")
    assert (client.state, client.task) == (ClientState.JOINING, None)
    assert table.live.server.tasks.fates["dropped_out"] == 1
    table.hear("0", Ready(True, None, remembers=True))
    assert client.task is not None
    assert table.live.clients.renewed == [], "it goes on with what the one before had kept"
    table.disconnect("0")
    table.connect("0", "three")
    table.hear("0", Ready(True, None))
    assert table.live.clients.renewed == [0]


def test_a_client_that_left_may_come_back_with_the_samples_it_was_enrolled_with() -> None:
    table = begun("0", "1")
    table.hear("0", Leaving())
    table.disconnect("0")
    assert not table.live.server.validator.takes_part(0)
    assert table.live.server.tasks.fates["dropped_out"] == 1
    with pytest.raises(RefusedError, match="client '0' was enrolled with 20 samples, got 60"):
        table.connect("0", "two", samples=60)
    client = table.connect("0", "two")
    table.hear("0", Ready(True, None))
    assert client.task is not None
    assert table.live.server.samples[0] == 20
    assert [kind for kind, one in table.events() if one == 0][-5:-2] == ["went_offline", "dropped_out", "came_online"]


def test_a_new_connection_of_a_process_replaces_the_old_one() -> None:
    table = begun("0", "1")
    old, client = table.links["0"], table.live.clients.by_name["0"]
    table.connect("0", tasks=(0, 1))
    assert old.ended == "the client is back"
    client.disconnect(old)
    assert client.state is ClientState.READY


@pytest.mark.parametrize("spent", [False, True])
def test_requests_for_scores_come_at_once_and_are_answered_for_a_spent_client(spent: bool) -> None:
    table = begun("0", "1", "2", "3", **SCORED)
    if spent:
        for name in "0123":
            table.hear(name, Spent("all of it"))
    for name in "0123":
        task = table.live.clients.by_name[name].task
        if task is not None:
            table.clock.now += 1.0
            table.hear(name, Update(task.number, 0.5, 0.0, None, ()), model=True)
    asked = [name for name in "0123" if Judge in kinds(table.links[name].heard)]
    assert bool(asked) != spent
    assert ("scores_requested" in dict(table.events())) or spent
    for name in asked:
        judge = next(one for one in table.links[name].heard if isinstance(one, Judge))
        request = table.live.clients.by_name[name].request
        assert request is not None
        with pytest.raises(MessageError, match="is for scores of"):
            table.hear(name, Scores(judge.request, (0.5,) * 77, ()))
        table.hear(name, Scores(judge.request, (0.5,) * len(request.models), ()))
        assert table.live.clients.by_name[name].request is not request
    assert not asked or table.live.server.version == 1


ANY_NUMBER = st.one_of(st.integers(0, 9), st.just(2**53))
ANY_FLOAT = st.one_of(st.just(0.5), st.floats())
ANY_REPORT = st.one_of(
    st.integers(0, len(WHOLE)).map(lambda length: tuple(Noted(*event) for event in WHOLE[:length])),
    st.lists(
        st.builds(
            Noted,
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
    st.builds(Gone, ANY_NUMBER, st.sampled_from(["lost_up", "dropped_out", "aggregated"]), ANY_REPORT),
    st.builds(Scores, ANY_NUMBER, st.none() | st.lists(ANY_FLOAT, max_size=4).map(tuple), ANY_REPORT),
    st.builds(Trace, st.integers(-1, 9), ANY_REPORT),
)


class AnyClients(RuleBasedStateMachine):
    """Whatever clients say and do, only WireError and MessageError come of it, each task has one fate, and all events
    fit into their table."""

    names = st.sampled_from("0123")
    process = st.sampled_from(["one", "two"])

    @initialize(scored=st.booleans(), serial=st.booleans(), instant=st.booleans(), shape=st.booleans())
    def start(self, scored: bool, serial: bool, instant: bool, shape: bool) -> None:
        detection = {"kind": "instant"} if instant else {"kind": "lease", "seconds": 3.0}
        protocol = {**DESCRIPTION["protocol"], "scoring": "serial" if serial else "parallel"}
        description = {"world": {"failure_detection": detection}, "protocol": protocol, **(SCORED if scored else {})}
        self.table = begun("0", "1", shape=shape, **description)

    @rule(name=names, instance=process, keeps=st.booleans())
    def connects(self, name: str, instance: str, keeps: bool) -> None:
        client = self.table.live.clients.by_name.get(name)
        if client is None or client.link is None or client.instance == instance:
            tasks = () if client is None or client.task is None or not keeps else (client.task.number,)
            try:
                self.table.connect(name, instance, tasks)
            except RefusedError:
                assert client is not None
                assert client.conduct.banned

    @rule(name=names, samples=st.integers(1, 99))
    def brings_other_samples(self, name: str, samples: int) -> None:
        client = self.table.live.clients.by_name.get(name)
        if client is not None and client.samples != samples:
            with pytest.raises(RefusedError):
                self.table.live.connect(Hello(name, f"t{name}", samples, instance="one"), Link())
            self.table.do(iter(()))

    @rule(name=names, message=ANY_MESSAGE, own=st.booleans(), value=st.sampled_from([0.0, 3e38, np.nan]))
    def lies(self, name: str, message: Any, own: bool, value: float) -> None:
        client = self.table.live.clients.by_name.get(name)
        if client is not None and own and client.task is not None and hasattr(message, "task"):
            message = replaced(message, task=client.task.number)
        if client is not None and own and client.request is not None and isinstance(message, Scores):
            message = replaced(message, request=client.request.request)
        self.says(name, message, isinstance(message, Update), value)

    @rule(name=names)
    def disconnects(self, name: str) -> None:
        if name in self.table.links:
            self.table.disconnect(name)

    @rule(name=names, online=st.booleans(), seconds=st.floats(0, 5))
    def is_ready(self, name: str, online: bool, seconds: float) -> None:
        self.says(name, Ready(online, None))
        self.table.wait(seconds)

    @rule(name=names, lost=st.booleans())
    def answers(self, name: str, lost: bool) -> None:
        client = self.table.live.clients.by_name.get(name)
        if client is not None and client.task is not None:
            number = client.task.number
            self.says(name, Gone(number, "lost_up", ()) if lost else Update(number, 0.5, 0.0, None, ()), not lost)

    @rule(name=names, none=st.booleans())
    def scores(self, name: str, none: bool) -> None:
        client = self.table.live.clients.by_name.get(name)
        if client is not None and client.request is not None:
            given = None if none else (0.5,) * len(client.request.models)
            self.says(name, Scores(client.request.request, given, ()))

    @rule(name=names, message=st.sampled_from([*WRONG, Leaving()]), model=st.booleans(), number=st.integers(0, 30))
    def says_anything(self, name: str, message: Any, model: bool, number: int) -> None:
        fields = {"task": number, "request": number}
        changed = {one: value for one, value in fields.items() if hasattr(message, one)}
        self.says(
            name, type(message)(**{**{f: getattr(message, f) for f in message.__struct_fields__}, **changed}), model
        )

    def says(self, name: str, message: Any, model: bool = False, value: float = 0.0) -> None:
        if name in self.table.links:
            client = self.table.live.clients.by_name[name]
            state, allowed = client.state, isinstance(message, ALLOWED[client.state])
            try:
                self.table.hear(name, message, model, value)
                assert allowed
            except (WireError, MessageError):
                assert not allowed or client.state is state or client.conduct.banned
                self.table.do(iter(()))

    @precondition(lambda self: hasattr(self, "table"))
    @invariant()
    def is_sound(self) -> None:
        live = self.table.live
        live.server.tasks.check()
        for client in live.clients.by_number.values():
            assert client.link is not None or client.state is not ClientState.READY
            assert client.task is None or client.is_prepared
            assert (client.name in self.table.links) == (client.link is not None)

    def teardown(self) -> None:
        if hasattr(self, "table"):
            stopped = self.table.live.stopped
            assert stopped is None or stopped.startswith(("diverged", "every client", "all versions")), stopped
            self.table.do(self.table.live.stopping("seen"))
            live, seen = self.table.live, self.table.events()
            assert sum(live.server.tasks.fates.values()) == sum(kind == "dispatched" for kind, _ in seen)


AnyClients.TestCase.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)
TestAnyClients = AnyClients.TestCase


TOKENS = {"ann": "a", "bob": "b", "2": "two", "0": "zero", "eve": "e", "7": "seven"}


def hello(name: str, *, token: str | None = None, samples: int = 9, of: str = "one") -> Hello:
    return Hello(name, TOKENS.get(name, "?") if token is None else token, samples, instance=of)


def registry(clients: int = 3) -> ClientRegistry:
    context: Any = SimpleNamespace(clock=Clock())
    return ClientRegistry(context, TOKENS, clients, 5, 50)


def test_a_name_that_is_a_free_number_is_the_clients_number_and_others_are_numbered_in_turn() -> None:
    clients = registry(4)
    assert [clients.admit(hello(name)).number for name in ("ann", "2", "0", "7")] == [0, 2, 1, 3]
    assert sorted(clients.by_number) == [0, 1, 2, 3]
    assert {name: client.number for name, client in clients.by_name.items()} == {"ann": 0, "2": 2, "0": 1, "7": 3}
    with pytest.raises(RefusedError, match="all 4 clients of the federation are there already"):
        clients.admit(hello("bob"))
    few = registry(2)
    assert few.admit(hello("2")).number == 0, "there is no number 2 of two clients"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (hello("ann", token="b"), "client 'ann' has no such token"),
        (hello("zoe", token=""), "client 'zoe' has no such token"),
        (hello("ann", samples=0), "client 'ann' has no samples to train on"),
        (
            hello("ann", samples=4),
            "client 'ann' has 4 samples, and noise is calibrated to clients of at least 5; lower",
        ),
        (hello("ann", samples=2**53), "at most 50 are allowed; raise --samples-at-most at the server"),
    ],
)
def test_wrong_tokens_models_and_sample_counts_are_refused(said: Hello, why: str) -> None:
    clients = registry()

    def join() -> None:
        clients.authenticate(said)
        clients.admit(said)

    with pytest.raises(RefusedError, match=why):
        join()
    assert (clients.by_number, clients.by_name, clients.renewed) == ({}, {}, [])


def test_a_second_process_is_refused_while_the_first_is_connected() -> None:
    clients = registry()
    client: Any = clients.admit(hello("ann"))
    client.link, client.instance = SimpleNamespace(peer="10.0.0.1:5"), "one"
    assert clients.admit(hello("ann")) is client
    with pytest.raises(RefusedError, match=r"client 'ann' is connected already, from 10\.0"):
        clients.admit(hello("ann", of="two"))
    client.link = None
    assert clients.admit(hello("ann", of="two")) is client


def test_a_message_is_heard_once_and_none_may_be_missing() -> None:
    table = begun("0")
    client, link = table.live.clients.by_name["0"], table.links["0"]
    table.hear("0", Trace(-1, (), number=1))
    table.hear("0", Spent("all of it", number=2))
    table.hear("0", Spent("all of it", number=2))
    assert [message.number for message in link.heard if isinstance(message, Heard)] == [1, 2, 2]
    assert list(table.live.spent) == [0]
    with pytest.raises(WireError, match="message 4 came after message 2: one is missing"):
        table.hear("0", Trace(-1, (), number=4))
    table.disconnect("0")
    assert (table.connect("0"), table.links["0"].heard[0].heard) == (client, 2)
    table.disconnect("0")
    table.connect("0", instance="two")
    assert table.links["0"].heard[0].heard == 0, "another process counts anew"
