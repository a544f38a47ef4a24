"""Queries to the nodes of a grid, and their admission as clients."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pytest

from asyncfl.live.flower.messages import (
    EXAMPLES,
    QUERY,
    READY,
    SCORES,
    TRAIN,
    Failure,
    FlowerError,
    FlowerMessage,
    Reply,
)
from asyncfl.live.flower.node import Node, NodeConnection
from asyncfl.live.flower.node_manager import GridSettings, NodeManager
from asyncfl.live.transport import Connection, EndedError
from asyncfl.live.vocabulary import FromClient, Gone, Hello, Noted, Ready, Scores, Welcome
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


def carried(grid: Grid, until_s: float, says: Callable[[Node], Any] | None = None, **settings: Any) -> list[FromClient]:
    """What is said in the nodes' place until then. `says`: what the server says to each that introduces itself."""
    heard: list[FromClient] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def serve(connection: Connection) -> None:
            assert isinstance(connection, NodeConnection)
            try:
                while True:
                    said = server_decoder(3).decode(await connection.receive())[0]
                    heard.append(said)
                    if isinstance(said, Hello):
                        await connection.send(encode(WELCOME))
                        if says is not None:
                            says(connection.node)
            except EndedError:
                return

        post = NodeManager(
            grid,
            serve,
            TOKENS,
            3,
            GridSettings(**settings),
            lambda: "time is over" if loop.time() >= until_s else None,
            lambda reason: heard.append(reason),  # type: ignore[arg-type]
        )
        grid.loop = loop
        await post.run()

    virtual_loop.run(main)
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
        node.write(TRAIN, 5, {}, np.zeros((1, 3), np.float32))
        node.write(SCORES, 6, {}, np.zeros((2, 3), np.float32))

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
