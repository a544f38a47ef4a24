"""Nodes of a grid: queries, their admission as clients, and their replies as messages of clients."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.messages import Download
from asyncfl.live.flower.nodes import EXAMPLES, SECONDS, ArrayDialect, FrameDialect, Node, NodeManager
from asyncfl.live.flower.records import QUERY, SCORES, TRAIN, Failure, FlowerError, FlowerMessage, Reply
from asyncfl.live.wire import (
    FromClient,
    Gone,
    Hello,
    Judge,
    Noted,
    Ready,
    Scores,
    Task,
    Update,
    Welcome,
    encode,
    server_decoder,
)
from asyncfl.trace import Kind
from tests.live import virtual_loop

TOKENS = {"ann": "a-token", "bob": "b-token"}
WELCOME = Welcome(0, "run", "{}", 0, 2, 20, 1, False, 1.0, 0.0, ())


class Grid:
    """Answers as a test says; notes when it was asked for what."""

    def __init__(self, answer: Callable[[FlowerMessage], Reply | None]) -> None:
        self.there: dict[float, set[int]] = {0.0: {7}}
        """Since when who is there."""
        self.answer = answer
        self.untaken: tuple[str, ...] = ()
        """Kinds of messages that it does not take."""
        self.asked: list[tuple[str, float]] = []
        self.messages: list[FlowerMessage] = []
        self.loop: asyncio.AbstractEventLoop

    def nodes(self) -> Collection[int]:
        self.asked.append(("nodes", round(self.loop.time(), 6)))
        return [there for since_s, there in self.there.items() if since_s <= self.loop.time() + 1e-6][-1]

    def send(self, messages: Iterable[FlowerMessage]) -> list[str | None]:
        self.asked.append(("send", round(self.loop.time(), 6)))
        new = list(messages)
        names = [str(len(self.messages) + place) for place in range(len(new))]
        self.messages += new
        return [None if message.kind in self.untaken else name for message, name in zip(new, names, strict=True)]

    def fetch(self, names: Collection[str]) -> list[Reply]:
        self.asked.append(("fetch", round(self.loop.time(), 6)))
        replies = ((name, self.answer(self.messages[int(name)])) for name in names)
        return [replace(one, message=name) for name, one in replies if one is not None]


def introduced(name: str = "ann", samples: int = 20) -> Reply:
    """The reply of our app to a query."""
    return Reply(config={"frames": [encode(Hello(name, "-", samples)), encode(Ready(True, "spent"))]})


class Host:
    """A server that welcomes each client, and notes what it hears until `until_s`."""

    def __init__(self, until_s: float, says: Callable[[Node], Any] | None) -> None:
        self.heard: list[FromClient] = []
        self.decoder = server_decoder(3)
        self._until_s, self._says = until_s, says

    @property
    def stopped(self) -> str | None:
        return "time is over" if asyncio.get_running_loop().time() >= self._until_s else None

    def connect(self, hello: Hello, node: Node) -> Any:
        self.heard.append(hello)
        node.write(WELCOME)
        if self._says is not None:
            self._says(node)
        return SimpleNamespace()

    def disconnect(self, client: Any, link: Any) -> None:
        pass

    async def hear(self, client: Any, message: FromClient, models: Any) -> None:
        self.heard.append(message)


TO_OURS, TO_ANOTHER = FrameDialect(WELCOME, server_decoder(3)), ArrayDialect({}, None)


def carried(
    grid: Grid, until_s: float, says: Callable[[Node], Any] | None = None, dialect: Any = TO_OURS
) -> list[FromClient]:
    """What is said in the nodes' place until then. `says`: what the server says to each that introduces itself."""
    host: Any = Host(until_s, says)
    transport: Any = grid

    async def main() -> None:
        grid.loop = asyncio.get_running_loop()
        await NodeManager(host, transport, TOKENS, dialect).run()

    virtual_loop.run(main)
    heard: list[FromClient] = host.heard
    return heard


@pytest.mark.parametrize("failure", list(Failure))
def test_a_node_that_did_not_get_the_query_is_asked_again(failure: Failure) -> None:
    grid = Grid(lambda message: introduced("bob") if grid.loop.time() > 3 else Reply("", failure))
    assert carried(grid, 4.7) == [Hello("bob", "b-token", 20), Ready(True, "spent")]
    assert [message.kind for message in grid.messages] == [QUERY] * 3
    assert [at_s for what, at_s in grid.asked if what == "send"] == pytest.approx([0.0, 2.0, 4.0], abs=0.21)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(),
        Reply(config={"frames": "text"}),
        Reply(config={"frames": [encode(Ready(True, None))]}),
        Reply(config={"frames": [encode(Hello("bob", "-", 20))]}),
    ],
)
def test_an_app_that_does_not_introduce_itself_ends_the_run(reply: Reply) -> None:
    with pytest.raises(FlowerError, match="node 7 cannot take part: its ClientApp must be asyncfl's, of the version"):
        carried(Grid(lambda message: reply), 4.0)
    with pytest.raises(FlowerError, match="node 7 cannot take part: a frame has at least"):
        carried(Grid(lambda message: Reply(config={"frames": [b"AF"]})), 4.0)


