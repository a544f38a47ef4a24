"""Messages as messages of Flower, and what our ClientApp does with them, over a stand-in for Flower's records."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.live.flower import client_app
from asyncfl.live.flower.records import (
    SCORES,
    TRAIN,
    FlowerError,
    FlowerMessage,
    GridTransport,
    Shapes,
    flower,
)
from tests.live.flower.conftest import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

SHAPES = Shapes((("weight", (2, 3), "float64"), ("steps", (), "int64"), ("bias", (2,), "float32")))
MODEL = np.arange(9, dtype=np.float32) + 0.25


@pytest.mark.usefixtures("flwr")
def test_a_model_goes_there_and_back() -> None:
    record = SHAPES.record(MODEL)
    assert Shapes.of(record) == SHAPES
    assert record["weight"].numpy().tolist() == [[0.25, 1.25, 2.25], [3.25, 4.25, 5.25]]
    assert record["steps"].numpy().item() == 6  # 6.25, which is a whole number there
    assert record["bias"].numpy().tolist() == [7.25, 8.25]
    back = SHAPES.vector(record)
    assert back is not None
    assert back.dtype == np.float32
    assert back.tolist() == [0.25, 1.25, 2.25, 3.25, 4.25, 5.25, 6.0, 7.25, 8.25]
    assert SHAPES.record(MODEL + np.float32(0.5))["steps"].numpy().item() == 7


@pytest.mark.usefixtures("flwr")
def test_a_record_of_other_arrays_is_none() -> None:
    record = SHAPES.record(MODEL)
    assert Shapes((("parameters", (9,), "float32"),)).vector(record) is None
    longer = ArrayRecord(record, more=Array(np.ones(1)))
    assert SHAPES.vector(longer) is None
    assert SHAPES.vector(ArrayRecord(record, bias=Array(np.array(["a", "b"])))) is None
    shorter = SHAPES.vector(ArrayRecord(record, bias=Array(np.ones(1))))
    assert shorter is not None
    assert len(shorter) == 8  # whoever asked says whether that will do


class OneGrid:
    """A grid that keeps what is sent, and replies what a test says."""

    def __init__(self, *replies: Message, names: tuple[str, ...] = ()) -> None:
        self.names, self.replies, self.sent = names, replies, list[Any]()

    def get_node_ids(self) -> list[int]:
        return [4, 5, 4]

    def push_messages(self, messages: Any) -> Any:
        self.sent += messages
        return self.names

    def pull_messages(self, names: Any) -> Any:
        return self.replies


def transport(grid: Any) -> GridTransport:
    return GridTransport(grid, 60.0, SHAPES)


@pytest.mark.usefixtures("flwr")
def test_messages_become_flowers_messages() -> None:
    models = np.stack([MODEL, 2 * MODEL])
    grid = OneGrid(names=("a", "", "c"))
    messages = [
        FlowerMessage(7, SCORES, {"seed": 3}, models),
        FlowerMessage(7, TRAIN, {}, models[:1]),
        FlowerMessage(8, "query", {}),
    ]
    assert transport(grid).nodes() == {4, 5}
    assert transport(grid).send(messages) == ["a", None, "c"]
    asked, trains, queried = grid.sent
    assert asked.fields == {"dst_node_id": 7, "message_type": SCORES, "ttl": 60.0}
    assert list(asked.content) == ["config", "model-0", "model-1"]
    assert dict(asked.content["config"]) == {"seed": 3}
    assert (list(trains.content), list(queried.content)) == (["config", "arrays"], ["config"])
    grid.names = ()
    assert transport(grid).send(messages) == [None] * 3  # what is too large is refused with all that goes with it


@pytest.mark.usefixtures("flwr")
def test_replies_are_read_as_they_are_named_or_as_the_only_ones() -> None:
    two = RecordDict(a=SHAPES.record(MODEL), b=SHAPES.record(MODEL), c=MetricRecord(n=3), d=MetricRecord(n=4))
    named = RecordDict(two, arrays=SHAPES.record(MODEL), metrics=MetricRecord(n=5))
    replies = [
        Message(RecordDict(config=ConfigRecord(frames=[b"one"])), "frames"),
        Message(RecordDict(a=SHAPES.record(MODEL), b=MetricRecord(n=3)), "the only ones"),
        Message(two, "not named"),
        Message(named, "named"),
        Message(None, "failed", SimpleNamespace(code=np.int64(3), reason="gone")),
        Message(None, "failed", SimpleNamespace(code=np.int64(3), reason=None)),
    ]
    frames, only, other, chosen, *failed = transport(OneGrid(*replies)).fetch(["frames"])
    assert (frames.message, frames.config, frames.model, frames.metrics) == ("frames", {"frames": [b"one"]}, None, {})
    assert (only.metrics, only.config, only.model is None) == ({"n": 3}, {}, False)
    assert (other.model, other.metrics) == (None, {})
    assert (chosen.model is None, chosen.metrics) == (False, {"n": 5})
    assert [(one.failure, one.reason, one.model) for one in failed] == [(3, "gone", None), (3, "", None)]


def test_without_flower_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(
        FlowerError, match=r"Flower is missing \(flwr.*\): pip install '.\[flower\]' -c constraints-flo"
    ):
        flower()


class OneClient:
    """In place of the client that trains: replies what it was given."""

    def __init__(self, config: Any, node: Any, kept: dict[str, str]) -> None:
        self.node, self.kept = node, kept

    def answer(self, frame: Any) -> list[bytes]:
        self.kept["turn"] = "8"
        return [str(self.node).encode(), frame]


@pytest.mark.usefixtures("flwr")
def test_the_client_app_answers_each_message_and_keeps_what_it_must_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_app, "FlowerClient", OneClient)
    app: Any = client_app.client_app()
    assert sorted(app.answers) == ["query", "query.scores", "train"]
    for answer in app.answers.values():
        context = SimpleNamespace(state=RecordDict(asyncfl=ConfigRecord(turn=7)), node_config={"partition-id": 3})
        reply = answer(Message(RecordDict(config=ConfigRecord(frame=b"task")), "sent"), context)
        assert reply.content["config"] == {"frames": [b"{'partition-id': 3}", b"task"]}
        assert context.state["asyncfl"] == {"turn": "8"}
