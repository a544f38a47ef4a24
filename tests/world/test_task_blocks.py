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


@pytest.mark.parametrize("number", range(30))
def test_transfers_drawn_at_once_are_those_drawn_alone(number: int) -> None:
    world = drawn_world(number, 40)
    blocks = TaskBlocks(world, 1000, 1999)
    tasks = [(client, turn) for client in range(40) for turn in (0, client)]
    blocks.draw(tasks)
    for client, turn in dict.fromkeys(tasks):
        guessed, alone = blocks.task(client, turn), world.task(client, turn)
        assert guessed is not None
        assert repr(guessed.download(1000)) == repr(alone.download(1000))
        assert repr(guessed.upload(1999)) == repr(alone.upload(1999))
    assert blocks.task(0, 0) is None
