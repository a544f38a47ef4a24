"""Nodes of a grid: queries, their admission as clients, and their replies as messages of clients."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.base.messages import Fate
from asyncfl.live.flower.nodes import GridSettings, Node, NodeManager, report_of
from asyncfl.live.flower.records import (
    EXAMPLES,
    QUERY,
    READY,
    SCORES,
    SECONDS,
    TRAIN,
    Failure,
    FlowerError,
    FlowerMessage,
    Reply,
)
from asyncfl.live.vocabulary import FromClient, Gone, Hello, Noted, Ready, Scores, Spent, Update, Welcome
from asyncfl.live.wire import encode, server_decoder
from asyncfl.trace import Kind
from tests.live import virtual_loop

TOKENS = {"ann": "a-token", "bob": "b-token"}
WELCOME = Welcome(0, "run", "{}", 0, 2, 20, 1, False, 1.0, 0.0, 5.0, ())


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
        return [
            Reply(name, one.failure, one.reason, one.model, one.metrics, one.config)
            for name, one in replies
            if one is not None
        ]


def introduced(samples: Any = 20, **config: Any) -> Reply:
    return Reply("", metrics={EXAMPLES: samples}, config=config)


class Host:
    """A server that welcomes each client, and notes what it hears until `until_s`."""

    def __init__(self, until_s: float, says: Callable[[Node], Any] | None) -> None:
        self.heard: list[FromClient] = []
        self._until_s, self._says = until_s, says

    @property
    def stopped(self) -> str | None:
        return "time is over" if asyncio.get_running_loop().time() >= self._until_s else None

    def connect(self, hello: Hello, node: Node) -> Any:
        self.heard.append(hello)
        node.write(WELCOME)
        if self._says is not None:
            self._says(node)
        return SimpleNamespace(disconnect=lambda link: None)

    async def hear(self, client: Any, message: FromClient, models: Any) -> None:
        self.heard.append(message)


def carried(grid: Grid, until_s: float, says: Callable[[Node], Any] | None = None) -> list[FromClient]:
    """What is said in the nodes' place until then. `says`: what the server says to each that introduces itself."""
    host: Any = Host(until_s, says)
    transport: Any = grid

    async def main() -> None:
        grid.loop = asyncio.get_running_loop()
        await NodeManager(host, transport, TOKENS, 3, GridSettings(asks={})).run()

    virtual_loop.run(main)
    heard: list[FromClient] = host.heard
    return heard


@pytest.mark.parametrize("failure", list(Failure))
def test_a_node_that_did_not_get_the_query_is_asked_again(failure: Failure) -> None:
    grid = Grid(lambda message: introduced() if grid.loop.time() > 3 else Reply("", failure))
    assert carried(grid, 4.7)[:1] == [Hello("ann", "a-token", 3, 20)]
    assert [message.kind for message in grid.messages] == [QUERY, QUERY, QUERY, READY]
    assert [at_s for what, at_s in grid.asked if what == "send"] == pytest.approx([0.0, 2.0, 4.0, 4.2], abs=0.21)


@pytest.mark.parametrize("samples", [0, 1.5, [3]])
def test_an_invalid_number_of_samples_ends_the_run(samples: Any) -> None:
    with pytest.raises(FlowerError) as caught:
        carried(Grid(lambda message: introduced(samples)), 4.0)
    assert str(caught.value) == (
        f"node 7 must answer a query with metric num-examples, a whole number >= 1, got {samples}"
    )


@pytest.mark.parametrize(("kind", "what"), [(QUERY, "say who it is"), (READY, "take part")])
def test_an_app_that_cannot_begin_ends_the_run_with_its_reason(kind: str, what: str) -> None:
    said = "no   such\nmodule: " + "m" * 500
    grid = Grid(lambda message: Reply("", 2, said) if message.kind == kind else introduced())
    with pytest.raises(FlowerError) as caught:
        carried(grid, 4.0)
    whole = "no such module: " + "m" * 500
    assert str(caught.value) == f"node 7 cannot {what}: {whole[:487]}...{'m' * 10}"


@pytest.mark.parametrize("failure", list(Failure))
def test_a_lost_request_to_prepare_is_repeated(failure: Failure) -> None:
    def answer(message: FlowerMessage) -> Reply | None:
        if message.kind == QUERY:
            return introduced()
        return Reply("", failure) if grid.loop.time() < 0.5 else Reply("", config={"spent": "s" * 1001})

    grid = Grid(answer)
    heard = carried(grid, 3.0)
    assert heard[-1] == Ready(True, "s" * 1000)
    if failure == Failure.AWAY:
        # The connection ended; at the next look it has another, and the message is still on its way.
        assert heard == [Hello("ann", "a-token", 3, 20)] * 2 + heard[-1:]
        assert [message.kind for message in grid.messages] == [QUERY, READY]
    else:
        assert heard[:-1] == [Hello("ann", "a-token", 3, 20)]
        assert {message.kind for message in grid.messages[1:]} == {READY}
        assert len(grid.messages) == 4


