"""The noise of a run's versions: drawn from streams of their own, and kept by what goes on with a run."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.base.streams import Streams
from asyncfl.learning.normal_noise import StandardNormal
from asyncfl.privacy.correlation import Banded, Factorisation, Tree
from asyncfl.privacy.correlation.noise_stream import NoiseStream
from asyncfl.scenario import Scenario
from asyncfl.testing import replay_run

N = 4000


def noise_of(stream: NoiseStream, version: int, std: float = 1.0) -> np.ndarray[Any, Any]:
    model = np.zeros(N, dtype=np.float32)
    stream.add(model, std, version)
    return model


def test_banded_noise_is_the_solution_of_a_triangular_system() -> None:
    """C x = z for the z of each version's own stream."""
    factorisation, versions = Banded(bands=3, coefficients="square_root"), 5
    stream = NoiseStream(factorisation, versions, Streams(7))
    noise = np.array([noise_of(stream, version) for version in range(1, versions + 1)])
    fresh = [StandardNormal(Streams(7).bits("server_noise", number=version), N).draw() for version in range(1, 6)]
    for row in range(versions):
        total = noise[row] + 0.5 * (noise[row - 1] if row > 0 else 0) + 0.375 * (noise[row - 2] if row > 1 else 0)
        np.testing.assert_allclose(total, fresh[row], atol=1e-5)


@pytest.mark.parametrize("factorisation", [Banded(bands=3), Tree(), Tree(restart=2, complete=True)], ids=repr)
def test_noise_has_the_standard_deviation_that_is_returned(factorisation: Factorisation) -> None:
    stream = NoiseStream(factorisation, 9, Streams(3))
    for version in range(1, 10):
        model = np.zeros(N, dtype=np.float32)
        std = stream.add(model, 0.5, version)
        assert std == pytest.approx(0.5 * factorisation.std(version, 9))
        assert float(model.std()) == pytest.approx(std, rel=6 / np.sqrt(2 * N))


@pytest.mark.parametrize("factorisation", [Banded(bands=3), Tree(restart=3, complete=True)], ids=repr)
def test_a_stream_that_was_stored_goes_on_with_the_same_bytes(factorisation: Factorisation) -> None:
    whole, before = (NoiseStream(factorisation, 9, Streams(3)) for _ in range(2))
    for version in (1, 2, 3, 4):
        noise_of(whole, version)
        noise_of(before, version)
    after = pickle.loads(pickle.dumps(before))
    for version in (5, 6, 7, 8, 9):
        np.testing.assert_array_equal(noise_of(whole, version), noise_of(after, version))


def test_noise_of_versions_that_are_left_out_is_part_of_later_noise() -> None:
    whole, gap = (NoiseStream(Tree(), 9, Streams(3)) for _ in range(2))
    for version in (1, 2, 3):
        noise_of(whole, version)
    noise_of(gap, 1)
    np.testing.assert_array_equal(noise_of(whole, 4), noise_of(gap, 4))


def test_the_noise_of_a_version_is_added_once() -> None:
    stream = NoiseStream(Tree(), 9, Streams(3))
    noise_of(stream, 2)
    with pytest.raises(ValueError, match="noise of version 2 was drawn before; the last was 2"):
        noise_of(stream, 2)


def test_a_version_without_noise_is_not_changed() -> None:
    assert not noise_of(NoiseStream(Tree(), 9, Streams(3)), 1, std=0.0).any()


RUN: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 10, "source": "embedded", "test_samples": 20},
    "model": {"kind": "mlp", "hidden": []},
    "protocol": {"kind": "fedbuff", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}},
    "privacy": {"kind": "dp_ftrl", "noise_multiplier": 1.0, "factorisation": {"kind": "banded", "bands": 3}},
    "evaluation": {"record": "parameters", "test_every": 1},
}


def test_a_recorded_run_replays_to_the_last_bit(tmp_path: Path) -> None:
    scenario = Scenario.read(RUN).override({"protocol.min_separation": 2, "protocol.max_participations": 3})
    simulate(scenario).save(tmp_path / "run")
    assert replay_run(tmp_path / "run").calls > 12


def test_another_noise_seed_draws_other_noise_and_leaves_the_clock() -> None:
    first, second = (simulate(Scenario.read(RUN).override({"noise_seed": seed})).tables for seed in (1, 2))
    assert first["rounds"]["sigma_d"].equals(second["rounds"]["sigma_d"])
    assert first["rounds"]["time_s"].equals(second["rounds"]["time_s"])
    assert not first["rounds"]["test_loss"].equals(second["rounds"]["test_loss"])


def test_independent_noise_of_one_participation_is_that_of_dp_fedavg() -> None:
    """C = I and k = 1: the noise of each version is z S/K, drawn from the same streams."""
    changes = {"protocol.max_participations": 1, "protocol.rounds": 3}
    ftrl = {"kind": "dp_ftrl", "noise_multiplier": 1.5, "factorisation": {"kind": "independent"}}
    fedavg = {"kind": "dp_fedavg", "noise_multiplier": 1.5, "noise_at": "server", "neighbours": "zero_out"}
    ours, theirs = (simulate(Scenario.read(RUN | {"privacy": one}).override(changes)) for one in (ftrl, fedavg))
    for column in ("sigma_d", "test_loss", "time_s"):
        np.testing.assert_allclose(ours.tables["rounds"][column], theirs.tables["rounds"][column], rtol=1e-5)
    epsilons = [
        one.tables["ledger"].to_pandas().query("adversary == 'public'")["exact_epsilon"] for one in (ours, theirs)
    ]
    np.testing.assert_allclose(epsilons[0], epsilons[1])
