"""Live clients, also over Flower, exchange an algorithm's vectors, and vectors of others are refused."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replaced

from asyncfl.base.client_state import ClientState
from asyncfl.base.errors import MessageError
from asyncfl.extras.live.client_messages import Task, Update
from asyncfl.extras.live.flower.client_app import FlowerClient
from asyncfl.extras.live.flower.frames import MESSAGE_BYTES, answer_decoder, encode, task_decoder
from asyncfl.extras.live.flower.records import TRAIN
from asyncfl.extras.live.received_updates import ReceivedUpdates
from asyncfl.protocol.event_query import select
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.scenario import Scenario
from asyncfl.simulation.seed_run import SeedRun
from tests.algorithms.control_variate import CONTROL, ControlVariate
from tests.extras.live.conftest import SMALL, live
from tests.extras.live.flower.grid import FakeGrid, frames, stand_in
from tests.extras.live.flower.test_run_on_grid import over_flower
from tests.extras.live.test_identity import BUFFERED, FEDASYNC, LEAVING, LOSSY, SYNC, WORLD, same

CONTROLLED = {"algorithm": ControlVariate(clients=6)}
LINKS = {**WORLD, "downlink": {**WORLD["downlink"], **LOSSY}, "uplink": {**WORLD["uplink"], **LOSSY}}
N = 28 * 28 * 4 + 4 + 4 * 10 + 10
"""Parameters of the model of `SMALL`."""


@pytest.mark.parametrize(
    "description",
    [
        {"protocol": SYNC, "world": LINKS},
        {"protocol": BUFFERED, "world": {**LINKS, **LEAVING}},
        {"protocol": FEDASYNC, "world": {**WORLD, **LEAVING}, "compression": {"kind": "top_k", "share": 0.1}},
        {"protocol": BUFFERED, "world": WORLD, "download_compression": {"kind": "quantised"}},
    ],
    ids=["sync", "absences", "compressed updates", "compressed models"],
)
def test_live_runs_on_virtual_time_are_the_simulation(description: dict[str, Any]) -> None:
    same(live, {**description, **CONTROLLED})


def test_live_runs_learn_with_controls() -> None:
    run = live(Scenario.read({**SMALL, **CONTROLLED, "protocol": {**SYNC, "rounds": 6}}), shape=False)
    assert run.stopped == "all versions published"
    assert run.rounds[-1]["test_accuracy"] > run.rounds[0]["test_accuracy"]
    uploads = select(run.events, kinds=["uploaded"])
    assert set(uploads["bytes"].to_pylist()) == {2 * 4 * N}


def flower(description: dict[str, Any], change: Callable[[FakeGrid], None] = lambda grid: None) -> Any:
    with stand_in():
        return over_flower({"algorithm": ControlVariate(clients=3), **description}, change)


def test_controls_stay_at_their_node_and_their_changes_are_sent() -> None:
    run, grid, scenario = flower({"protocol": {"kind": "sync", "rounds": 4, "participants": 3}})
    assert run.stopped == "all versions published"
    downloads, uploads = scenario.payloads.downloads, scenario.payloads.uploads
    kept: dict[str, Any] = {}
    before = np.zeros(N, np.float32)
    with stand_in():
        for number, message in enumerate(grid.messages(node=101)[:2]):
            task, _ = task_decoder(N, None, downloads).decode(message.frame)
            assert bool(task.payloads[CONTROL].any()) == (number > 0)
            at = FlowerClient(message.content["config"], {"partition-id": 1}, kept)
            [frame] = at.answer(message.frame)
            update, _ = answer_decoder(N, None, uploads).decode(frame)
            after = at.state.arrays[CONTROL]
            np.testing.assert_array_equal(update.payloads["change"], after - before)
            before = after


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "got none"),
    ({"change": np.zeros(3, np.float32)}, r"got \{'change': \(3,\)\}"),
    ({"change": np.zeros(N, np.float32), "more": np.zeros(1, np.float32)}, "'more'"),
]


@pytest.mark.parametrize(("vectors", "why"), WRONG, ids=["none", "short", "more"])
def test_an_update_with_other_vectors_than_declared_is_refused(vectors: dict[str, Any], why: str) -> None:
    scenario = Scenario.read({**SMALL, **CONTROLLED})
    received = ReceivedUpdates.__new__(ReceivedUpdates)
    received._payloads = scenario.payloads.uploads
    with pytest.raises(MessageError, match=f"the algorithm declares payloads .*change.*, {why}"):
        received.check(Update(0, None, 0.0, None, (), None, vectors), TaskRecord(0, 0, 0))


def with_vectors(vectors: dict[str, Any]) -> Callable[[FakeGrid], None]:
    """Have the first node send other vectors with its updates."""

    def change(grid: FakeGrid) -> None:
        app, uploads = grid.apps[100], ControlVariate().payloads(N).uploads

        def other(message: Any) -> Any:
            content = app(message)
            if message.metadata.message_type != TRAIN:
                return content
            update, model = answer_decoder(N, None, uploads).decode(content["config"]["frames"][0])
            assert isinstance(update, Update)
            return frames(encode(replaced(update, payloads=vectors), model))

        grid.apps[100] = other

    return change


@pytest.mark.parametrize(("vectors", "why"), WRONG, ids=["none", "short", "more"])
def test_a_node_that_sends_other_vectors_is_refused_and_the_others_go_on(
    vectors: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    run: SeedRun = flower({"protocol": {**FEDASYNC, "in_flight": 3}}, with_vectors(vectors))[0]
    assert run.stopped == "all versions published"
    assert any(re.search(f"node 100: the algorithm declares payloads .*{why}", one.message) for one in caplog.records)
    used = run.tasks.to_pandas().query("fate == 'aggregated'")
    assert set(used.client) == {1, 2}


def test_vectors_that_are_not_finite_exclude_their_update() -> None:
    change = with_vectors({"change": np.full(N, np.nan, np.float32)})
    run, _, _ = flower({"protocol": {**FEDASYNC, "rounds": 6, "in_flight": 3}}, change)
    assert run.stopped == "all versions published"
    assert run.fates["rejected"] > 0
    assert np.isfinite(run.rounds[-1]["test_loss"])


def test_frames_keep_every_bit_of_vectors_and_have_a_limit() -> None:
    scenario = Scenario.read({**SMALL, **CONTROLLED})
    payloads, vector = scenario.payloads.downloads, np.linspace(-1, 1, N, dtype=np.float32)
    model = np.zeros((1, N), np.float32)
    frame = encode(Task(0, 1, 2, 3, False, {CONTROL: vector}), model)
    task, _ = task_decoder(N, None, payloads).decode(frame)
    np.testing.assert_array_equal(task.payloads[CONTROL], vector)
    assert not task.payloads[CONTROL].flags.writeable
    long = encode(Task(0, 1, 2, 3, False, {CONTROL: np.zeros(N + MESSAGE_BYTES // 4, np.float32)}), model)
    with pytest.raises(MessageError, match=f"at most {MESSAGE_BYTES + 4 * N} bytes"):
        task_decoder(N, None, payloads).decode(long)


def test_a_vector_of_half_a_number_is_no_message() -> None:
    frame = encode(Task(0, 1, 2, 3, False, {CONTROL: np.zeros(2, np.float32)}), np.zeros((1, 1), np.float32))
    with pytest.raises(MessageError, match="not a message"):
        task_decoder(1, None).decode(frame.replace(b"\xc4\x08" + bytes(8), b"\xc4\x07" + bytes(8)))
    with pytest.raises(MessageError, match="not a message"):
        task_decoder(1, None).decode(frame.replace(b"\xc4\x08", b"\xd9\x08"))


def test_a_state_with_a_control_is_plain_and_comes_back() -> None:
    state = ClientState({CONTROL: np.arange(3, dtype=np.float32)})
    assert ClientState.of_plain(state.to_plain()).part([CONTROL]) == state.part([CONTROL])
