"""What is read out of the replies of Flower's nodes."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from asyncfl.live.flower.letters import Reply
from asyncfl.live.flower.node import (
    SECONDS,
    Node,
    NodeConnection,
    SentLetter,
    report_of,
)
from asyncfl.live.transport import EndedError
from asyncfl.live.vocabulary import FromClient, Gone, Noted, Spent, TaskGone, Update, Welcome
from asyncfl.live.wire import encode, server_decoder
from asyncfl.messages import Fate
from asyncfl.trace import Kind

SENT = SentLetter(3, "train", 80, 10.0)


@pytest.mark.parametrize("value", [math.nan, 1e30, 0.0, 1.5])
def test_epochs_that_nobody_can_have_done_end_a_task_and_not_the_run(value: float) -> None:
    async def said() -> FromClient:
        node = Node(1, "ann", "token", 20, 3)
        connection = NodeConnection(node)
        await connection.answer(SENT, Reply("a", model=np.zeros(3, np.float32), metrics={"epochs": value}), 12.0)
        return server_decoder(3).decode(await connection.receive())[0]

    gone = asyncio.run(said())
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
def test_what_an_app_tells_of_its_time_is_taken_as_it_can_be(
    told: dict[str, float], began_s: float, ended_s: float
) -> None:
    report = report_of(Reply("a", metrics=told, config={"spent": "all of it"}), SENT, 120, 4.0)
    assert [one.after_s for one in report] == [0.0, began_s, *[ended_s] * 4]
    assert report[4] == Noted(ended_s, Kind.BUDGET_SPENT, detail="all of it")


async def _answered(reply: Reply, sent: SentLetter = SENT, *, ours: bool = True) -> list[FromClient]:
    node = Node(1, "ann", "token", 20, 3, ours=ours)
    connection = NodeConnection(node)
    await connection.answer(sent, reply, 12.5)
    connection.drop()
    said = []
    while True:
        try:
            said.append(server_decoder(3).decode(await connection.receive())[0])
        except EndedError:
            return said


def test_a_client_whose_budget_is_spent_sends_nothing_more() -> None:
    gone = Gone(3, "dropped_out", (Noted(2.5, Kind.DROPPED_OUT, detail="budget"),))
    spent = Reply("a", config={"spent": "all of it"})
    assert asyncio.run(_answered(spent)) == [Spent("all of it"), gone]
    long = asyncio.run(_answered(Reply("a", config={"spent": "s" * 1001})))
    assert long == [Spent("s" * 1000), gone]
    stopped = asyncio.run(_answered(Reply("a", config={"stopped": "no epoch"})))
    assert stopped == [Gone(3, "dropped_out", (Noted(2.5, Kind.DROPPED_OUT, detail="no epoch"),))]
    [cut] = asyncio.run(_answered(Reply("a", config={"stopped": "s" * 1001})))
    assert cut == Gone(3, "dropped_out", (Noted(2.5, Kind.DROPPED_OUT, detail="s" * 1000),))


def test_an_update_says_what_our_app_tells_and_of_anothers_nothing() -> None:
    metrics = {"train_loss": 0.5, "clip-norm": 2.0, "added-std": 0.25, "epsilon": 3.0, "zeroed": 1, "epochs": 2}
    reply = Reply("a", model=np.zeros(3, np.float32), metrics=metrics)
    [ours], [other] = (asyncio.run(_answered(reply, ours=one)) for one in (True, False))
    assert isinstance(ours, Update)
    assert isinstance(other, Update)
    assert (ours.loss, ours.clip_norm, ours.added_std, ours.epsilon, ours.zeroed, ours.epochs) == (
        0.5, 2.0, 0.25, 3.0, True, 2,
    )  # fmt: skip
    assert (other.loss, other.clip_norm, other.added_std, other.epsilon, other.zeroed, other.epochs) == (
        0.5, None, 0.0, None, False, None,
    )  # fmt: skip
    assert [one.after_s for one in ours.report] == [0.0, 0.0, 2.5, 2.5, 2.5]


def test_what_the_server_says_is_given_up_is_forgotten() -> None:
    async def main() -> tuple[tuple[int, ...], ...]:
        node = Node(1, "ann", "token", 20, 3)
        connection = NodeConnection(node)
        for number in (7, 8, 9):
            node.write("train", number, {})
        before = node.tasks
        await connection.send(encode(Welcome(0, "run", "", 0, 2, 20, 1, False, 1.0, 0.0, 5.0, (7, 3))))
        welcome = node.tasks
        await connection.send(encode(TaskGone(9)))
        return before, welcome, node.tasks

    assert asyncio.run(main()) == ((7, 8, 9), (8, 9), (8,))
