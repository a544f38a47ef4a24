"""Every implementation stays close to float64 over hundreds of steps."""

import numpy as np
import pytest
import torch

from asyncfl.learning import Job, Mlp, Training
from tests.learning.jobs import IMPLEMENTATIONS

SHAPE, CLASSES, SAMPLES, STEPS = (1, 5, 5), 3, 20, 500
MODEL = Mlp(hidden=(6,))


def exact(training: Training, job: Job) -> np.ndarray:
    """Train the model in float64."""
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


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@pytest.mark.parametrize("batch_size", [4, "full"])
@pytest.mark.parametrize(("lr", "momentum", "mu"), [(0.002, 0.0, 0.0), (0.05, 0.5, 0.1)])
def test_rounding_does_not_build_up_over_five_hundred_steps(
    name: str, batch_size: int | str, lr: float, momentum: float, mu: float
) -> None:
    """Each step rounds the weights once, each time by at most 2^-24 of their size."""
    settings = {"lr": lr, "momentum": momentum, "proximal_mu": mu, "batch_size": batch_size}
    steps = Training.model_validate(settings).steps(SAMPLES)
    training = Training.model_validate({**settings, "epochs": STEPS // steps, "device": "cpu"})
    random = np.random.default_rng(0)
    base = MODEL.initial_parameters(SHAPE, CLASSES, torch.Generator().manual_seed(0))
    images = (0.1 * random.normal(size=(SAMPLES, *SHAPE))).astype(np.float32)
    # Small images and raised biases keep all units away from the kink of ReLU, beyond which training would amplify any
    # rounding: two trainings in float64 whose starts differ by 1e-7 (relative) end within 2e-7 of each other.
    base[150:156] += 1
    order = np.stack([random.permutation(SAMPLES) for _ in range(training.epochs)])
    job = Job(base, images, random.integers(CLASSES, size=SAMPLES), order)
    rows = np.empty((1, len(base)), np.float32)
    IMPLEMENTATIONS[name](MODEL, training, SHAPE, CLASSES).train(rows, [job])
    wanted = exact(training, job)
    assert np.linalg.norm(rows[0] - wanted) <= STEPS * 2.0**-24 * np.linalg.norm(wanted)
