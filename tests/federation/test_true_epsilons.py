"""Epsilons of whole runs against likelihood-ratio attacks on their schedules.

Only the schedule of a run is used: which uploads entered which version with which weight, and which messages were
overheard. On it a federation of one parameter is drawn with its noise, as it was and with one client's data exchanged.
The attacker has the ratio of the likelihoods of all its observations. The delta of an epsilon is estimated from many
draws of that ratio, without any formula of the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncfl.federation import SeedLedger, SeedRun
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.trace import Kind
from asyncfl.trace.query import select

WHOLE = {"world.uplink.mtu_bytes": 10**6, "world.downlink": {"mtu_bytes": 10**6}}
"""One packet per message."""
UNJUDGED = {"evaluation": {"train_every": 0, "test_every": 0}}
DRAWS = 50_000


def delta_at(epsilon: float, noises: np.ndarray, shift: np.ndarray) -> float:
    """Smallest delta that goes with `epsilon`: E[(1 - exp(epsilon - ratio))+] over draws of the other world.

    `noises` (k, n): how each of k observations follows from n unit normals; `shift` (k,): where the other world's lie.
    Drawn between and beyond the worlds, where the ratio is about `epsilon`, and weighed by how likely that is.
    """
    covariance = noises @ noises.T
    size = float(shift @ np.linalg.solve(covariance, shift))
    place = (epsilon + size / 2) / size
    observed = place * shift[:, None] + noises @ np.random.default_rng(7).standard_normal((noises.shape[1], DRAWS))

    def log_density(mean: np.ndarray) -> np.ndarray:
        apart = observed - mean[:, None]
        return np.asarray(-0.5 * np.sum(apart * np.linalg.solve(covariance, apart), axis=0))

    ratio = log_density(shift) - log_density(0 * shift)
    weight = np.exp(log_density(shift) - log_density(place * shift))
    return float(np.mean(weight * np.maximum(0.0, -np.expm1(np.minimum(epsilon - ratio, 0.0)))))


def told(run: SeedRun, client: int) -> float:
    ledger = SeedLedger(run).ledger.to_pandas()
    rows = ledger[(ledger["adversary"] == "eavesdropper") & (ledger["holder"] == "client")].set_index("client")
    return float(rows.loc[client, "exact_epsilon"])


def run_of(scenario: Scenario, seed: int, **changes: Any) -> SeedRun:
    return simulate_seed(scenario.override({**UNJUDGED, **WHOLE, **changes}), seed)


def test_missed_models_are_revealed_by_later_ones(scenario: Scenario) -> None:
    """The server's noise, z = 1.1, replace; 8 clients, buffer 4, 60 versions, nine packets of ten lost, one a message:
    of the 16 versions caught twelve have an update of the client in them, and their releases alone make 45.9."""
    changes: dict[str, Any] = {
        "data.clients": 8,
        "protocol": {
            "kind": "buffered",
            "rounds": 60,
            "buffer": 4,
            "dispatch": {"kind": "constant", "in_flight": 4},
            "staleness": {"kind": "constant"},
        },
        "world.tap": {"uplink": False, "downlink": True, "packet_loss": 0.9},
        "privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.1, "noise_at": "server", "neighbours": "replace"},
    }
    run, client = run_of(scenario, 38, **changes), 3
    caught = sorted(run.traffic.overheard_versions - {0})
    assert len(caught) == 16
    # A version moves by a quarter of each update, of norm 1; the server's noise is z for its most frequent client.
    noises, shift = np.zeros((61, 60)), np.zeros(61)
    for version in range(1, 61):
        times = np.bincount([upload.client for upload in run.models[version].uploads], minlength=8)
        noises[version:, version - 1] = 1.1 * times.max() / 4
        shift[version:] += 2 * times[client] / 4
    steps = np.diff(shift, prepend=0.0)[caught] / np.array([noises[version, version - 1] for version in caught])
    assert np.count_nonzero(steps) >= 12
    alone = delta_at(45.9, np.eye(16), steps)
    assert alone == pytest.approx(1e-5, rel=0.05), "what was told is right for the caught versions by themselves"
    assert delta_at(45.9, noises[caught], shift[caught]) > 1000 * 1e-5, "and far from it for what they carry"
    assert delta_at(66.7, noises[caught], shift[caught]) == pytest.approx(1e-5, rel=0.05)
    # What is told grants every version up to the last that was caught.
    every = np.arange(1, caught[-1] + 1)
    assert told(run, client) > 66.7
    assert delta_at(told(run, client), noises[every], shift[every]) == pytest.approx(1e-5, rel=0.05)


def test_a_model_reveals_the_models_it_was_trained_from(scenario: Scenario) -> None:
    """DP-SGD, z = 4, two clients; only the last upload is overheard, whose own release has epsilon 1.99."""
    changes: dict[str, Any] = {
        "data.clients": 2,
        "protocol.rounds": 20,
        "training.batch_size": "full",
        "training.example_clip": 1.0,
        "training.example_noise": 4.0,
        "privacy": {"kind": "dp_sgd", "noise_multiplier": 4.0},
        "world.tap": {"uplink": True, "downlink": False, "packet_loss": 0.96},
    }
    run, client = run_of(scenario, 200, **changes), 0
    heard = select(run.events, kinds=[Kind.OVERHEARD]).to_pylist()
    caught = [(one["client"], one["base_version"]) for one in heard if one["detail"] == "up"]
    assert caught == [(client, 19)]
    # A sum of gradients clipped to 1 moves by 2, with noise of 4 on it; a version is the mean of two such steps.
    assert all(sorted(one.client for one in run.models[version].uploads) == [0, 1] for version in range(1, 20))
    noises = np.array([[*np.full(2 * 19, 4 / 2), 4.0]])
    shift = np.array([19 * 2 / 2 + 2.0])
    assert delta_at(1.99, np.array([[4.0]]), np.array([2.0])) == pytest.approx(1e-5, rel=0.05)
    assert delta_at(1.99, noises, shift) > 1000 * 1e-5
    assert delta_at(7.73, noises, shift) == pytest.approx(1e-5, rel=0.05)
    # What is told grants the adversary every version that the upload was made from.
    granted = np.array([[*np.full(2, 4 / 2)]])
    assert told(run, client) > 7.73
    steps = np.array([*np.full(19, 1.0 / np.linalg.norm(granted)), 2 / 4])
    assert delta_at(told(run, client), np.eye(20), steps) <= 1e-5 * 1.05
