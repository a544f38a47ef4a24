"""Whole seeds on the clock, with real training on stand-in data."""

from typing import Any

import numpy as np
import pytest

from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock, simulate_seed


def test_a_synchronous_seed_trains_all_clients_each_round(scenario: Scenario) -> None:
    run = simulate_seed(scenario, 0)
    assert run.stopped == "all versions published"
    assert [row["version"] for row in run.rounds] == [0, 1, 2, 3]
    assert [row["participants"] for row in run.rounds] == [0, 5, 5, 5]
    assert run.rounds[-1]["train_loss"] < run.rounds[0]["train_loss"]
    assert run.fates["aggregated"] == sum(run.fates.values()) == 15
    assert (run.trained, run.used) == (15, 15)


def test_time_is_the_slowest_client_of_each_round(scenario: Scenario) -> None:
    links = {"downlink": {"latency_s": 0.25}, "uplink": {"latency_s": 0.5}}
    world = {"device": {"kind": "fixed", "s_per_sample": 0.01}, **links}
    run = simulate_seed(scenario.override({"world": world}), 0)
    # 20 samples of 10 ms, and both latencies: links have no limit but those.
    assert [row["time_s"] for row in run.rounds] == pytest.approx([0.0, 0.95, 1.9, 2.85])


def test_the_clock_alone_has_the_same_events_as_the_training(scenario: Scenario) -> None:
    lossy = scenario.override(
        {
            "world.uplink.loss": {"kind": "independent", "probability": 0.3},
            "world.uplink.retransmissions": 1,
            "world.tap": {"uplink": True, "downlink": True, "packet_loss": 0.1},
        }
    )
    trained, timed = simulate_seed(lossy, 0), simulate_clock(lossy, 0)
    assert trained.events.to_pandas().equals(timed.events.to_pandas())
    assert trained.traffic == timed.traffic
    assert timed.trained == 0


def test_nbafl_clips_to_the_median_and_both_sides_add_their_noise(scenario: Scenario) -> None:
    private = scenario.override(
        {"protocol.rounds": 4, "privacy": {"kind": "nbafl", "epsilon": 60, "exposures": 1, "constant": 1.25}}
    )
    run = simulate_seed(private, 0)
    row = run.rounds[1]
    c = 1.25 * np.sqrt(2 * np.log(1.25 / 0.01))
    assert row["sigma_u"] == pytest.approx(c * 2 * row["clip_norm"] / (20 * 60))
    # T = 4 rounds are more than L sqrt(N) = 2.24 uploads' worth of noise.
    assert row["sigma_d"] == pytest.approx(2 * c * row["clip_norm"] * np.sqrt(16 - 5) / (20 * 5 * 60))


@pytest.mark.parametrize(
    "protocol",
    [
        {"kind": "buffered", "rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
        {"kind": "fedasync", "rounds": 5, "in_flight": 3},
        {"kind": "fedbuff", "rounds": 5, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
    ],
)
def test_asynchronous_protocols_learn_from_stale_updates(scenario: Scenario, protocol: dict[str, Any]) -> None:
    run = simulate_seed(scenario.override({"protocol": protocol}), 0)
    assert run.rounds[-1]["version"] == 5
    assert run.rounds[-1]["train_loss"] < run.rounds[0]["train_loss"]
    assert max(row["staleness_max"] for row in run.rounds) > 0
    assert run.trained == run.used == run.fates["aggregated"]
