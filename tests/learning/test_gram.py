"""What only training in the span of the samples can get wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from asyncfl.learning import Job, Mlp, Training, direct, gram, reference
from asyncfl.learning.gram import cost
from asyncfl.learning.mlp import MlpLearner

SHAPE, CLASSES = (1, 6, 6), 3
MODEL = Mlp(hidden=(7,))


@pytest.mark.parametrize(
    "setting",
    [
        {"momentum": 1e-5, "epochs": 6},  # scales shrink by 1e-5 a step and are brought back
        {"momentum": 0.3, "epochs": 30},
        {"momentum": 0.9, "epochs": 40, "proximal_mu": 3.0},
        {"proximal_mu": 10.0, "epochs": 4},  # lr mu = 1: w falls back to the base at each step
        {"proximal_mu": 15.0, "epochs": 4},  # beyond
    ],
)
def test_scaled_coefficients_survive_extreme_settings(setting: dict[str, float]) -> None:
    training = Training(lr=0.1, batch_size=4, device="cpu", **setting)
    rng = np.random.default_rng(0)
    base = MODEL.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    images = 0.3 * rng.normal(size=(11, *SHAPE)).astype(np.float32)
    order = np.stack([rng.permutation(11) for _ in range(training.epochs)])
    job = Job(base, images.astype(np.float32), rng.integers(CLASSES, size=11), order)
    rows, expected = np.empty((1, len(base)), np.float32), np.empty((1, len(base)), np.float32)
    losses = MlpLearner(MODEL, training, SHAPE, CLASSES, "cpu", "gram").train(rows, [job])
    expected_losses = reference.train(MODEL, training, CLASSES, expected, [job])
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=1e-5)


def test_it_is_chosen_where_it_needs_fewer_operations() -> None:
    widths = (784, 256, 10)
    several = Training(batch_size=20, epochs=5, momentum=0.9, proximal_mu=1)
    in_samples, on_weights = cost(widths, several, 100)
    assert in_samples < on_weights / 2.5
    once = Training(batch_size=32)
    in_samples, on_weights = cost(widths, once, 600)
    assert in_samples > on_weights
    for training, samples, chosen in ((several, 100, "GramTrainer"), (once, 600, "DirectTrainer")):
        learner = MlpLearner(Mlp(), training, (1, 28, 28), 10)
        assert type(learner.trainer(samples)).__name__ == chosen


def test_clipping_of_a_single_step_knows_the_products_of_the_samples() -> None:
    """G is needed by no first step but for its norm; a task before this one leaves another G behind."""
    training = Training(lr=0.1, batch_size="full", gradient_clip=0.05, device="cpu")
    rng = np.random.default_rng(0)
    base = MODEL.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    jobs = [
        Job(
            base,
            (scale * rng.normal(size=(11, *SHAPE))).astype(np.float32),
            rng.integers(CLASSES, size=11),
            np.arange(11)[None],
        )
        for scale in (5, 0.5)
    ]
    rows, expected = np.empty((2, len(base)), np.float32), np.empty((2, len(base)), np.float32)
    MlpLearner(MODEL, training, SHAPE, CLASSES, "cpu", "gram").train(rows, jobs)
    reference.train(MODEL, training, CLASSES, expected, jobs)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("setting", "in_samples", "on_weights"),
    [
        # 4 epochs m inputs units and a pass over the weights thrice, against 4 m inputs units and 2 m^2 (inputs + ...).
        ({"epochs": 2}, 25_900_800, 40_219_200),
        ({"epochs": 2, "momentum": 0.9}, 26_164_800, 43_668_800),
        ({"epochs": 2, "proximal_mu": 1.0}, 25_900_800, 43_668_800),
        ({"epochs": 2, "momentum": 0.9, "proximal_mu": 1.0}, 26_428_800, 50_568_000),
        # A single step needs no products of samples, unless a clip does.
        ({"batch_size": "full"}, 18_816_000, 21_403_200),
        ({"batch_size": 60, "gradient_clip": 1.0}, 25_180_800, 21_403_200),
        ({"batch_size": 60, "example_clip": 1.0}, 25_180_800, 21_403_200),
    ],
)
def test_operations_are_counted(setting: dict[str, Any], in_samples: int, on_weights: int) -> None:
    training = Training(**{"batch_size": 32, **setting})
    assert cost((784, 100, 10), training, 60) == (in_samples, on_weights)


@pytest.mark.parametrize(("module", "trainer", "products"), [
    (gram, gram.GramTrainer, 20 * 50 * 100), (direct, direct.DirectTrainer, 20 * 784 * 100),
])  # fmt: skip
def test_products_are_small_up_to_a_number_of_multiplications(
    module: Any, trainer: Any, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer((784, 100, 10), Training(batch_size=20))
    for few, little in ((products - 1, False), (products, True)):
        monkeypatch.setattr(module, "FEW", few)
        assert made.multiplies_little(50) is little
