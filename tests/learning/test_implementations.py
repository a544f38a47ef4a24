"""Implementations of training give what the plain loop over the nn.Module gives, and stay close to float64.

What the plain loop gives is worked out by hand in `test_steps_by_hand.py`.
"""

import numpy as np
import pytest
import torch

from asyncfl.learning import Job, make_learner
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.models import CharLstm, LeNet, Linear, McMahanCnn, Mlp, ResNet, SmallCnn
from asyncfl.learning.training import Training
from benchmarks import plain_training
from tests.learning.jobs import IMPLEMENTATIONS, Halves, InPlace, Normed, Odd, random_jobs, train

SHAPE = (1, 12, 12)
CLASSES = 5
NOISE = {"batch_size": 8, "example_clip": 1.0, "example_noise": 0.8}
SETTINGS = {
    "sgd": {"batch_size": 8},
    "momentum, proximal": {"batch_size": 8, "momentum": 0.9, "proximal_mu": 1.0, "epochs": 5},
    "clipped": {"batch_size": 8, "gradient_clip": 0.5, "epochs": 2},
    "all": {"batch_size": 8, "momentum": 0.5, "proximal_mu": 1.0, "gradient_clip": 0.5, "epochs": 3},
    "full": {"batch_size": "full"},
    "full, all": {
        "batch_size": "full", "momentum": 0.9, "proximal_mu": 1.0, "epochs": 4, "gradient_clip": 0.3,
    },
    "examples clipped": {"batch_size": 8, "example_clip": 0.5, "epochs": 2},
    "examples clipped, all": {"batch_size": 8, "example_clip": 0.5, "epochs": 3, "momentum": 0.9, "proximal_mu": 1.0},
    "noise": NOISE,
    "noise, all": {
        "batch_size": "full", "example_clip": 0.7, "example_noise": 2.0, "epochs": 4, "momentum": 0.5,
        "proximal_mu": 1.0,
    },
}  # fmt: skip
LENET, SMALL = LeNet(channels=(4, 6), hidden=(16,)), SmallCnn(channels=(4, 6), groups=2)
LEARNERS = {
    "direct": (Mlp(hidden=(20,)), IMPLEMENTATIONS["direct"]),
    "gram": (Mlp(hidden=(20,)), IMPLEMENTATIONS["gram"]),
    "direct, deep": (Mlp(hidden=(20, 12)), IMPLEMENTATIONS["direct"]),
    "gram, deep": (Mlp(hidden=(20, 12, 7)), IMPLEMENTATIONS["gram"]),
    "softmax regression": (Mlp(hidden=()), make_learner),
    "linear": (Linear(), make_learner),
    "batched, linear": (Linear(), IMPLEMENTATIONS["batched"]),
    "lenet": (LENET, make_learner),
    "cnn": (McMahanCnn(channels=(4, 6), hidden=(16,)), make_learner),
    "small_cnn": (SMALL, make_learner),
    "batched, small_cnn": (SMALL, IMPLEMENTATIONS["batched"]),
    "module, mlp": (Mlp(hidden=(20,)), IMPLEMENTATIONS["module"]),
    "batched, mlp": (Mlp(hidden=(20,)), IMPLEMENTATIONS["batched"]),
    "batched, lenet": (LENET, IMPLEMENTATIONS["batched"]),
    "normed": (Normed(), make_learner),
    "batched, normed": (Normed(), IMPLEMENTATIONS["batched"]),
    "odd": (Odd(), make_learner),
    "in place": (InPlace(), make_learner),
    "halves": (Halves(), make_learner),
}


def check(model: Architecture, make, training: Training, sizes, shape: Shape = SHAPE, **kind: bool) -> None:
    """Train with both and compare models and losses."""
    jobs, same_jobs = (random_jobs(model, shape, CLASSES, sizes, training.epochs, **kind) for _ in range(2))
    rows, losses = train(make(model, training, shape, CLASSES), *jobs)
    expected = np.full_like(rows, np.nan)
    expected_losses = plain_training.train(model, training, CLASSES, expected, same_jobs)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5, atol=1e-5)
    assert np.abs(rows - np.stack([job.base for job in jobs])).max() > 1e-3, "training changed the models"


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", LEARNERS)
def test_classification_agrees_with_the_plain_loop(name: str, setting: str) -> None:
    model, make = LEARNERS[name]
    training = Training(lr=0.05, device="cpu", **SETTINGS[setting])
    # A short last batch, even batches, less than one batch.
    check(model, make, training, (20, 16, 7, 20), spread="example_clip" in SETTINGS[setting])


