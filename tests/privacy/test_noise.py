"""Drawn noise: its distribution, and its independence between releases."""

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import kstest

from asyncfl.base.streams import Streams
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.noise import ScoreNoise, add_noise, score_sensitivity

SIZE = 20_000


def drawn(distribution, std, seed=0):
    vector = np.zeros(SIZE, dtype=np.float32)
    add_noise(distribution, vector, std, Streams(seed), "client_noise", 0, 0)
    return vector


def test_gaussian_noise_has_its_distribution():
    noise = drawn("gaussian", 0.02589593)
    assert noise.mean() == pytest.approx(0, abs=4 * 0.0259 / SIZE**0.5)
    assert noise.std() == pytest.approx(0.02589593, rel=4 / (2 * SIZE) ** 0.5)
    assert kstest(noise / 0.02589593, "norm").pvalue > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_laplace_noise_has_its_distribution_and_moments(seed):
    noise = drawn("laplace", 2.828427, seed)
    assert kstest(noise, "laplace", args=(0, 2)).pvalue > 0.01
    assert kstest(noise, "norm", args=(0, 2.828427)).pvalue < 1e-6
    assert noise.mean() == pytest.approx(0, abs=4 * 2.83 / SIZE**0.5)
    # Kurtosis 6: the variance of a sample variance is (6 - 1) sigma^4/n.
    assert noise.std() == pytest.approx(2.828427, rel=2 * (5 / SIZE) ** 0.5)
    assert np.abs(noise).mean() == pytest.approx(2, rel=4 / SIZE**0.5)
    assert ((noise / noise.std()) ** 4).mean() == pytest.approx(6, rel=0.25)


@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
def test_noise_is_independent_over_clients_rounds_and_server(distribution):
    """Noise of 6 clients and the server in 6 rounds: no two vectors are equal or correlated."""
    size = 4000
    rows = []
    for purpose, clients in (("client_noise", range(6)), ("server_noise", [-1])):
        for client in clients:
            for task in range(6):
                vector = np.zeros(size, dtype=np.float32)
                add_noise(distribution, vector, 1.0, Streams(3), purpose, client, task)
                rows.append(vector)
    assert len({row.tobytes() for row in rows}) == len(rows) == 42
    assert len({row[:4].tobytes() for row in rows}) == 42
    pairs = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    # 861 pairs, each normal with deviation 1/sqrt(size): 4.9 deviations are passed once in 1000 such tests.
    assert np.abs(pairs).max() < 4.9 / size**0.5
    assert pairs.std() == pytest.approx(size**-0.5, rel=0.1)
    # No vector is a shifted copy of another: correlations at any lag are as small.
    spectra = np.fft.rfft(np.array(rows[:8], dtype=np.float64) / np.std(rows[:8], axis=1, keepdims=True))
    for one in range(8):
        for other in range(one):
            lags = np.fft.irfft(spectra[one] * spectra[other].conj(), size) / size
            assert np.abs(lags).max() < 6.5 / size**0.5
    scale = 2**-0.5 if distribution == "laplace" else 1.0
    name = {"gaussian": "norm", "laplace": "laplace"}[distribution]
    together = np.concatenate(rows)
    assert kstest(together, name, args=(0, scale)).pvalue > 0.01
    # The same across releases at one parameter, which averaging over rounds would reveal.
    across = np.array(rows)[:, :500].ravel()
    assert kstest(across, name, args=(0, scale)).pvalue > 0.01


def test_laplace_noise_overflows_to_infinity():
    assert np.isfinite(drawn("laplace", 1e30)).all()
    assert not np.isfinite(drawn("laplace", 1e39)).any()
    unchanged = np.ones(3, dtype=np.float32)
    add_noise("laplace", unchanged, 0.0, Streams(0), "client_noise")
    assert unchanged.tolist() == [1, 1, 1]


def test_sensitivity_and_noise_of_scores() -> None:
    assert score_sensitivity(1, 50) == 1 / 50
    assert score_sensitivity(4, 50) == 2 / 50
    assert score_sensitivity(9, 50, "client") == 3.0
    assert score_sensitivity(9, 50, personal=True) == 3.0
    assert ScoreNoise(std=0.05).std_of(4, 50, False) == 0.05
    by_budget = ScoreNoise(epsilon=2.0, delta=1e-3)
    assert by_budget.std_of(4, 50, False) == pytest.approx(analytic_multiplier(2.0, 1e-3) * 2 / 50)
    assert by_budget.std_of(4, 50, True) == pytest.approx(analytic_multiplier(2.0, 1e-3) * 2)
    for given, got in (({}, "neither"), ({"std": 1.0, "epsilon": 1.0}, "both")):
        with pytest.raises(ValidationError, match=f"give either std or epsilon, got {got}"):
            ScoreNoise.model_validate(given)
