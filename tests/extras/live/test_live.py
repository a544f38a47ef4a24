"""Whole live federations: on virtual time, and in real time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.extras.live.client import LiveClient
from asyncfl.extras.live.client_messages import Gone
from asyncfl.extras.live.clock import LiveTiming
from asyncfl.extras.live.host import Host
from asyncfl.extras.live.live_run import local_clients
from asyncfl.extras.live.local_training import LocalTraining
from asyncfl.protocol.event_query import select
from asyncfl.protocol.messages import Fate
from asyncfl.results.run_tables import rounds_table
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.simulation.seed_run import SeedRun
from tests.extras.live.conftest import SMALL, hold_seed

Scene = Callable[[Host, list[LiveClient]], Awaitable[None]]


def held(description: dict[str, Any], scene: Scene, *, shape: bool = False, real: bool = False) -> SeedRun:
    """Run a seed while `scene` runs beside it."""
    scenario = Scenario.read({**SMALL, **description})

    async def with_clients(host: Host, executor: Executor) -> None:
        clients = local_clients(host, executor, Streams(5))
        running = [asyncio.ensure_future(client.run()) for client in clients]
        await scene(host, clients)
        await asyncio.gather(*running)

    return hold_seed(scenario, with_clients, timing=LiveTiming(shape=shape), real=real)


async def nothing(host: Host, clients: list[LiveClient]) -> None:
    """Nothing happens beside it."""


def whole(run: SeedRun) -> None:
    """Fates add up, and no update is counted twice."""
    kinds = run.events["kind"].to_pylist()
    assert kinds.count("dispatched") == sum(run.fates.values())
    aggregated = [row["task"] for row in run.events.to_pylist() if row["kind"] == "aggregated"]
    assert len(aggregated) == len(set(aggregated)) == run.fates["aggregated"]
    times = run.events["time_s"].to_numpy()
    assert np.all(np.diff(times) >= 0)


@pytest.mark.parametrize("shape", [False, True])
def test_a_run_in_real_time_ends_with_whole_tables(shape: bool) -> None:
    run = held({"world": {"device": {"kind": "fixed", "s_per_sample": 0.001}}}, nothing, shape=shape, real=True)
    assert run.stopped == "all versions published"
    assert [row["version"] for row in run.rounds] == [0, 1, 2, 3]
    assert run.rounds[-1]["test_accuracy"] > 0.05
    whole(run)


def test_a_client_whose_message_cannot_be_true_is_refused_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def lie(host: Host, clients: list[LiveClient]) -> None:
        while host.live.server.version < 1:
            await asyncio.sleep(0.01)
        clients[2]._say(Gone(10**6, Fate.LOST_UP, ()))

    protocol = {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "continuous"}}
    world = {"device": {"kind": "fixed", "s_per_sample": 0.03}}
    with caplog.at_level(logging.WARNING, "asyncfl.extras.live"):
        run = held({"protocol": protocol, "world": world}, lie, shape=True)
    assert run.stopped == "all versions published"
    assert "client 2 takes part no longer: task 1000000 is not one that client 2 is at" in caplog.text
    last = select(run.events, kinds=["dispatched"]).to_pandas().groupby("client")["time_s"].max()
    assert last[2] < last.drop(2).min()
    whole(run)


def test_a_training_that_fails_ends_the_run_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    train = LocalTraining.train

    def fails(self: LocalTraining, assignment: Any, *more: Any) -> Any:
        if assignment.client == 3:
            raise OSError("no memory for client 3")
        return train(self, assignment, *more)

    monkeypatch.setattr(LocalTraining, "train", fails)
    with pytest.raises(OSError, match="no memory for client 3"):
        held({}, nothing)


BUFFERED = {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
SLOW = {
    "device": {"kind": "lognormal", "median_s_per_sample": 0.2, "sigma": 0.5},
    "failure_detection": {"kind": "lease", "seconds": 1.0},
}


def test_downloads_count_from_their_end_and_not_from_the_end_of_their_task(live: Any) -> None:
    """Clients report them with their updates, when later versions are out already; a simulation counts them at once."""
    world = {**SLOW, "downlink": {"latency_s": 0.1, "bandwidth_bps": 1e6}, "uplink": {"bandwidth_bps": 3e5}}
    scenario = Scenario.read({**SMALL, "protocol": {**BUFFERED, "rounds": 12}, "world": world})
    run, simulated = live(scenario), simulate_clock(scenario, 0)
    expected = rounds_table(simulated).select(["time_s", "bytes_down", "bytes_up"]).to_pylist()
    found = [{name: row[name] for name in expected[0]} for row in run.rounds]
    assert found == [{**row, "time_s": pytest.approx(row["time_s"])} for row in expected]
    assert run.traffic.bytes_down == simulated.traffic.bytes_down


def test_an_interrupted_run_is_whole() -> None:
    async def interrupt(host: Host, clients: list[LiveClient]) -> None:
        while host.live.server.version < 1:
            await asyncio.sleep(0.01)
        host.end("interrupted")

    run = held({"world": SLOW, "protocol": {**BUFFERED, "rounds": 500}}, interrupt, shape=True)
    assert run.stopped == "interrupted"
    assert 1 <= run.rounds[-1]["version"] < 500
    assert run.fates["unfinished"] > 0
    assert run.events["kind"].to_pylist()[-1] == "stopped"
    whole(run)


def test_every_message_on_a_tapped_real_link_counts_as_overheard(live: Any) -> None:
    """The tap of the scenario misses half of the packets, but nobody sees which of a real link."""
    privacy = {"kind": "local_gaussian", "epsilon": 5.0}
    tap = {"uplink": True, "downlink": True, "packet_loss": 0.5}
    scenario = Scenario.read({**SMALL, "privacy": privacy, "training": {**SMALL["training"], "gradient_clip": 1.0}})
    run = live(scenario.override({"world.tap": tap}), shape=False)
    uploads = select(run.events, kinds=["uploaded"])["client"].to_pylist()
    assert run.traffic.overheard_up == Counter(uploads)
    rows = {(row["client"], row["adversary"]): row["exact_epsilon"] for row in SeedLedger(run).ledger.to_pylist()}
    for client in set(uploads):
        assert rows[client, "eavesdropper"] == rows[client, "server"] > 0
    assert any("every message on a tapped link counts as overheard" in note for note in run.notes)


@pytest.mark.parametrize("shape", [True, False])
def test_only_a_shaped_run_in_one_process_shares_its_noise_with_the_simulation_and_says_so(
    live: Any, shape: bool
) -> None:
    privacy = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0}
    run = live(Scenario.read({**SMALL, "privacy": privacy}), shape=shape)
    assert any(note.startswith("noise follows from seed and noise_seed") for note in run.notes) == shape
