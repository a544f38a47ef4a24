from __future__ import annotations

import numpy as np
import pytest
import torch

from asyncfl.learning import reference
from asyncfl.learning.job import Job
from asyncfl.learning.learner import make_learner
from asyncfl.learning.models import ResNet
from asyncfl.learning.training import Training

SHAPE, CLASSES = (3, 8, 8), 5


@pytest.mark.parametrize(
    "settings", [{"momentum": 0.9, "proximal_mu": 1.0}, {"gradient_clip": 0.5}, {"example_clip": 0.5}]
)
def test_a_few_steps_agree_with_the_plain_loop(settings: dict[str, float]) -> None:
    """Few: rounding grows from step to step in a network of ReLUs so deep."""
    model, training = ResNet(groups=4), Training(lr=0.05, batch_size=8, device="cpu", **settings)
    rng = np.random.default_rng(0)
    base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    images = rng.normal(size=(20, *SHAPE)).astype(np.float32)
    job = Job(base, images, rng.integers(CLASSES, size=20), rng.permutation(20)[None])
    learner = make_learner(model, training, SHAPE, CLASSES)
    rows, expected = (np.empty((1, learner.n_parameters), np.float32) for _ in range(2))
    losses = learner.train(rows, [job])
    assert losses == pytest.approx(reference.train(model, training, CLASSES, expected, [job]), abs=1e-5)
    assert np.abs(rows - expected).max() < 1e-5
    assert np.abs(rows - base).max() > 1e-3


def test_gradients_of_single_examples_come_from_its_layers() -> None:
    learner = make_learner(ResNet(groups=4), Training(example_clip=1.0, device="cpu"), SHAPE, CLASSES)
    assert learner._examples.layerwise  # type: ignore[attr-defined]