def test_an_app_that_cannot_begin_ends_the_run_with_its_reason() -> None:
    said = "no   such\nmodule: " + "m" * 500
    with pytest.raises(FlowerError) as caught:
        carried(Grid(lambda message: Reply("", 2, said)), 4.0)
    whole = "no such module: " + "m" * 500
    assert str(caught.value) == f"node 7 cannot take part: {whole[:487]}...{'m' * 10}"


MODELS = Download(np.zeros(3, np.float32))
LOST = Gone(5, "lost_up", (Noted(0.0, Kind.LOST, detail="up"),))


def work(node: Node) -> None:
    """Give a node a task and a request."""
    node.write(Task(5, 0, 0), MODELS)
    node.write(Judge(6, 0), np.zeros((2, 3), np.float32))


def test_a_message_refused_by_the_grid_counts_as_lost() -> None:
    grid = Grid(lambda message: introduced())
    grid.untaken = (TRAIN, SCORES)
    heard = carried(grid, 0.7, work)
    assert heard == [Hello("ann", "a-token", 20), Ready(True, "spent"), LOST, Scores(6, None, ())]


@pytest.mark.parametrize("reply", [Reply("", 2, "no reason"), Reply(), Reply(config={"frames": []})])
def test_an_app_that_fails_or_replies_nothing_ends_its_task_and_its_request(
    reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    heard = carried(Grid(lambda message: introduced() if message.kind == QUERY else reply), 0.9, work)
    gone, scores = heard[2:]
    assert isinstance(gone, Gone)
    assert (gone.task, gone.fate, gone.report[0].detail, scores) == (5, "dropped_out", "app", Scores(6, None, ()))
    assert "node 7: its ClientApp failed" in caplog.text


def test_a_reply_that_cannot_be_read_ends_the_connection_and_the_node_is_back_without_its_task() -> None:
    heard = carried(
        Grid(lambda message: introduced() if message.kind == QUERY else Reply(config={"frames": [b"no frame"]})),
        *(2.7, lambda node: node.write(Task(5, 0, 0), MODELS) if not node.messages else None),
    )
    assert heard == [Hello("ann", "a-token", 20), Ready(True, "spent"), Hello("ann", "a-token", 20)]


def test_a_surplus_node_waits_until_a_client_is_away(caplog: pytest.LogCaptureFixture) -> None:
    grid = Grid(lambda message: Reply(metrics={EXAMPLES: message.node}) if message.kind == QUERY else None)
    grid.there = {0.0: {7, 8, 9}, 4.5: {8, 9}, 9.0: {7, 8}}
    with caplog.at_level(logging.INFO, "asyncfl.live"):
        heard = carried(grid, 12.5, dialect=TO_ANOTHER)
    hellos = [(one.name, one.samples) for one in heard if isinstance(one, Hello)]
    assert hellos == [("ann", 7), ("bob", 8), ("ann", 9), ("ann", 7)]
    assert "node 9: all 2 clients are there already, it waits" in caplog.text
    assert [message.node for message in grid.messages if message.kind == QUERY] == [7, 8, 9, 7]


def test_a_node_that_names_its_client_waits_for_that_place_alone(caplog: pytest.LogCaptureFixture) -> None:
    grid = Grid(lambda message: introduced("bob"))
    grid.there = {0.0: {7, 8}}
    heard = carried(grid, 4.5)
    assert heard == [Hello("bob", "b-token", 20), Ready(True, "spent")]
    assert "node 8: client bob is there already, it waits" in caplog.text


# --- a user's ClientApp ---


@pytest.mark.parametrize("samples", [0, 1.5, [3], None])
def test_an_invalid_number_of_samples_is_refused(samples: Any) -> None:
    with pytest.raises(FlowerError, match=r"it must answer a query with metric num-examples, a whole number >= 1, got"):
        TO_ANOTHER.introduced(Reply(metrics={EXAMPLES: samples}))


@pytest.mark.parametrize(
    ("told", "trained_s"), [({SECONDS: 1.0}, 1.0), ({}, 2.5), ({SECONDS: -1.0}, 0.0), ({SECONDS: math.nan}, 2.5)]
)
def test_claims_of_a_users_app_about_privacy_are_not_read_and_its_times_are_made_possible(
    told: dict[str, float], trained_s: float
) -> None:
    metrics = {"train_loss": 0.5, "added-std": 0.25, "epsilon": 3.0, "epochs": 2} | told
    sent = TO_ANOTHER.message_to(7, Task(3, 0, 4), MODELS)
    [frame] = TO_ANOTHER.frames(sent, Reply(model=np.zeros(3, np.float32), metrics=metrics), 2.5)
    update, model = server_decoder(3).decode(frame)
    assert isinstance(update, Update)
    assert (update.loss, update.added_std, update.epsilon, update.epochs) == (0.5, 0.0, None, None)
    assert [one.after_s for one in update.report] == [0.0, 0.0, *[trained_s] * 3]
    assert model.shape == (1, 3)