@pytest.mark.parametrize("setting", ["all", "examples clipped", "noise"])
@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("cnn", "gram, deep")])
def test_regression_agrees_with_the_plain_loop(name: str, setting: str) -> None:
    check(*LEARNERS[name], Training(lr=0.02, device="cpu", **SETTINGS[setting]), (20, 7), regression=True)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_batch_may_be_larger_than_the_chunk_that_is_differentiated_at_once(name: str) -> None:
    check(*LEARNERS[name], Training(lr=0.5, batch_size="full", example_clip=0.5, device="cpu"), (70, 33, 40))


@pytest.mark.parametrize("settings", [
    {"momentum": 0.9, "proximal_mu": 1.0}, {"gradient_clip": 0.3}, {"example_clip": 0.5, "example_noise": 0.5},
])  # fmt: skip
@pytest.mark.parametrize(
    ("model", "shape", "lr"), [(ResNet(groups=4), (3, 8, 8), 0.05), (CharLstm(embedding=3, hidden=7), (6,), 0.5)]
)
def test_deep_and_recurrent_networks_agree_with_the_plain_loop(
    model: Architecture, shape: Shape, lr: float, settings: dict[str, float]
) -> None:
    """Few steps: rounding grows from step to step in such networks."""
    check(model, make_learner, Training(lr=lr, batch_size=8, device="cpu", **settings), (20, 7), shape)


@pytest.mark.parametrize(
    "setting",
    [
        {"momentum": 1e-5, "epochs": 6},  # the scale shrinks by 1e-5 a step until it is multiplied out
        {"momentum": 0.3, "epochs": 30},
        {"momentum": 0.9, "epochs": 40, "proximal_mu": 3.0},
        {"proximal_mu": 10.0, "epochs": 4},  # lr mu = 1: each step starts from the base model
        {"proximal_mu": 15.0, "epochs": 4},  # lr mu > 1
    ],
)
def test_coefficients_of_samples_survive_extreme_settings(setting: dict[str, float]) -> None:
    training = Training(lr=0.1, batch_size=4, device="cpu", **setting)
    check(Mlp(hidden=(7,)), IMPLEMENTATIONS["gram"], training, (11,), (1, 4, 4))


IMAGE, LABELS, SAMPLES, STEPS = (1, 5, 5), 3, 20, 500
MLP = Mlp(hidden=(6,))


def exact(training: Training, job: Job) -> np.ndarray:
    """Train the model in float64."""
    module = MLP.module(IMAGE, LABELS).double()
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
@pytest.mark.parametrize(("batch_size", "lr", "momentum", "mu"), [("full", 0.002, 0.0, 0.0), (4, 0.05, 0.5, 0.1)])
def test_rounding_does_not_build_up_over_five_hundred_steps(
    name: str, batch_size: int | str, lr: float, momentum: float, mu: float
) -> None:
    """Each step rounds the weights once, each time by at most 2^-24 of their size."""
    settings = {"lr": lr, "momentum": momentum, "proximal_mu": mu, "batch_size": batch_size}
    steps = Training.model_validate(settings).steps_of(SAMPLES)
    training = Training.model_validate({**settings, "epochs": STEPS // steps, "device": "cpu"})
    random = np.random.default_rng(0)
    base = MLP.initial_parameters(IMAGE, LABELS, torch.Generator().manual_seed(0))
    images = (0.1 * random.normal(size=(SAMPLES, *IMAGE))).astype(np.float32)
    # Small images and raised biases keep all units away from the kink of ReLU, beyond which training would amplify any
    # rounding: two trainings in float64 whose starts differ by 1e-7 (relative) end within 2e-7 of each other.
    base[150:156] += 1
    order = np.stack([random.permutation(SAMPLES) for _ in range(training.epochs)])
    job = Job(base, images, random.integers(LABELS, size=SAMPLES), order)
    rows = np.empty((1, len(base)), np.float32)
    IMPLEMENTATIONS[name](MLP, training, IMAGE, LABELS).train(rows, [job])
    wanted = exact(training, job)
    assert np.linalg.norm(rows[0] - wanted) <= STEPS * 2.0**-24 * np.linalg.norm(wanted)
