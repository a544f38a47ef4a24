"""Nodes of a grid: queries, their admission as clients, and their replies as messages of clients."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replaced

from asyncfl.extras.live.client_messages import (
    ClientScoreRequest,
    FromClient,
    Gone,
    Hello,
    Scores,
    Spent,
    Task,
    Trace,
    Update,
)
from asyncfl.extras.live.flower.frames import answer_decoder, encode
from asyncfl.extras.live.flower.nodes import Dialect, NodeManager
from asyncfl.extras.live.flower.own import EXAMPLES, ArrayDialect
from asyncfl.extras.live.flower.records import (
    EXPIRED,
    LATE,
    QUERY,
    TRAIN,
    FlowerError,
    GridMessages,
    GridThread,
    Shapes,
)
from asyncfl.extras.live.host import Arrival, Connection
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.testing.laws import same
from tests.extras.live import virtual_loop
from tests.extras.live.flower.grid import Error, FakeGrid, Message, MetricRecord, RecordDict, frames

HELLO = Hello(0, 20, "spent", instance="node 7")
WORK = ((Task(5, 0, 0, 0), np.zeros((1, 3), np.float32)), (ClientScoreRequest(6, 0), np.zeros((2, 3), np.float32)))
OTHER = ArrayDialect(shapes=Shapes((("all", (3,), "float32"),)), state=None, by_samples=True)

pytestmark = pytest.mark.usefixtures("flwr")


class Grid(FakeGrid):
    """Nodes that come and go, and answer as a test says."""

    def __init__(self, answer: Callable[[Message], Any]) -> None:
        super().__init__(dict.fromkeys((7, 8, 9), answer))
        self.there: dict[float, set[int]] = {0.0: {7}}
        """Since when who is there."""
        self.untaken: tuple[str, ...] = ()
        """Kinds of messages that it does not take."""
        self.loop: asyncio.AbstractEventLoop

    def get_node_ids(self) -> set[int]:
        return [there for since_s, there in self.there.items() if since_s <= self.loop.time() + 1e-6][-1]

    def push_messages(self, messages: Any) -> list[str | None]:
        if any(message.metadata.message_type in self.untaken for message in messages):
            return []  # all that come with it
        return super().push_messages(messages)


def introduced(client: int = 0, samples: int = 20) -> RecordDict:
    """The reply of our app to a query."""
    return frames(encode(Hello(client, samples, "spent")))


class Host:
    """A server of two clients that gives each `work` when it connects, and notes what it hears until `until_s`."""

    has_begun = False

    def __init__(self, until_s: float, work: Any, refused: bool) -> None:
        self.heard: list[Hello | FromClient] = []
        self.over = asyncio.Event()
        asyncio.get_running_loop().call_at(until_s, self.over.set)
        self.clock = SimpleNamespace(has_begun=self.has_begun, now=0.0)
        tasks = SimpleNamespace(unanswered_of=lambda client: (5,))
        self.live = SimpleNamespace(server=SimpleNamespace(samples=(20, 20)), clients={}, tasks=tasks)
        self._until_s, self._work, self._refused = until_s, work, refused

    @property
    def stopped(self) -> str | None:
        return "time is over" if asyncio.get_running_loop().time() >= self._until_s else None

    def connect(self, hello: Hello, end: Any) -> Connection:
        connection = Connection(self, hello.client, end)  # type: ignore[arg-type]
        connection.say(hello)
        return connection

    def put(self, arrival: Arrival) -> None:
        connection, message = arrival.connection, arrival.message
        if message is None:
            self.live.clients[connection.client] = SimpleNamespace(link=None)
            return
        self.heard.append(message)
        if isinstance(message, Hello):
            self.live.clients[connection.client] = SimpleNamespace(link=connection)
            asyncio.get_running_loop().call_soon(self._answer, connection)

    def _answer(self, connection: Connection) -> None:
        if self._refused:
            connection.refuse("no")
        work, self._work = self._work, ()
        for message, models in work:
            connection.send(message, models)


def carried(
    grid: Grid, until_s: float, work: Any = (), dialect: Any = None, refused: bool = False
) -> list[Hello | FromClient]:
    """What is said for the nodes until then. `work`: what the server gives to the first that introduces itself."""
    heard: list[Hello | FromClient] = []

    async def main() -> None:
        grid.loop = asyncio.get_running_loop()
        host: Any = Host(until_s, work, refused)
        with ThreadPoolExecutor(1) as executor:
            messages = GridMessages(grid, 30.0, executor)  # type: ignore[arg-type]
            await NodeManager(host, messages, dialect or Dialect(decoder=answer_decoder(3))).run()
        heard.extend(host.heard)

    virtual_loop.run(main)
    return heard


def test_a_call_to_a_grid_that_never_returns_does_not_outlast_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncfl.extras.live.flower.nodes.LAST_CALL_S", 0.1)
    answer = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        host: Any = Host(loop.time() + 0.2, (), refused=False)
        grid: Any = SimpleNamespace(get_node_ids=answer.wait)
        with GridThread() as executor:
            await NodeManager(host, GridMessages(grid, 30.0, executor), Dialect(decoder=answer_decoder(3))).run()

    asyncio.run(main())
    answer.set()
    for thread in threading.enumerate():
        if thread.name == "grid":
            thread.join(30)


@pytest.mark.parametrize("failure", [EXPIRED, LATE])
def test_a_node_that_did_not_get_the_query_is_asked_again(failure: int) -> None:
    grid = Grid(lambda message: introduced(1) if grid.loop.time() > 3 else Error(failure))
    assert carried(grid, 4.7) == [replaced(HELLO, client=1)]
    assert len(grid.messages(QUERY)) == len(grid.sent) > 2


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (RecordDict(), "its ClientApp must be asyncfl's, of the version"),
        (frames(), "its ClientApp must be asyncfl's, of the version"),
        (frames(encode(Spent("all of it"))), "not a message"),
        (frames(*[encode(Hello(0, 20))] * 2), "its ClientApp must be asyncfl's, of the version"),
        (frames(b"AF"), "a frame has at least"),
        (Error(2, "no   such\nmodule"), "no such module$"),
    ],
)
def test_an_app_that_does_not_introduce_itself_ends_a_run_that_has_not_begun(content: Any, why: str) -> None:
    with pytest.raises(FlowerError, match=f"node 7 cannot take part: {why}"):
        carried(Grid(lambda message: content), 4.0)


def test_later_an_app_that_does_not_introduce_itself_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Host, "has_begun", True)
    grid = Grid(lambda message: introduced() if message.metadata.dst_node_id == 7 else Error(2, "no such module"))
    grid.there = {0.0: {7, 8}}
    assert carried(grid, 4.0) == [HELLO]
    assert "node 8: cannot take part: no such module" in caplog.text


def test_a_message_refused_by_the_grid_counts_as_lost_and_no_other() -> None:
    scores = frames(encode(Scores(6, np.full(2, 0.5), ())))
    grid = Grid(lambda message: introduced() if message.metadata.message_type == QUERY else scores)
    grid.untaken = (TRAIN,)
    heard = carried(grid, 2.9, WORK)
    assert heard[0] == HELLO
    gone, answer = heard[1:]
    assert isinstance(gone, Gone)
    assert (gone.task, gone.fate, gone.report[0].kind) == (5, Fate.LOST_UP, Kind.LOST)
    assert same(answer, Scores(6, np.full(2, 0.5), ()))


@pytest.mark.parametrize(
    "content",
    [Error(2, "no reason"), RecordDict(), frames(b""), RecordDict(config="text"), frames(encode(Trace(5, ())))],
)
def test_an_app_that_fails_or_does_not_answer_ends_its_task_and_its_request(
    content: Any, caplog: pytest.LogCaptureFixture
) -> None:
    grid = Grid(lambda message: introduced() if message.metadata.message_type == QUERY else content)
    gone, scores = carried(grid, 2.9, WORK)[1:]
    assert isinstance(gone, Gone)
    assert (gone.task, gone.fate, gone.report[0].detail, scores) == (5, Fate.DROPPED_OUT, "app", Scores(6, None, ()))
    assert "node 7: its ClientApp failed" in caplog.text


def test_a_node_that_is_back_says_which_task_it_is_still_at() -> None:
    grid = Grid(lambda message: introduced() if message.metadata.message_type == QUERY else None)
    grid.there = {0.0: {7}, 2.0: set(), 6.0: {7}}
    again = replaced(HELLO, tasks=(5,))
    assert carried(grid, 7.9, WORK[:1]) == [HELLO, again]


def test_a_reply_that_is_no_message_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    content = frames(encode(Update(5, None, 0.0, None, ()), np.zeros((1, 3), np.float32))[:-1])
    grid = Grid(lambda message: introduced() if message.metadata.message_type == QUERY else content)
    assert carried(grid, 2.9, WORK[:1]) == [HELLO]
    assert "node 7: a frame with these lengths has" in caplog.text


def test_a_node_that_the_server_refuses_is_tried_again_when_it_is_back() -> None:
    grid = Grid(lambda message: introduced())
    grid.there = {0.0: {7}, 8.0: set(), 10.0: {7}}
    assert carried(grid, 12.0, refused=True) == [HELLO] * 2


def test_a_surplus_node_waits_until_a_client_is_away(caplog: pytest.LogCaptureFixture) -> None:
    def answer(message: Message) -> Any:
        if message.metadata.message_type == QUERY:
            return RecordDict(metrics=MetricRecord({EXAMPLES: message.metadata.dst_node_id}))
        return None

    grid = Grid(answer)
    grid.there = {0.0: {7, 8, 9}, 4.5: {8, 9}, 9.0: {7, 8}}
    with caplog.at_level(logging.INFO, "asyncfl.extras.live"):
        heard = carried(grid, 12.5, dialect=OTHER)
    hellos = [(one.client, one.samples) for one in heard if isinstance(one, Hello)]
    assert hellos == [(0, 7), (1, 8), (0, 9), (0, 7)]
    assert "node 9: all 2 clients are there already, it waits" in caplog.text
    assert [message.metadata.dst_node_id for message in grid.messages(QUERY)] == [7, 8, 9]


def test_a_node_that_names_its_client_waits_for_that_place_alone(caplog: pytest.LogCaptureFixture) -> None:
    grid = Grid(lambda message: introduced(1))
    grid.there = {0.0: {7, 8}}
    assert carried(grid, 4.5) == [replaced(HELLO, client=1)]
    assert "node 8: client 1 is there already, it waits" in caplog.text
