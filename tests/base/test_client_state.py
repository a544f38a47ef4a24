"""A client's state: named values that are replaced and never changed, and read back as they were written."""

import pickle

import msgspec
import numpy as np
import pytest

from asyncfl.base.client_state import NOTHING, ClientState, ClientStates

STATE = ClientState(
    {"layers": np.array([1.5, -0.0, np.nan], np.float32), "counts": np.arange(6, dtype=np.float64).reshape(2, 3)},
    {"uploads": 3, "claimed": 0.1},
)


def test_states_are_equal_where_their_bytes_are() -> None:
    same = ClientState({name: one.copy() for name, one in STATE.arrays.items()}, dict(STATE.scalars))
    assert same == STATE
    assert STATE.updated(ClientState({"layers": np.array([1.5, 0.0, np.nan], np.float32)})) != STATE
    assert STATE.updated(ClientState({}, {"uploads": 4})) != STATE
    assert STATE.part(["layers"]) != STATE


def test_an_update_leaves_the_state_before_it_as_it_was() -> None:
    states = ClientStates()
    states.put(2, STATE)
    snapshot = states.copy()
    states.set_array(2, "layers", np.zeros(3, np.float32))
    assert states.of(2).arrays["layers"].tolist() == [0, 0, 0]
    assert states.of(2).scalars == STATE.scalars
    assert snapshot.of(2) == STATE
    assert list(states.of(2).since(STATE).arrays) == ["layers"]
    assert not states.of(2).since(STATE).scalars
    assert states.take(2).part(["counts", "missing"]) == STATE.part(["counts"])
    assert states.of(2) == NOTHING


@pytest.mark.parametrize("state", [STATE, NOTHING], ids=["full", "empty"])
def test_a_state_is_read_back_as_it_was_written(state: ClientState) -> None:
    assert ClientState.of_plain(msgspec.msgpack.decode(msgspec.msgpack.encode(state.to_plain()))) == state
    assert pickle.loads(pickle.dumps(state)) == state


def test_a_client_that_carries_nothing_takes_no_memory() -> None:
    states = ClientStates()
    states.update(1, NOTHING)
    states.put(1, STATE)
    states.put(1, NOTHING)
    assert len(pickle.dumps(states)) == len(pickle.dumps(ClientStates()))
