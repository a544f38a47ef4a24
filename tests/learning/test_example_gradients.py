"""Clipped gradients of single examples, compared with a loop in double precision."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from asyncfl.learning import Job, Training, make_learner
from asyncfl.learning.architecture import Architecture
from asyncfl.learning.models import DigitsNet, LeNet, SmallCnn

SHAPE, CLASSES = (3, 12, 12), 10


class Halves(Architecture):
    """A network that calls a layer on the two halves of each image as if they were images."""

    kind: str = "halves"

    def module(self, shape: tuple[int, ...], classes: int) -> torch.nn.Module:
        half = int(np.prod(shape)) // 2
        return torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Unflatten(1, (2, half)), torch.nn.Flatten(0, 1), torch.nn.Linear(half, 4),
            torch.nn.Tanh(), torch.nn.Unflatten(0, (-1, 2)), torch.nn.Flatten(), torch.nn.Linear(8, classes),
        )  # fmt: skip


def one_by_one(model: Architecture, job: Job) -> np.ndarray:
    """Gradient (samples, n_parameters) of each example, in double precision."""
    module = model.module(SHAPE, CLASSES).double()
    weights = list(module.parameters())
    torch.nn.utils.vector_to_parameters(torch.from_numpy(job.base).double(), weights)
    images, labels = torch.from_numpy(job.images).double(), torch.from_numpy(job.labels)
    rows = []
    for example in range(len(labels)):
        loss = cross_entropy(module(images[example : example + 1]), labels[example : example + 1])
        rows.append(torch.cat([part.flatten() for part in torch.autograd.grad(loss, weights)]).numpy())
    return np.stack(rows)


@pytest.mark.parametrize(
    ("model", "samples", "layerwise"),
    [(DigitsNet(), 2, True), (SmallCnn(), 6, True), (LeNet(), 6, True), (Halves(), 6, False)],
    ids=["digits", "small_cnn", "lenet", "halves"],
)
def test_a_step_takes_the_mean_of_the_clipped_gradients(model: Architecture, samples: int, layerwise: bool) -> None:
    """The clip lies between the shortest and the longest gradient."""
    rng = np.random.default_rng(0)
    base = model.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    images = rng.normal(size=(samples, *SHAPE)).astype(np.float32)
    job = Job(base, images, rng.integers(CLASSES, size=samples), np.arange(samples)[None])
    gradients = one_by_one(model, job)
    norms = np.linalg.norm(gradients, axis=1)
    clip = float(norms.min() + norms.max()) / 2
    assert norms.min() < clip < norms.max()
    training = Training(lr=0.05, batch_size=samples, device="cpu", example_clip=clip)
    learner = make_learner(model, training, SHAPE, CLASSES)
    assert learner._examples.layerwise == layerwise, "else examples are differentiated one by one"
    rows = np.empty((1, len(base)), np.float32)
    learner.train(rows, [job])
    moved = -training.lr * np.minimum(1, clip / norms) @ gradients / samples
    found = rows[0].astype(np.float64) - base
    rounding = np.linalg.norm(base) * 2.0**-24  # of base - step in float32
    assert np.linalg.norm(found - moved) < 1e-5 * np.linalg.norm(moved) + 2 * rounding
    unclipped = -training.lr * gradients.mean(axis=0)
    assert np.linalg.norm(found - unclipped) > 100 * np.linalg.norm(found - moved)
