"""Clients with their own samples join, leave, come back and are refused."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import gather, run_of
from asyncfl.client.compression import Quantised, TopK
from asyncfl.federation.seed_ledger import SeedLedger
from asyncfl.live.task_runner import ClientSetup
from asyncfl.scenario import Scenario
from asyncfl.testing.recordings import replay_run
from asyncfl.trace.query import select
from tests.live.apart import Table, apart
from tests.live.conftest import SMALL
from tests.live.test_live import whole

BUFFERED = {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "continuous"}}
WORLD = {"device": {"kind": "fixed", "s_per_sample": 0.05}, "failure_detection": {"kind": "lease", "seconds": 3.0}}
DESCRIPTION: dict[str, Any] = {"protocol": BUFFERED, "world": WORLD}


def kinds(run: Any, client: int) -> list[str]:
    return [row["kind"] for row in run.events.to_pylist() if row["client"] == client]


def test_clients_may_join_a_run_that_has_begun(tmp_path: Path) -> None:
    async def scene(table: Table) -> None:
        table.sit("ann", 30)
        table.sit("bob", 40)
        await table.until(lambda: table.host.live.server.version >= 2)
        table.sit("cid", 25)

    run, table = apart(DESCRIPTION, tmp_path, scene)
    assert run.stopped == "all versions published"
    assert sorted(run.sizes[:3].tolist()) == [25, 30, 40]
    assert run.sizes[3:].tolist() == [20, 20, 20]
    assert {client for client in range(6) if "dispatched" in kinds(run, client)} == {0, 1, 2}
    assert all(client.ended_well for client in table.clients.values())
    assert all(np.isnan(row["train_loss"]) and row["test_accuracy"] > 0 for row in run.rounds)
    assert any("samples of their own" in note for note in run.notes)
    whole(run)


def test_uploads_and_downloads_are_compressed(tmp_path: Path) -> None:
    async def scene(table: Table) -> None:
        table.sit("ann", 30)
        table.sit("bob", 40)

    ways = {"compression": {"kind": "top_k", "share": 0.1}, "download_compression": {"kind": "quantised", "bits": 4}}
    run, table = apart({**DESCRIPTION, **ways}, tmp_path, scene, shape=False)
    assert run.stopped == "all versions published"
    sizes = {kind: set(select(run.events, kinds=[kind])["bytes"].to_pylist()) for kind in ("uploaded", "downloaded")}
    n = table.host.live.federation.learner.n_parameters
    assert sizes == {"uploaded": {TopK(share=0.1).payload_bytes(n)}, "downloaded": {Quantised(bits=4).payload_bytes(n)}}
    for way, kind in (("bytes_up", "uploaded"), ("bytes_down", "downloaded")):
        assert 0 < run.rounds[-1][way] <= len(select(run.events, kinds=[kind])) * max(sizes[kind]) + 4 * n
    whole(run)


RESIDUAL = "without what compression had left of their updates"


BUDGETS = {"kind": "local_gaussian", "epsilon": 5.0, "stop_at": {"epsilon": 500.0, "accountant": "naive"}}


@pytest.mark.parametrize(
    ("description", "note"),
    [
        ({"compression": {"kind": "top_k", "share": 0.1}}, RESIDUAL),
        ({"compression": {"kind": "top_k", "share": 0.1, "error_feedback": False}}, None),
        ({"model": {**SMALL["model"], "personal": ["3.*"]}}, "and began with the initial personal layers again"),
        ({"privacy": BUDGETS, "training": {**SMALL["training"], "gradient_clip": 1.0}},
         "whose budgets began at zero; the ledger counts what all processes of a client sent, which may exceed "
         "stop_at"),
    ],
    ids=["residual", "nothing", "personal layers", "budgets"],
)  # fmt: skip
def test_the_state_that_a_restarted_client_loses_is_noted(
    tmp_path: Path, description: dict[str, Any], note: str | None
) -> None:
    async def scene(table: Table) -> None:
        table.sit("ann")
        table.sit("bob")
        await table.until(lambda: table.host.live.server.version >= 1)
        # It dies without a word.
        table.running["ann"].cancel()
        await asyncio.gather(table.running["ann"], return_exceptions=True)
        table.sit("ann")

    run, table = apart({**DESCRIPTION, **description}, tmp_path, scene)
    number = table.host.live.clients.by_name["ann"].number
    notes = [one for one in run.notes if "came back as other processes" in one]
    start = f"live: clients {number} came back as other processes,"
    assert notes == ([] if note is None else [f"{start} {note}"])


def test_a_failing_client_raises_its_error_and_the_others_continue(tmp_path: Path) -> None:
    async def scene(table: Table) -> None:
        table.sit("ann")
        table.sit("bob")
        broken = table.sit("cid")
        await table.until(lambda: broken._setup is not None)
        assert broken._setup is not None

        def fails(*_: object) -> None:
            raise RuntimeError("out of paper")

        broken._setup.training.train = fails  # type: ignore[method-assign, assignment]
        with pytest.raises(RuntimeError, match="out of paper"):
            await table.running["cid"]

    run, _ = apart(DESCRIPTION, tmp_path, scene, at_least=3)
    assert run.stopped == "all versions published"
    whole(run)


NOISY: dict[str, Any] = {
    "privacy": {"kind": "local_gaussian", "epsilon": 5.0, "curious": [0]},
    "training": {**SMALL["training"], "gradient_clip": 1.0},
}


@pytest.mark.parametrize("shape", [False, True])
def test_noise_comes_from_the_secrets_of_clients_and_server_also_in_a_shaped_run(tmp_path: Path, shape: bool) -> None:
    drawn: list[np.ndarray] = []
    noise: list[int] = []

    async def scene(table: Table) -> None:
        for name in ("ann", "bob"):
            client = table.sit(name)
            await table.until(lambda client=client: client._setup is not None)
            setup: ClientSetup = client._setup  # type: ignore[assignment]
            random = setup.training._path().streams.generator("client_noise", setup.number, 0)
            drawn.append(random.standard_normal(4))
        noise.append(table.host.live.federation.path.streams.seed)

    tap = {"uplink": True, "downlink": False}
    one = {**DESCRIPTION, **NOISY, "protocol": {**BUFFERED, "rounds": 1}, "world": {"tap": tap}}
    run, _ = apart(one, tmp_path, scene, shape=shape)
    ours = Scenario.read({**SMALL, **one})
    from asyncfl.federation.prepare import streams_of

    of_seed = [streams_of(ours, 0).generator("client_noise", number, 0).standard_normal(4) for number in (0, 1)]
    assert not any(np.array_equal(*pair) for pair in zip(drawn, of_seed, strict=True))
    assert noise == [1], "the secret of the server in these tests, where the scenario's seed is 0"
    rows = SeedLedger(run).ledger.to_pylist()
    covered = {row["adversary"] for row in rows if row["exact_epsilon"] > 0 and np.isfinite(row["provable"])}
    assert {"eavesdropper", "server", "both"} <= covered
    assert not any("noise follows from seed" in note for note in run.notes)


def test_a_jump_of_a_clients_clock_leaves_the_run_whole(tmp_path: Path) -> None:
    async def scene(table: Table) -> None:
        client = table.sit("ann")
        await table.until(lambda: client._setup is not None)
        setup: ClientSetup = client._setup  # type: ignore[assignment]
        train = setup.training.train

        def jumps(*what: Any) -> Any:
            client._clock._began -= 500.0  # type: ignore[operator]
            return train(*what)

        setup.training.train = jumps  # type: ignore[method-assign]
        table.sit("bob")

    run, table = apart({"protocol": BUFFERED}, tmp_path, scene, shape=False)
    assert run.stopped == "all versions published"
    assert table.clients["ann"]._presence is None  # nobody comes and goes by a simulated world
    whole(run)


def test_a_recorded_run_with_clients_that_came_and_left_replays(tmp_path: Path) -> None:
    async def scene(table: Table) -> None:
        table.sit("ann")
        table.sit("bob")
        await table.until(lambda: table.host.live.server.version >= 1)
        await table.clients["bob"].leave()
        table.sit("cid", 25)

    recorded = {**DESCRIPTION, "evaluation": {"record": "parameters"}}
    run, _ = apart(recorded, tmp_path, scene)
    scenario = Scenario.read({**SMALL, **recorded})
    gather(scenario, [run_of(scenario, run)]).save(tmp_path / "run")
    assert replay_run(tmp_path / "run").unchecked == ()
