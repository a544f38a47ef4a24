"""Messages as messages of Flower, and what our ClientApp does with them, over a stand-in for Flower's records."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.extras.live.flower import client_app
from asyncfl.extras.live.flower.records import TRAIN, FlowerError, GridMessages, LostError, Shapes, flower, record_of
from tests.extras.live.flower.grid import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    FakeGrid,
    Message,
    MetricRecord,
    RecordDict,
)

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


@pytest.mark.parametrize("error", [EOFError("no data left in file"), ValueError("no array"), TypeError("no numpy")])
def test_bytes_that_are_no_array_are_no_model(error: Exception) -> None:
    record: Any = ArrayRecord(weight=SimpleNamespace(numpy=lambda: (_ for _ in ()).throw(error)))
    assert Shapes((("weight", (3,), "float32"),)).vector(record) is None


def test_records_are_read_as_they_are_named_or_as_the_only_ones() -> None:
    one, two = MetricRecord(n=3), MetricRecord(n=4)
    assert record_of({"any": one}, "metrics") is one
    assert record_of({"any": one, "metrics": two}, "metrics") is two
    assert record_of({"any": one, "other": two}, "metrics") == {}
    assert record_of({}, "metrics") == {}


@pytest.mark.usefixtures("flwr")
def test_messages_are_sent_together_and_each_reply_is_given_to_who_asked() -> None:
    asked: list[Any] = []
    late = Error(4, "too late")
    replies: dict[int, Any] = {4: RecordDict(config=ConfigRecord(n=4)), 5: Error(2), 6: late, 7: Error(5)}
    grid: Any = FakeGrid(dict.fromkeys(replies, lambda message: replies[message.metadata.dst_node_id]))

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            messages = GridMessages(grid, 60.0, executor)
            assert await messages.nodes() == {4, 5, 6, 7}
            asked.extend(messages.ask(node, TRAIN, {"config": ConfigRecord(seed=3)}) for node in (4, 4, 5, 6, 7))
            asked[1].cancel()
            await messages.exchange({5, 6, 7})
            assert not asked[0].done(), "its node is not there"
            await messages.exchange({4, 5, 6, 7})
            grid.push_messages = lambda messages: ()
            refused = messages.ask(4, TRAIN, {})
            await messages.exchange({4})
            with pytest.raises(LostError, match="did not take the message"):
                await refused

    asyncio.run(main())
    assert [(one.metadata.dst_node_id, one.metadata.ttl, one.content) for one in grid.sent] == [
        (node, 60.0, {"config": {"seed": 3}}) for node in (4, 4, 5, 6, 7)
    ]
    assert asked[0].result() is replies[4]
    with pytest.raises(FlowerError, match="without a reason"):
        asked[2].result()
    with pytest.raises(LostError, match="too late"):
        asked[3].result()
    assert not asked[4].done(), "the reply of a node that is away may follow"


def test_without_flower_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(
        FlowerError, match=r"Flower is missing \(flwr.*\): pip install 'asyncfl\[flower\]' -c constraints.txt"
    ):
        flower()


class OneClient:
    """In place of the client that trains: replies what it was given."""

    def __init__(self, config: Any, node: Any, kept: dict[str, Any]) -> None:
        self.node, self.kept = node, kept

    def answer(self, frame: Any) -> list[bytes]:
        self.kept["turn"] = b"8"
        return [str(self.node).encode(), frame]


@pytest.mark.usefixtures("flwr")
def test_the_client_app_answers_each_message_and_keeps_what_it_must_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_app, "FlowerClient", OneClient)
    app: Any = client_app.client_app()
    assert sorted(app.answers) == ["query", "query.scores", "train"]
    for answer in app.answers.values():
        context = SimpleNamespace(state=RecordDict(asyncfl=ConfigRecord(turn=b"7")), node_config={"partition-id": 3})
        reply = answer(Message(RecordDict(config=ConfigRecord(frame=b"task"))), context)
        assert reply.content["config"] == {"frames": [b"{'partition-id': 3}", b"task"]}
        assert context.state["asyncfl"] == {"turn": b"8"}
