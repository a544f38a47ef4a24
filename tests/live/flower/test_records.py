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
    Reply,
    Shapes,
    answer,
    flower,
    from_flower,
    models_of,
    to_flower,
)
from tests.live.flower.conftest import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

SHAPES = Shapes((("weight", (2, 3), "float64"), ("steps", (), "int64"), ("bias", (2,), "float32")))
MODEL = np.arange(9, dtype=np.float32) + 0.25


@pytest.mark.usefixtures("flwr")
def test_a_model_goes_there_and_back() -> None:
    record = SHAPES.record(MODEL)
    assert SHAPES.n_parameters == 9
    assert Shapes.of(record) == SHAPES
    assert record["weight"].numpy().tolist() == [[0.25, 1.25, 2.25], [3.25, 4.25, 5.25]]
    assert record["steps"].numpy().item() == 6  # 6.25, which is a whole number there
    assert record["bias"].numpy().tolist() == [7.25, 8.25]
    back = SHAPES.vector(record)
    assert back is not None
    assert back.dtype == np.float32
    assert back.tolist() == [0.25, 1.25, 2.25, 3.25, 4.25, 5.25, 6.0, 7.25, 8.25]
    assert SHAPES.record(MODEL + np.float32(0.5))["steps"].numpy().item() == 7
    flat = Shapes.flat(9)
    assert flat == Shapes((("parameters", (9,), "float32"),))
    assert np.array_equal(flat.vector(flat.record(MODEL)), MODEL)  # type: ignore[arg-type]


@pytest.mark.usefixtures("flwr")
def test_a_record_of_other_arrays_is_none() -> None:
    record = SHAPES.record(MODEL)
    assert Shapes.flat(9).vector(record) is None
    longer = ArrayRecord(record, more=Array(np.ones(1)))
    assert SHAPES.vector(longer) is None
    assert SHAPES.vector(ArrayRecord(record, bias=Array(np.array(["a", "b"])))) is None
    shorter = SHAPES.vector(ArrayRecord(record, bias=Array(np.ones(1))))
    assert shorter is not None
    assert len(shorter) == 8  # whoever asked says whether that will do


@pytest.mark.usefixtures("flwr")
def test_messages_become_flowers_messages() -> None:
    models = np.stack([MODEL, 2 * MODEL])
    asked = to_flower(FlowerMessage(7, SCORES, {"seed": 3}, models), SHAPES, 60.0)
    assert asked.fields == {"dst_node_id": 7, "message_type": SCORES, "ttl": 60.0}  # type: ignore[attr-defined]
    assert list(asked.content) == ["model-0", "model-1", "config"]
    assert dict(asked.content["config"]) == {"seed": 3}
    trains = to_flower(FlowerMessage(7, TRAIN, {}, models[:1]), SHAPES, 60.0)
    assert list(trains.content) == ["arrays", "config"]
    assert list(to_flower(FlowerMessage(7, "query", {}), SHAPES, 1.0).content) == ["config"]


@pytest.mark.usefixtures("flwr")
def test_a_client_reads_the_models_of_a_message_in_their_order() -> None:
    flat = Shapes.flat(2)
    rows = np.arange(24, dtype=np.float32).reshape(12, 2)
    content = to_flower(FlowerMessage(1, SCORES, {}, rows), flat, 1.0).content
    turned: Any = RecordDict(dict(reversed(list(content.items()))))
    assert np.array_equal(models_of(turned, flat), rows)  # by number: model-10 comes after model-9
    said = "a message must hold models of 2 parameters, as one array 'parameters'"
    wrong: list[Any] = [
        RecordDict(),
        RecordDict(arrays=Shapes.flat(3).record(np.ones(3, np.float32))),
        RecordDict({**content, "model-1": SHAPES.record(MODEL)}),
    ]
    for one in wrong:
        with pytest.raises(FlowerError, match=said):
            models_of(one, flat)


