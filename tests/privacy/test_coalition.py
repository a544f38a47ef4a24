"""Coalitions of curious clients, and the sensitivities of scores and of clipped SGD."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.base.streams import Streams
from asyncfl.privacy import PrivacyContext
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.client_weights import clipped_sgd_sensitivity
from asyncfl.privacy.coalition import Curious, coalition
from asyncfl.privacy.noise import ScoreNoise, score_sensitivity

READ: TypeAdapter[Any] = TypeAdapter(Curious)


@pytest.mark.parametrize("value", [1, 1.0, -0.1, True, [-1], [1.5], [True], "all", None])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="must be a share of the clients"):
        READ.validate_python(value)


def test_a_larger_share_adds_clients_to_a_smaller_one() -> None:
    streams = Streams(3)
    found = [coalition(share, 10, streams) for share in (0.0, 0.04, 0.06, 0.3, 0.9)]
    assert [len(one) for one in found] == [0, 0, 1, 3, 9]
    assert all(less <= more for less, more in pairwise(found))
    assert found[-1] <= set(range(10))
    assert coalition((2, 7), 10, streams) == {2, 7}


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
