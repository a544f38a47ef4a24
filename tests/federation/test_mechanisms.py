"""Privacy mechanisms in whole seeds, synchronous and asynchronous."""

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from asyncfl.federation import SeedRun
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

BUFFERED = {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}
GAUSSIAN = {"kind": "gaussian", "epsilon": 1.0}


def run_of(scenario: Scenario, privacy: dict[str, Any], **changes: Any) -> SeedRun:
    return simulate_seed(scenario.override({"privacy": privacy, **changes}), 0)


def weights_of_clients(run: SeedRun) -> list[dict[int, float]]:
    """Return for each version the total weight of each client's updates."""
    judged = run.events.filter(pc.equal(run.events["kind"].cast(pa.string()), "aggregated"))
    weight = dict(zip(judged["task"].to_pylist(), judged["weight"].to_pylist(), strict=True))
    found: list[dict[int, float]] = [defaultdict(float) for _ in run.rounds[1:]]
    for version, model in run.models.items():
        for upload in model.uploads:
            found[version - 1][upload.client] += weight[upload.task]
    return found


@pytest.mark.parametrize("protocol", [{"kind": "sync", "rounds": 3}, BUFFERED])
@pytest.mark.parametrize(
    ("client", "server"), [(None, LAPLACE), (GAUSSIAN, None), (LAPLACE, None), (GAUSSIAN, LAPLACE), (LAPLACE, LAPLACE)]
)
def test_any_mechanism_runs_in_any_protocol(
    scenario: Scenario, protocol: dict[str, Any], client: Any, server: Any
) -> None:
    private = {"kind": "mechanisms", "clip": {"norm": 0.01}, "client": client, "server": server}
    run = run_of(scenario, private, protocol=protocol)
    assert run.rounds[-1]["version"] == protocol["rounds"]
    rows = run.rounds[1:]
    n = rows[0]["participants"]
    assert all(row["sigma_u"] > 0 for row in rows) == (client is not None)
    # Asynchronous, a client may have both updates of a version, or a stale one.
    unit = 0.0 if server is None else np.sqrt(2) * 2 * 0.01
    heaviest = [max(weights.values()) for weights in weights_of_clients(run)] if protocol is BUFFERED else [1 / n] * 3
    assert [row["sigma_d"] for row in rows] == pytest.approx([unit * weight for weight in heaviest])
    assert {one.release.distribution for one in run.uploads} == {"laplace" if client is LAPLACE else "gaussian"}
    if client is not None:
        assert {one.release.epsilon for one in run.uploads} == {1.0}


def test_the_server_rate_scales_the_step_and_its_noise(scenario: Scenario) -> None:
    private = {"kind": "dp_fedavg", "noise_multiplier": 0.1, "clip_norm": 0.5, "noise_at": "server"}
    once, twice = (run_of(scenario, private, **{"protocol.server_rate": rate}) for rate in (1.0, 2.0))
    assert once.rounds[1]["sigma_d"] == pytest.approx(0.1 * 0.5 / 5)
    assert twice.rounds[1]["sigma_d"] == pytest.approx(2 * 0.1 * 0.5 / 5)
    assert once.rounds[1]["sigma_u"] == 0


def test_an_adaptive_clip_norm_is_in_the_table_of_rounds(scenario: Scenario) -> None:
    private = {"kind": "dp_fedavg", "noise_multiplier": 0.1, "clip_norm": 0.001, "adaptive": {"learning_rate": 1.0}}
    run = run_of(scenario, private, **{"protocol.rounds": 5})
    norms = [row["clip_norm"] for row in run.rounds[1:]]
    assert norms[0] == 0.001
    assert norms[-1] > 3 * norms[0]
    assert [one.release.multiplier for one in run.uploads] == pytest.approx([0.05] * 25)


def test_dp_sgd_draws_its_noise_in_training(scenario: Scenario) -> None:
    private = {"kind": "dp_sgd", "clip_norm": 0.5, "noise_multiplier": 2.0}
    training = {"training.example_clip": 0.5, "training.example_noise": 2.0, "training.epochs": 2}
    run, again = (run_of(scenario, private, **training) for _ in range(2))
    assert list(run.rounds) == list(again.rounds)
    assert {(one.release.std, one.release.sensitivity, one.release.count) for one in run.uploads} == {(1.0, 1.0, 2)}
    assert all(row["sigma_u"] == 0 for row in run.rounds)
    clean = run_of(scenario, {"kind": "none"}, **{"training.epochs": 2})
    assert run.rounds[-1]["train_loss"] != clean.rounds[-1]["train_loss"]
