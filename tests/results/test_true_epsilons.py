"""Epsilons of whole runs against likelihood-ratio attacks on their schedules.

Only the schedule of a run is used: which uploads entered which version with which weight, and which messages were
overheard. On it a federation of one parameter is drawn with its noise, as it was and with one client's data exchanged.
The attacker has the ratio of the likelihoods of all its observations. The delta of an epsilon is estimated from many
draws of that ratio, without any formula of the package.
"""

from typing import Any

import numpy as np
import pytest

from asyncfl.protocol.event_query import select
from asyncfl.protocol.events import Kind
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed
from asyncfl.simulation.seed_run import SeedRun

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


IN_PART: dict[str, Any] = {
    "data.clients": 2,
    "protocol.rounds": 3,
    "privacy": {"kind": "dp_fedavg", "noise_multiplier": 4.0, "neighbours": "replace"},
    "world.uplink.mtu_bytes": 100,
}
"""Each upload has noise of 4 per coordinate and moves by 2; it goes in 85 packets."""


def test_messages_caught_in_part_are_releases(scenario: Scenario) -> None:
    """85 packets an upload, of which the tap misses a tenth: it never holds a whole upload, and nine tenths of all."""
    run = run_of(scenario, 0, **IN_PART, **{"world.tap": {"uplink": True, "packet_loss": 0.1}})
    assert run.traffic.overheard_up == {}
    (size,) = set(select(run.events, kinds=[Kind.UPLOAD_STARTED])["bytes"].to_pylist())
    assert size > 80 * 100
    # A change that is spread evenly over the coordinates: what is left of it in those that were caught.
    truth = delta_at(told(run, 0), 4 * np.eye(3), np.sqrt(0.9) * 2 * np.ones(3))
    assert 1e-6 < truth < 1e-5
    # The bound is that of a change within the coordinates that were caught.
    assert delta_at(told(run, 0), 4 * np.eye(3), 2 * np.ones(3)) == pytest.approx(1e-5, rel=0.05)


@pytest.mark.parametrize("shared", [False, True])
def test_uploads_that_broke_off_or_were_lost_are_releases(scenario: Scenario, shared: bool) -> None:
    """Uploads take 6.8 s, clients leave after five seconds at most, and half of the packets are lost and not sent
    again: the server never gets one, and the tap no whole one at the receiver."""
    link: dict[str, Any] = {
        "mtu_bytes": 100,
        "bandwidth_bps": 1e4,
        "loss": {"kind": "independent", "probability": 0.5},
        "retransmissions": 0,
        **({"server_bandwidth_bps": 1e9} if shared else {}),
    }
    changes = {
        "world.uplink": link,
        "world.availability": {"kind": "alternating", "on_s": 5.0, "off_s": 1.0},
        "world.tap": {"uplink": True, "at": "receiver"},
        "protocol.time_limit_s": 20,
    }
    run = simulate_seed(scenario.override({**UNJUDGED, **IN_PART, **changes}), 0)
    assert not len(select(run.events, kinds=[Kind.UPLOADED, Kind.OVERHEARD]))
    begun = select(run.events, kinds=[Kind.UPLOAD_STARTED])["client"].to_pylist().count(0)
    assert begun >= 2
    assert delta_at(told(run, 0), 4 * np.eye(begun), 2 * np.ones(begun)) == pytest.approx(1e-5, rel=0.05)


def test_scores_and_models_caught_in_part_are_held(scenario: Scenario) -> None:
    """Models go in 85 packets: with a tenth missed none is caught whole, and each reveals what entered it."""
    tap = {"downlink": True, "packet_loss": 0.1}
    changes = {"world.downlink.mtu_bytes": 100, "world.tap": tap}
    run = simulate_seed(scenario.override({**UNJUDGED, **IN_PART, **changes}), 0)
    assert run.traffic.overheard_versions == set()
    # The last version is published after training and sent to no client; a mean of two carries noise of 4/sqrt 2.
    noises, shift = 4 / np.sqrt(2) * np.eye(2), np.ones(2)
    assert delta_at(told(run, 0), noises, shift) == pytest.approx(1e-5, rel=0.05)
