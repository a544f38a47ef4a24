"""Compressed uploads and downloads in whole seeds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.base.arrays import Vector
from asyncfl.base.instrument import Instrument
from asyncfl.client import Assignment, Batch
from asyncfl.client.compression import Downloads, Quantised
from asyncfl.protocol.event_query import select
from asyncfl.protocol.messages import Publish
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.phases import Workload
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.seed_run import SeedRun

BITS = {"kind": "quantised", "bits": 4}
DESCRIPTION: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 4, "samples_per_client": 10, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": [4]},
    "training": {"lr": 0.1, "batch_size": 5, "epochs": 1},
    "protocol": {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}},
    "world": {
        "device": {"kind": "listed", "s_per_sample": [0.1, 0.15, 0.4, 0.5]},
        "downlink": {"bandwidth_bps": 8000},
        "uplink": {"bandwidth_bps": 8000},
    },
    "download_compression": BITS,
}
N = 784 * 4 + 4 + 4 * 10 + 10
SENT = -(-4 * N // 8) + 4


def scenario(**changes: Any) -> Scenario:
    return Scenario.read(DESCRIPTION).override(changes)


class Seen(Instrument):
    """Stores the models that clients were sent and that the server published."""

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.models: dict[int, Vector] = {}
        self.federation: Federation

    def begin_seed(self, federation: Federation) -> None:
        self.federation = federation

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> None:
        self.models[publish.version] = publish.model.copy()

    def collected(self, batch: Batch) -> None:
        self.assignments += [replace(assignment, base=assignment.base.copy()) for assignment in batch.assignments]


def watched(**changes: Any) -> tuple[Seen, SeedRun]:
    seen = Seen()
    return seen, simulate_seed(scenario(**changes), 0, [seen])


def test_all_clients_train_from_the_same_quantised_model() -> None:
    seen, _ = watched()
    made = Downloads(Quantised(bits=4), seen.federation.resolved.streams)
    assert {assignment.base_version for assignment in seen.assignments} >= {0, 1, 2}
    assert len({assignment.client for assignment in seen.assignments if assignment.base_version == 0}) == 4
    for assignment in seen.assignments:
        published = seen.models[assignment.base_version]
        assert (assignment.base == made(published, assignment.base_version).model).all()
        assert (assignment.base != published).any()
        assert len(np.unique(assignment.base)) <= 15


@pytest.mark.parametrize("rule", ["mean", "median"])
def test_updates_are_differences_from_the_downloaded_model(rule: str) -> None:
    """Clients that learn nothing leave the server's model unchanged, despite the rounding of downloads."""
    seen, _ = watched(**{"training.lr": 1e-30, "defence.rule": {"kind": rule}})
    for model in seen.models.values():
        np.testing.assert_allclose(model, seen.models[0], atol=1e-6)


def test_downloads_take_time_and_bytes_of_the_compressed_model() -> None:
    run = simulate_clock(scenario(), 0)
    started = select(run.events, kinds=["download_started"])
    assert set(started["bytes"].to_pylist()) == {SENT}
    assert select(run.events, kinds=["downloaded"])["time_s"].to_pylist()[0] == pytest.approx(SENT * 8 / 8000)
    assert set(select(run.events, kinds=["upload_started"])["bytes"].to_pylist()) == {4 * N}
    whole = simulate_clock(scenario(download_compression={"kind": "none"}), 0)
    assert select(whole.events, kinds=["downloaded"])["time_s"].to_pylist()[0] == pytest.approx(N * 4 * 8 / 8000)
    assert run.rounds[-1]["bytes_down"] % SENT == 0


def rows(**changes: Any) -> Sequence[dict[str, Any]]:
    private = {"privacy": {"kind": "dp_fedavg", "clip_norm": 0.5, "noise_multiplier": 2.0}}
    run = simulate_seed(scenario(**private, **changes), 0)
    post = [note for note in run.notes if "post-processing" in note]
    assert len(post) == (run.resolved is not None and not run.resolved.scenario.download_compression.off)
    return SeedLedger(run).ledger.to_pylist()


def test_quantised_downloads_change_no_epsilon() -> None:
    """Noise comes first, and rounding depends on no data: the same claims and bounds, at the same times."""
    still = {"world.downlink.bandwidth_bps": float("inf")}
    assert rows(**still) == rows(**still, download_compression={"kind": "none"})


def test_models_to_score_are_sent_uncompressed() -> None:
    changes = {"defence.detector": {"kind": "safl"}, "protocol.buffer": 3}
    run = simulate_clock(scenario(), 0)
    assert not len(select(run.events, kinds=["scores_requested"]))
    scored = select(simulate_seed(scenario(**changes), 0).events, kinds=["scores_requested"])
    for detail, size in zip(scored["detail"].to_pylist(), scored["bytes"].to_pylist(), strict=True):
        assert size == int(detail.split()[0]) * 4 * N


@pytest.mark.parametrize(
    "compression", [{"kind": "quantised", "bits": 4}, {"kind": "top_k", "share": 0.05}], ids=lambda one: one["kind"]
)
def test_bytes_and_times_are_those_of_the_compressed_update(scenario: Scenario, compression: dict[str, object]) -> None:
    plain, small = scenario, scenario.override({"compression": compression})
    before, after = simulate_seed(plain, 0), simulate_seed(small, 0)
    load = Workload.of(small, after.sizes)
    assert load.upload_bytes == small.compression.payload_bytes(small.n_parameters) < load.payload_bytes
    assert after.traffic.bytes_up == sum(after.fates.values()) * load.upload_bytes
    assert after.traffic.bytes_down == before.traffic.bytes_down
    assert after.rounds[-1]["time_s"] < before.rounds[-1]["time_s"]
    assert after.rounds[-1]["train_loss"] != before.rounds[-1]["train_loss"]
    clock = simulate_clock(small, 0)
    assert [row["time_s"] for row in clock.rounds] == [row["time_s"] for row in after.rounds]


def test_notes_tell_the_effect_of_compression_on_privacy(scenario: Scenario) -> None:
    private = {"privacy": {"kind": "nbafl", "epsilon": 60, "clip_norm": 5.0}, "compression": {"kind": "quantised"}}
    (seed,) = simulate(scenario.override(private)).summary["seeds"].values()
    assert any("post-processing" in note and "longer than the clipping norm" in note for note in seed["notes"])
    (plain,) = simulate(scenario.override({"compression": {"kind": "quantised"}})).summary["seeds"].values()
    assert not any("post-processing" in note for note in plain["notes"])
