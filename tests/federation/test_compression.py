"""Compressed uploads in a run: fewer bytes and less time."""

import pytest

from asyncfl.api import simulate
from asyncfl.federation.phases import Workload
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed


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
