"""Random draws of many tasks at once are those of the tasks one by one, bit for bit."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.world import World
from asyncfl.world.keyed_stream import KeyedStream
from asyncfl.world.task_blocks import TaskBlocks
from asyncfl.world.transfer import Transfer
from asyncfl.world.transfer_block import TransferColumns
from asyncfl.world.world import WorldState


def test_numbers_of_many_streams_are_those_of_numpys_generator() -> None:
    stream = KeyedStream(Streams(3), "task_clock")
    clients, turns = np.array([0, 7, 199_999, 2**31]), np.array([0, 2**31 - 2, 5, 1])
    for phase in (0, 2, 16):
        together = np.concatenate([stream.doubles(clients, turns, phase, block) for block in range(3)])
        for column, (client, turn) in enumerate(zip(clients.tolist(), turns.tolist(), strict=True)):
            alone = stream.at(client, turn, phase).random(12)
            assert together[:, column].tolist() == alone.tolist()


def drawn_world(number: int, clients: int) -> WorldState:
    """A world with links whose transfers can be drawn at once."""
    random = Random(number)
    link: dict[str, Any] = {
        "latency_s": random.choice([0.0, {"kind": "uniform", "low": 0.0, "high": 0.3}]),
        "retransmissions": random.choice([0, 1, 2, 9]),
        "retransmission_timeout_s": random.choice([0.0, 0.5]),
        "mtu_bytes": random.choice([40, 100, 1500]),
    }
    if random.random() < 0.8:
        link["bandwidth_bps"] = {"kind": "lognormal", "median": 1e5, "sigma": 1.0}
    probability = random.choice([0.001, 0.03, 0.3, 0.5])
    loss = random.choice([{"kind": "none"}, {"kind": "independent", "probability": probability}])
    taps = {"uplink": True, "downlink": True, "at": random.choice(["sender", "link", "receiver"])}
    tap = {"tap": {**taps, "packet_loss": random.choice([0.0, 0.1, 1.0])}} if random.random() < 0.8 else {}
    world = World.model_validate({"uplink": {**link, "loss": loss}, "downlink": link, **tap})
    return world.start(clients, Streams(number))


def fields(columns: TransferColumns, row: int) -> tuple[Any, ...]:
    """One transfer of several, in the order of `expected`."""
    again = int(columns.attempts[row]) - 1
    resent_s = tuple(float(one[row]) for one in columns.resent_at_s[:again])
    resent_bytes = tuple(int(one[row]) for one in columns.resent_bytes[:again])
    assert not any(one[row] for one in columns.resent_bytes[again:])
    numbers = (columns.duration_s, columns.delivered, columns.attempts, columns.sent_bytes)
    return (*(one[row] for one in (*numbers, columns.overheard_s, columns.caught_s)), resent_s, resent_bytes)


def expected(transfer: Transfer) -> tuple[Any, ...]:
    numbers = (transfer.duration_s, transfer.delivered, transfer.attempts, transfer.sent_bytes)
    return (*numbers, transfer.overheard_s, transfer.caught_s, transfer.resent_at_s, transfer.resent_bytes)


@pytest.mark.parametrize("number", range(30))
def test_tasks_drawn_at_once_are_those_drawn_alone(number: int) -> None:
    world = drawn_world(number, 40)
    samples = np.arange(1, 41)
    tasks = [(client, turn) for client in range(40) for turn in (0, client)]
    drawn = TaskBlocks(world, 1000, 1999, samples, 3).draw(tasks)
    for row, (client, turn) in enumerate(tasks):
        alone = world.task(client, turn)
        assert drawn.compute_s[row] == alone.compute_s(int(samples[client]), 3)
        assert drawn.are_plain[row] == (drawn.down.is_drawn[row] and drawn.up.is_drawn[row])
        for columns, transfer in ((drawn.down, alone.download(1000)), (drawn.up, alone.upload(1999))):
            if columns.is_drawn[row]:
                assert fields(columns, row) == expected(transfer)


def test_clients_that_drop_out_are_not_plain() -> None:
    device = {"kind": "fixed", "s_per_sample": 0.01, "jitter": {"kind": "exponential", "mean": 2.0}}
    state = World.model_validate({"dropout": 0.5, "device": device}).start(60, Streams(1))
    tasks = [(client, 0) for client in range(60)]
    drawn = TaskBlocks(state, 1000, 1000, np.full(60, 7)).draw(tasks)
    alone = [state.task(*one) for one in tasks]
    assert drawn.are_plain.tolist() == [one.dropout() is None for one in alone]
    assert 10 < np.count_nonzero(drawn.are_plain) < 50
    assert drawn.compute_s.tolist() == [one.compute_s(7) for one in alone]


def test_transfers_with_jitter_and_clients_that_may_give_up_are_not_drawn_at_once() -> None:
    for settings in ({"uplink": {"jitter_s": 0.1}}, {"dropout_per_s": 0.1}):
        state = World.model_validate(settings).start(5, Streams(0))
        assert not TaskBlocks(state, 1000, 1000, np.full(5, 7)).are_possible
