"""Weights of clients in a published model: sums by hand, and laws of the server learning rate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy import Contribution, DpFedAvg, GaussianNoise, Mechanisms, Nbafl, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.client_weights import (
    client_sensitivities,
    clipped_sgd_sensitivity,
    max_client_weight,
    noise_of_clients,
    noise_scale,
    relative_weights,
)
from asyncfl.privacy.ledger.releases import model_releases

CONTEXT = PrivacyContext(clients=6, participants=4, rounds=5, smallest_samples=10, exposures=1)


def entered(weights, clients, rate=1.0):
    return [Contribution(client, 10, weight=rate * weight) for weight, client in zip(weights, clients, strict=True)]


def test_a_uniform_mean_has_exact_weights():
    for n in (3, 7, 49, 100):
        for rate in (1.0, 0.3):
            context = replace(CONTEXT, rate=rate)
            even = entered([1 / n] * n, range(n), rate)
            assert relative_weights(context, even) == [1.0] * n
            assert max_client_weight(context, even) == noise_scale(context, even) == 1
            assert set(client_sensitivities(context, even, lambda one: 7.0).values()) == {rate * 7.0 / n}
            assert noise_of_clients(context, even, [2.0] * n) == pytest.approx(rate * 2 / math.sqrt(n))


def test_weights_of_several_updates_of_one_client_add_up():
    three_times = entered([0.25] * 4, [4, 4, 1, 4])
    assert client_sensitivities(CONTEXT, three_times, lambda one: 2.0) == {4: 1.5, 1: 0.5}
    assert max_client_weight(CONTEXT, three_times) == 3
    assert noise_scale(CONTEXT, three_times) == 1


def test_a_fresh_update_among_stale_ones_has_more_sensitivity_than_noise():
    mixed = entered([0.25, 0.125, 0.125, 0.125], range(4))
    assert client_sensitivities(CONTEXT, mixed, lambda one: 2.0) == {0: 0.5, 1: 0.25, 2: 0.25, 3: 0.25}
    assert noise_of_clients(CONTEXT, mixed, [3.0] * 4) == pytest.approx(3 * math.sqrt(0.25**2 + 3 * 0.125**2))
    assert noise_scale(CONTEXT, mixed) == pytest.approx(math.sqrt(4 * (0.25**2 + 3 * 0.125**2)))


UPDATES = st.lists(st.tuples(st.floats(0.01, 1), st.integers(0, 5)), min_size=1, max_size=8)


def multipliers(scheme, rate, updates):
    context, contributions = replace(CONTEXT, rate=rate), entered(*zip(*updates, strict=True), rate)
    norm = scheme.start(CONTEXT).clip_norm([1.0])
    stds = [scheme.upload_noise(context, norm, one).std for one in contributions]
    noise = scheme.model_noise(context, norm, contributions).std
    made = model_releases(scheme, context, norm, contributions, stds, noise)
    return {client: release.multiplier for client, release in made.items()}


@given(updates=UPDATES, rate=st.floats(0.1, 10))
def test_server_noise_is_calibrated_to_the_client_with_the_largest_weight(updates, rate):
    dp_fedavg = DpFedAvg(noise_multiplier=1.1, noise_at="server", neighbours="replace")
    assert min(multipliers(dp_fedavg, rate, updates).values()) == pytest.approx(1.1 / 2)
    mechanism = Mechanisms(server=GaussianNoise(epsilon=3))
    smallest = min(multipliers(mechanism, rate, updates).values())
    assert exact_epsilon(smallest**-2, 1e-5) == pytest.approx(3)


@given(updates=UPDATES, rate=st.floats(0.1, 10))
def test_noise_of_clients_and_server_together_keeps_the_budget_of_nbafl(updates, rate):
    scheme = Nbafl(epsilon=6, clip_norm=5.0, sensitivity="2C", composition="analytic", b_rule="none")
    # The paper's noise is for K: four updates are not fewer.
    four = [updates[turn % len(updates)] for turn in range(4)]
    smallest = min(multipliers(scheme, rate, four).values())
    assert exact_epsilon(CONTEXT.rounds * smallest**-2, scheme.delta) <= 6 * (1 + 1e-9)


@pytest.mark.parametrize("step", [1e-3, 0.1, 1.0, 2.0])
def test_clipped_steps_on_a_convex_loss_drive_models_apart(step: float) -> None:
    """Linear regression on (1, 0) and (0, .03), targets 0: why no bound by contraction is claimed."""
    samples = np.array([[1.0, 0.0], [0.0, 0.03]])

    def clipped_step(model: np.ndarray) -> np.ndarray:
        gradient = samples.T @ (samples @ model)
        return model - step * gradient * min(1.0, 0.5 / float(np.linalg.norm(gradient)))

    here, there = np.array([10.0, 1000.0]), np.array([0.0, 900.0])
    assert np.linalg.norm(clipped_step(here) - clipped_step(there)) > np.linalg.norm(here - there)


def test_clipped_sgd_sensitivity_counts_the_steps() -> None:
    context = PrivacyContext(5, 5, 20, 30, 2, batch_size=8, epochs=2, lr=0.1)
    # 30 samples in batches of 8 are 4 steps an epoch.
    assert clipped_sgd_sensitivity(context, 3.0, 30) == pytest.approx(2 * 0.1 * 3.0 * 8)
    assert clipped_sgd_sensitivity(context, 3.0, 30, 1) == pytest.approx(2 * 0.1 * 3.0 * 4)
    assert clipped_sgd_sensitivity(context, 3.0, 5) == pytest.approx(2 * 0.1 * 3.0 * 2)
    assert clipped_sgd_sensitivity(replace(context, batch_size=0), 3.0, 30) == pytest.approx(2 * 0.1 * 3.0 * 2)
    assert clipped_sgd_sensitivity(replace(context, plain_sgd=False), 3.0, 30) == math.inf
