"""Bounds on the norm of honest uploads: never exceeded by honest clients, always by long updates."""

from typing import Any

import numpy as np
import pytest

from asyncfl.client.norm_bound import DEVIATIONS, largest_noise, noise_norm, payload_limit, too_long
from asyncfl.privacy import Contribution
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_seed
from asyncfl.simulation.prepare import prepare, resolve
from tests.extras.live.conftest import SMALL

NOISED = {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 2.0}
ONE = Contribution(0, 20)


def facts(**description: Any) -> Any:
    return prepare(resolve(Scenario.read({**SMALL, **description}), 0, SimulatedRuns())).path


@pytest.mark.parametrize("n", [1, 10, 1000])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
def test_noise_stays_below_its_bound_and_near_it(distribution: Any, order: int, n: int) -> None:
    random = np.random.default_rng(0)
    draws = random.standard_normal((20_000 // n + 500, n))
    if distribution == "laplace":
        draws = random.laplace(scale=1 / np.sqrt(2), size=draws.shape)
    norms, limit = np.linalg.norm(draws, order, axis=1), noise_norm(distribution, order, 1.0, n)
    assert norms.max() < limit
    assert np.abs(draws).max() < largest_noise(distribution, 1.0, n)
    # Nobody can hide much in the room that noise needs.
    assert limit < norms.mean() * (1 + 30 / np.sqrt(n))


def test_the_bound_of_one_number_worked_out_by_hand() -> None:
    path = facts(privacy=NOISED)
    n = path.learner.n_parameters
    assert payload_limit(path, 2.0, ONE) == pytest.approx(2.0 + 1.0 * (np.sqrt(n) + DEVIATIONS))
    assert payload_limit(facts(privacy={**NOISED, "noise_at": "server"}), 2.0, ONE) == 2.0


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"privacy": NOISED, "compression": {"kind": "top_k", "share": 0.1}},
    ],
    ids=["unclipped", "remembers"],
)
def test_nothing_is_too_long_where_no_norm_is_bounded(description: dict[str, Any]) -> None:
    path = facts(**description)
    models = np.full((1, path.learner.n_parameters), 1e6, np.float32)
    norm = path.clip_norm(np.ones(1))
    assert payload_limit(path, norm, ONE) == np.inf
    assert not too_long(path, models, [np.zeros_like(models[0])], norm, [ONE]).any()


@pytest.mark.parametrize(
    "compression",
    [
        {"kind": "none"},
        {"kind": "quantised", "bits": 8},
        {"kind": "quantised", "bits": 4, "bucket": 64},
        {"kind": "quantised", "bits": 8, "scale": "l2", "bucket": 16},
        {"kind": "top_k", "share": 0.1, "error_feedback": False},
    ],
)
@pytest.mark.parametrize("privacy", [NOISED, {**NOISED, "noise_at": "server"}, {**NOISED, "noise_multiplier": 0.0}])
def test_honest_updates_pass_and_long_ones_do_not(privacy: dict[str, Any], compression: dict[str, Any]) -> None:
    path = facts(privacy=privacy, compression=compression)
    n, packing = path.learner.n_parameters, path.compression
    random, base = np.random.default_rng(1), np.full(path.learner.n_parameters, 3.0, np.float32)
    assert packing is not None
    limit = payload_limit(path, 2.0, ONE)
    std = path.scheme.upload_noise(path.context, 2.0, ONE).upload_std
    for length, long in ((2.0, False), (4 * limit, True)):
        update = random.standard_normal(n).astype(np.float32)
        update *= length / np.linalg.norm(update)
        update += (std * random.standard_normal(n)).astype(np.float32)
        model = base + packing.decoded(update, random)
        if long and compression["kind"] == "top_k":
            continue  # a part of it may be short
        assert too_long(path, model[None], [base], 2.0, [ONE]).tolist() == [long]


@pytest.mark.parametrize("rate", [1.0, 50.0])
def test_honest_clients_are_never_rejected_in_whole_seeds(rate: float) -> None:
    description = {**SMALL, "privacy": NOISED, "training": {**SMALL["training"], "lr": rate}}
    free, checked = (
        simulate_seed(Scenario.read({**description, "protocol": {**SMALL["protocol"], "check_norms": checks}}), 0)
        for checks in (None, True)
    )
    assert checked.fates["rejected"] == 0
    assert str(free.events.to_pylist()) == str(checked.events.to_pylist())


def test_attackers_that_exceed_the_clip_norm_are_rejected() -> None:
    description = {
        **SMALL,
        "privacy": {**NOISED, "noise_at": "server"},
        "threats": {"attackers": 2, "attack": {"kind": "scaling", "factor": 100.0}},
    }
    protocol = SMALL["protocol"]
    run = simulate_seed(Scenario.read({**description, "protocol": {**protocol, "check_norms": True}}), 0)
    assert run.fates["rejected"] == 2 * protocol["rounds"]
    assert simulate_seed(Scenario.read({**description, "protocol": protocol}), 0).fates["rejected"] == 0
