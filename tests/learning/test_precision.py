"""Every path stays with a float64 computation of the same steps, over hundreds of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asyncfl.learning import Job, Learner, Mlp, Training
from asyncfl.learning.batched import BatchedLearner
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.module import ModuleLearner

SHAPE, CLASSES, SAMPLES, STEPS = (1, 5, 5), 3, 20, 500
MODEL = Mlp(hidden=(6,))


def exact(training: Training, job: Job) -> np.ndarray:
    """The trained model, in float64 throughout."""
    module = MODEL.module(SHAPE, CLASSES).double()
    base = torch.tensor(job.base, dtype=torch.float64)
    torch.nn.utils.vector_to_parameters(base.clone(), module.parameters())
    parameters = list(module.parameters())
    images, labels = torch.tensor(job.images, dtype=torch.float64), torch.tensor(job.labels)
    w, velocity = base.clone(), torch.zeros_like(base)
    for order in torch.tensor(job.order):
        for batch in torch.split(order, training.batch_of(job.samples)):
            torch.nn.utils.vector_to_parameters(w, module.parameters())
            loss = torch.nn.functional.cross_entropy(module(images[batch]), labels[batch])
            gradient = torch.nn.utils.parameters_to_vector(torch.autograd.grad(loss, parameters))
            velocity = training.momentum * velocity + gradient + training.proximal_mu * (w - base)
            w = (w - training.lr * velocity).detach()
    return w.numpy()


def learner_of(path: str, training: Training) -> Learner:
    if path in ("direct", "gram"):
        return MlpLearner(MODEL, training, SHAPE, CLASSES, "cpu", path)  # type: ignore[arg-type]
    return {"module": ModuleLearner, "batched": BatchedLearner}[path](MODEL, training, SHAPE, CLASSES, "cpu")


@pytest.mark.parametrize("path", ["direct", "gram"])
@pytest.mark.parametrize("lr", [0.002, 0.05])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("mu", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("batch_size", [4, "full"])
def test_five_hundred_steps_are_within_a_hundred_thousandth_of_float64(
    path: str, lr: float, momentum: float, mu: float, batch_size: int | str
) -> None:
    check(path, {"lr": lr, "momentum": momentum, "proximal_mu": mu, "batch_size": batch_size})


@pytest.mark.parametrize("path", ["module", "batched"])
@pytest.mark.parametrize("batch_size", [4, "full"])
def test_so_are_those_of_the_other_paths(path: str, batch_size: int | str) -> None:
    check(path, {"lr": 0.002, "momentum": 0.9, "proximal_mu": 1.0, "batch_size": batch_size})


def check(path: str, settings: dict[str, object]) -> None:
    steps = Training.model_validate(settings).steps(SAMPLES)
    training = Training.model_validate({**settings, "epochs": STEPS // steps, "device": "cpu"})
    random = np.random.default_rng(0)
    base = MODEL.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    images = (0.1 * random.normal(size=(SAMPLES, *SHAPE))).astype(np.float32)
    # Here float64 itself forgives a start changed by 1e-7 (relative); tried with momentum .9, it ends within 2e-7.
    # Two do not. With ordinary images and no raised biases a ReLU's kink lies on the way: one start of three took its
    # other side and ended 1.1e-5 away (batch of all, lr .002, momentum .9, mu 1). With biases raised by 3 and images of
    # .3, batches of 4 at lr .05, momentum .9 and mu 1 are unstable: starts ended 2e-2 to 7e-2 apart, no unit ever off.
    base[150:156] += 1
    order = np.stack([random.permutation(SAMPLES) for _ in range(training.epochs)])
    job = Job(base, images, random.integers(CLASSES, size=SAMPLES), order)
    rows = np.empty((1, len(base)), np.float32)
    learner_of(path, training).train(rows, [job])
    wanted = exact(training, job)
    assert np.linalg.norm(rows[0] - wanted) <= 1e-5 * np.linalg.norm(wanted)
