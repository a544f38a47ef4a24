"""DP-FedAvg: published values, neighbouring relations, and the adaptive clip norm."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy import Contribution, DpFedAvg, PrivacyContext
from asyncfl.privacy.schemes.dp_fedavg import AdaptiveClip, ClipState, split_multiplier

CONTEXT = PrivacyContext(clients=200, participants=100, rounds=10, smallest_samples=50, exposures=0)
UPLOAD = Contribution(client=3, samples=100)


def scheme(**fields):
    return DpFedAvg(noise_multiplier=1.1, **fields)


def test_noise_of_a_mean_of_one_hundred_updates():
    by_client, by_server = scheme(), scheme(noise_at="server")
    assert by_client.upload_noise(CONTEXT, 1, UPLOAD).std / math.sqrt(100) == pytest.approx(0.11)
    assert by_client.model_noise(CONTEXT, 1).std == by_server.upload_noise(CONTEXT, 1, UPLOAD).std == 0
    assert by_server.model_noise(CONTEXT, 1).std == pytest.approx(0.011)
    ten = [Contribution(client, 100) for client in range(10)]
    assert by_server.model_noise(CONTEXT, 1, ten).std == pytest.approx(0.11)
    assert by_server.model_noise(replace(CONTEXT, rate=3.0), 2).std == pytest.approx(0.066)


@pytest.mark.parametrize(
    ("neighbours", "rounds", "epsilon"),
    [
        ("zero_out", 1, 3.92125),
        ("zero_out", 10, 15.7827),
        ("zero_out", 100, 79.2755),
        ("replace", 1, 8.89523),
        ("replace", 10, 40.3044),
        ("replace", 100, 241.935),
    ],
)
@pytest.mark.parametrize("noise_at", ["client", "server"])
def test_epsilon_for_each_neighbouring_relation_equals_the_published_values(neighbours, rounds, epsilon, noise_at):
    context = replace(CONTEXT, rounds=rounds)
    private = scheme(neighbours=neighbours, noise_at=noise_at)
    stated = private.upload_guarantee(context) or private.model_guarantee(context)
    assert stated.epsilon == pytest.approx(epsilon, rel=2e-6)
    assert (stated.status, stated.releases) == ("proven", rounds)
    assert (stated.unit, stated.neighbours) == ("client", neighbours)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "heuristic"),
        ({"noise_at": "server"}, "proven"),
        ({"noise_at": "server", "adaptive": AdaptiveClip()}, "proven"),
        ({"adaptive": AdaptiveClip()}, "heuristic"),
    ],
)
def test_models_are_heuristic_if_noise_cannot_follow_the_weights(fields, status):
    often = replace(CONTEXT, once_each=False)
    assert scheme(**fields).model_guarantee(CONTEXT).status == "proven"
    assert scheme(**fields).model_guarantee(often).status == status


@given(st.floats(0.05, 20), st.floats(1.01, 100))
def test_updates_and_bits_compose_to_the_whole_multiplier(z, factor):
    sigma_b = factor * z / 2
    left = split_multiplier(z, sigma_b)
    assert left >= z
    assert 1 / left**2 + 1 / (2 * sigma_b) ** 2 == pytest.approx(1 / z**2)


def test_clip_norm_is_updated_geometrically():
    rule = AdaptiveClip(quantile=0.5, learning_rate=0.2)
    assert rule.next_norm(2.0, 1.0) == pytest.approx(2 * math.exp(-0.1))
    assert rule.next_norm(2.0, 0.5) == 2
    state = ClipState(2.0, rule, sigma=0.0, by_server=True)
    state.record_collection((), np.array([1.0, 3.0, np.nan, np.inf]), np.random.default_rng(0))
    assert state.norm == pytest.approx(2 * math.exp(0.05))


def test_noise_on_each_bit_grows_with_the_square_root_of_n():
    rule, random = AdaptiveClip(learning_rate=1.0), np.random.default_rng(2)
    spreads = []
    for by_server in (True, False):
        moved = []
        for _ in range(2000):
            state = ClipState(1.0, rule, 2.0, by_server)
            state.record_collection((), np.full(16, 0.5), random)
            moved.append(math.log(state.norm))
        assert np.mean(moved) == pytest.approx(-0.5, abs=0.05)
        spreads.append(np.std(moved))
    assert spreads == pytest.approx([2 / 16, 2 / 4], rel=0.06)


def test_server_noise_on_the_bits_follows_a_client_with_several_updates():
    rule, spreads = AdaptiveClip(learning_rate=1.0), []
    for clients in ([0, 1, 2, 3], [0, 1, 0, 0]):
        state, norms = ClipState(1.0, rule, 2.0, by_server=True), []
        for turn in range(50):
            state.norm = 1.0
            collected = [Contribution(client, 100) for client in clients]
            state.record_collection(collected, np.full(4, 0.5), np.random.default_rng(turn))
            norms.append(math.log(state.norm))
        spreads.append(np.std(norms))
    assert spreads[1] == pytest.approx(3 * spreads[0])