@pytest.mark.usefixtures("flwr")
def test_replies_are_read_as_they_are_named_or_as_the_only_ones() -> None:
    made = answer("message", {"loss": 0.5}, {"why": "x"}, MODEL)  # type: ignore[arg-type]
    reply = from_flower(made, Shapes.flat(9))
    assert (reply.message, reply.failure, reply.metrics, reply.config) == ("message", None, {"loss": 0.5}, {"why": "x"})
    assert reply.model is not None
    assert np.array_equal(reply.model, MODEL)
    bare = from_flower(answer("message", {"loss": 0.5}), SHAPES)  # type: ignore[arg-type]
    assert (bare.model, bare.config) == (None, {})
    own = Message(RecordDict(a=SHAPES.record(MODEL), b=MetricRecord(n=3)), "message")
    found = from_flower(own, SHAPES)  # type: ignore[arg-type]
    assert (found.metrics, found.config, found.model is None) == ({"n": 3}, {}, False)
    two = RecordDict(a=SHAPES.record(MODEL), b=SHAPES.record(MODEL), c=MetricRecord(n=3), d=MetricRecord(n=4))
    nothing = from_flower(Message(two, "message"), SHAPES)  # type: ignore[arg-type]
    assert (nothing.model, nothing.metrics) == (None, {})
    two["arrays"], two["metrics"] = SHAPES.record(MODEL), MetricRecord(n=5)
    named = from_flower(Message(two, "message"), SHAPES)  # type: ignore[arg-type]
    assert (named.model is None, named.metrics) == (False, {"n": 5})
    for reason, said in (("gone", "gone"), (None, "")):
        failed = Message(None, "message", SimpleNamespace(code=np.int64(3), reason=reason))
        failure = from_flower(failed, SHAPES)  # type: ignore[arg-type]
        assert (failure.message, failure.failure, failure.reason, failure.model) == ("message", 3, said, None)


class OneGrid:
    """A grid that keeps what is sent."""

    def __init__(self, names: list[Any]) -> None:
        self.names, self.sent = names, []  # type: ignore[var-annotated]

    def get_node_ids(self) -> list[int]:
        return [4, 5, 4]

    def push_messages(self, messages: Any) -> list[Any]:
        self.sent += messages
        return self.names

    def pull_messages(self, names: Any) -> list[Any]:
        return [answer(name, {"n": 1}) for name in names]


@pytest.mark.usefixtures("flwr")
def test_a_grid_carries_messages() -> None:
    messages = [FlowerMessage(node, "query", {}) for node in (4, 5)]
    grid: Any = OneGrid(["a", ""])
    transport = GridTransport(grid, SHAPES, 9.0)
    assert transport.nodes() == {4, 5}
    assert transport.send(messages) == ["a", None]
    assert [(one.fields["dst_node_id"], one.fields["ttl"]) for one in grid.sent] == [(4, 9.0), (5, 9.0)]
    assert [(one.message, one.metrics) for one in transport.fetch(["a", "b"])] == [("a", {"n": 1}), ("b", {"n": 1})]
    grid.names = []
    assert transport.send(messages) == [None, None]  # what is too large is refused with all that goes with it


def test_without_flower_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr", None)
    with pytest.raises(
        FlowerError, match=r"Flower is missing \(flwr.*\): pip install '.\[flower\]' -c constraints-flo"
    ):
        flower()


class OneClient:
    """In place of the client that trains: says what it was given."""

    def __init__(self, config: Any, kept: dict[str, str]) -> None:
        self.config, self.kept = config, kept
        self.federation = SimpleNamespace(learner=SimpleNamespace(n_parameters=2))

    def ready(self) -> Reply:
        self.kept["turn"] = "8"
        return Reply(metrics={"ready": 1.0})

    def score(self, config: Any, models: Any) -> Reply:
        return Reply(metrics={"scores": models.sum(axis=1).tolist()}, config=dict(config))

    def train(self, config: Any, model: Any) -> Reply:
        return Reply(metrics={"loss": 0.5}, config=dict(config), model=model + 1)


@pytest.mark.usefixtures("flwr")
def test_the_client_app_answers_each_message_and_keeps_what_it_must_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_app, "FlowerClient", OneClient)
    monkeypatch.setattr(client_app, "introduce", lambda config, node: Reply(metrics={"client": node["partition-id"]}))
    app: Any = client_app.client_app()
    assert sorted(app.answers) == ["query", "query.ready", "query.scores", "train"]
    context = SimpleNamespace(state=RecordDict(asyncfl=ConfigRecord(turn=7)), node_config={"partition-id": 3})

    def told(kind: str, models: Any = None) -> Any:
        content = to_flower(FlowerMessage(1, SCORES, {"seed": 3}, models), Shapes.flat(2), 1.0).content
        return from_flower(app.answers[kind](Message(content, "sent"), context), Shapes.flat(2))

    assert told("query").metrics == {"client": 3}
    assert context.state["asyncfl"] == {"turn": 7}
    assert told("query.ready").metrics == {"ready": 1.0}
    assert context.state["asyncfl"] == {"turn": "8"}
    scored = told("query.scores", np.array([[1, 2], [3, 4]], np.float32))
    assert (scored.metrics, scored.config) == ({"scores": [3.0, 7.0]}, {"seed": 3})
    trained = told("train", np.array([[1, 2]], np.float32))
    assert trained.metrics == {"loss": 0.5}
    assert trained.model.tolist() == [2.0, 3.0]
