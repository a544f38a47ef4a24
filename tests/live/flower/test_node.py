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
    nan_for,
    number_of,
    report_of,
    scores_of,
    whole_number_of,
)
from asyncfl.live.vocabulary import FromClient, Gone, Noted
from asyncfl.live.wire import server_decoder
from asyncfl.messages import Fate
from asyncfl.trace import Kind

SENT = SentLetter(3, "train", 80, 10.0)


def test_a_number_is_read_where_one_stands() -> None:
    metrics = {"loss": 2, "share": 0.5, "word": "1", "several": [1.0]}
    assert [number_of(metrics, name) for name in metrics] == [2.0, 0.5, None, None]
    assert number_of(metrics, "missing") is None
    assert math.isnan(nan_for(None))
    assert nan_for(0.25) == 0.25


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30, 1.5, -1.0, "2"])
def test_what_is_no_whole_number_is_none(value: float | str) -> None:
    assert whole_number_of({"epochs": value}, "epochs") is None
    assert whole_number_of({"epochs": 2.0}, "epochs") == 2
    assert whole_number_of({}, "epochs") is None


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
    ("reply", "scores"),
    [
        (Reply("a", metrics={"scores": [0.5, 1]}), (0.5, 1.0)),
        (Reply("a", metrics={"scores": 0.5}), (0.5,)),
        (Reply("a", metrics={}), None),
        (Reply("a", failure=0, metrics={"scores": [0.5]}), None),
    ],
)
def test_scores_come_with_an_answer_alone(reply: Reply, scores: tuple[float, ...] | None) -> None:
    assert scores_of(reply) == scores


def test_an_app_that_tells_no_seconds_of_training_has_trained_all_the_time() -> None:
    assert report_of(Reply("a"), SENT, 120, 4.0) == (
        Noted(0.0, Kind.DOWNLOADED, 80, 1, "down"),
        Noted(0.0, Kind.TRAINING_STARTED),
        Noted(4.0, Kind.TRAINED),
        Noted(4.0, Kind.UPLOAD_STARTED, 120),
        Noted(4.0, Kind.UPLOADED, 120, 1, "up"),
    )


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