def test_a_message_refused_by_the_grid_counts_as_lost() -> None:
    def says(node: Node) -> None:
        node.queue(TRAIN, {}, np.zeros((1, 3), np.float32), 5)
        node.queue(SCORES, {}, np.zeros((2, 3), np.float32), 6)

    grid = Grid(lambda message: introduced() if message.kind == QUERY else Reply(""))
    grid.untaken = (TRAIN, SCORES)
    assert carried(grid, 0.7, says) == [
        Hello("ann", "a-token", 3, 20),
        Gone(5, "lost_up", (Noted(0.0, Kind.LOST, detail="up"),)),
        Scores(6, None, ()),
        Ready(True, None),
    ]


def test_a_surplus_node_waits_until_a_client_is_away(caplog: pytest.LogCaptureFixture) -> None:
    grid = Grid(lambda message: introduced(message.node) if message.kind == QUERY else None)
    grid.there = {0.0: {7, 8, 9}, 4.5: {8, 9}, 9.0: {7, 8}}
    with caplog.at_level(logging.INFO, "asyncfl.live"):
        heard = carried(grid, 12.5)
    assert [(one.name, one.samples) for one in heard if isinstance(one, Hello)] == [
        ("ann", 7),
        ("bob", 8),
        ("ann", 9),
        ("ann", 7),
    ]
    assert "node 9: all 2 clients are there already, it waits" in caplog.text
    assert [message.node for message in grid.messages if message.kind == QUERY] == [7, 8, 9, 7]


def test_a_node_that_names_its_client_waits_for_that_place_alone(caplog: pytest.LogCaptureFixture) -> None:
    grid = Grid(lambda message: introduced(name="bob") if message.kind == QUERY else None)
    grid.there = {0.0: {7, 8}}
    heard = carried(grid, 4.5)
    assert heard == [Hello("bob", "b-token", 3, 20)]
    assert "node 8: client bob is there already, it waits" in caplog.text


# --- replies as messages of clients ---


SENT = FlowerMessage(1, "train", {}, of=3, bytes_down=80, sent_s=10.0)


def answered(reply: Reply, *, ours: bool = True) -> list[FromClient]:
    """What the server hears, 2.5 s after the task was sent."""
    node = Node(1, GridSettings(ours=ours))
    decoder = server_decoder(20)
    return [decoder.decode(encode(*one))[0] for one in node.messages_of(SENT, reply, 12.5)]


@pytest.mark.parametrize("value", [math.nan, 1e30, 0.0, 1.5])
def test_impossible_epochs_end_a_task_and_not_the_run(value: float) -> None:
    [gone] = answered(Reply("a", model=np.zeros(3, np.float32), metrics={"epochs": value}))
    assert isinstance(gone, Gone)
    assert gone.fate == Fate.DROPPED_OUT


@pytest.mark.parametrize(
    ("told", "began_s", "ended_s"),
    [
        ({"began-s": 0.5, SECONDS: 1.0}, 0.5, 1.5),
        ({"began-s": 5.0}, 5.0, 5.0),
        ({"began-s": -1.0, SECONDS: -1.0}, 0.0, 0.0),
    ],
)
def test_impossible_times_of_an_app_are_clamped_to_the_time_that_passed(
    told: dict[str, float], began_s: float, ended_s: float
) -> None:
    report = report_of(Reply("a", metrics=told, config={"spent": "all of it"}), SENT, 120, 4.0)
    assert [one.after_s for one in report] == [0.0, began_s, *[ended_s] * 4]
    assert report[4] == Noted(ended_s, Kind.BUDGET_SPENT, detail="all of it")


@pytest.mark.parametrize(
    ("config", "detail"), [({"spent": "all of it"}, "budget"), ({"stopped": "s" * 1001}, "s" * 1000)]
)
def test_an_app_that_is_spent_or_stopped_ends_its_task(config: dict[str, str], detail: str) -> None:
    *spent, gone = answered(Reply("a", config=config))
    assert gone == Gone(3, "dropped_out", (Noted(2.5, Kind.DROPPED_OUT, detail=detail),))
    assert spent == ([Spent("all of it")] if "spent" in config else [])


def test_privacy_claims_are_taken_from_our_app_only() -> None:
    metrics = {"train_loss": 0.5, "added-std": 0.25, "epsilon": 3.0, "epochs": 2}
    reply = Reply("a", model=np.zeros(3, np.float32), metrics=metrics)
    [ours], [other] = (answered(reply, ours=one) for one in (True, False))
    assert isinstance(ours, Update)
    assert isinstance(other, Update)
    assert (ours.loss, ours.added_std, ours.epsilon, ours.epochs) == (0.5, 0.25, 3.0, 2)
    assert (other.loss, other.added_std, other.epsilon, other.epochs) == (0.5, 0.0, None, None)
    assert [one.after_s for one in ours.report] == [0.0, 0.0, 2.5, 2.5, 2.5]
