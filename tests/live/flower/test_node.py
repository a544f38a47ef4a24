"""Replies of Flower's nodes as messages of clients."""

import asyncio
import math

import numpy as np
import pytest

from asyncfl.base.messages import Fate
from asyncfl.live.flower.messages import Reply
from asyncfl.live.flower.node import (
    SECONDS,
    Node,
    NodeConnection,
    SentMessage,
    report_of,
)
from asyncfl.live.transport import EndedError
from asyncfl.live.vocabulary import FromClient, Gone, Noted, Spent, Update
from asyncfl.live.wire import server_decoder
from asyncfl.trace import Kind

SENT = SentMessage(3, "train", 80, 10.0)


@pytest.mark.parametrize("value", [math.nan, 1e30, 0.0, 1.5])
def test_impossible_epochs_end_a_task_and_not_the_run(value: float) -> None:
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
def test_impossible_times_of_an_app_are_clamped_to_the_time_that_passed(
    told: dict[str, float], began_s: float, ended_s: float
) -> None:
    report = report_of(Reply("a", metrics=told, config={"spent": "all of it"}), SENT, 120, 4.0)
    assert [one.after_s for one in report] == [0.0, began_s, *[ended_s] * 4]
    assert report[4] == Noted(ended_s, Kind.BUDGET_SPENT, detail="all of it")


async def _answered(reply: Reply, sent: SentMessage = SENT, *, ours: bool = True) -> list[FromClient]:
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


@pytest.mark.parametrize(
    ("config", "detail"), [({"spent": "all of it"}, "budget"), ({"stopped": "s" * 1001}, "s" * 1000)]
)
def test_an_app_that_is_spent_or_stopped_ends_its_task(config: dict[str, str], detail: str) -> None:
    *spent, gone = asyncio.run(_answered(Reply("a", config=config)))
    assert gone == Gone(3, "dropped_out", (Noted(2.5, Kind.DROPPED_OUT, detail=detail),))
    assert spent == ([Spent("all of it")] if "spent" in config else [])


def test_privacy_claims_are_taken_from_our_app_only() -> None:
    metrics = {"train_loss": 0.5, "added-std": 0.25, "epsilon": 3.0, "epochs": 2}
    reply = Reply("a", model=np.zeros(3, np.float32), metrics=metrics)
    [ours], [other] = (asyncio.run(_answered(reply, ours=one)) for one in (True, False))
    assert isinstance(ours, Update)
    assert isinstance(other, Update)
    assert (ours.loss, ours.added_std, ours.epsilon, ours.epochs) == (0.5, 0.25, 3.0, 2)
    assert (other.loss, other.added_std, other.epsilon, other.epochs) == (0.5, 0.0, None, None)
    assert [one.after_s for one in ours.report] == [0.0, 0.0, 2.5, 2.5, 2.5]
