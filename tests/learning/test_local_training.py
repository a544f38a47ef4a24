"""Options of local training, on every implementation, against a plain loop with torch's own optimisers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from asyncfl.base.client_state import ClientState
from asyncfl.learning import Job, make_learner
from asyncfl.learning.architecture import Architecture
from asyncfl.learning.job import poisson_batches
from asyncfl.learning.models import CharLstm, LeNet, Mlp, ResNet, SmallCnn
from asyncfl.learning.optimizer import OptimizerState
from asyncfl.learning.training import Training
from benchmarks import plain_training
from tests.learning.jobs import IMPLEMENTATIONS, random_jobs, train

SHAPE, CLASSES, SIZES = (1, 12, 12), 5, (20, 16, 7)
LENET = LeNet(channels=(4, 6), hidden=(16,))
LEARNERS: dict[str, tuple[Architecture, Any]] = {
    "auto": (Mlp(hidden=(20,)), make_learner),
    "direct, deep": (Mlp(hidden=(20, 12)), IMPLEMENTATIONS["direct"]),
    "gram": (Mlp(hidden=(20,)), IMPLEMENTATIONS["gram"]),
    "module, mlp": (Mlp(hidden=(20,)), IMPLEMENTATIONS["module"]),
    "lenet": (LENET, make_learner),
    "batched, lenet": (LENET, IMPLEMENTATIONS["batched"]),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "momentum, proximal": {"momentum": 0.9, "proximal_mu": 1.0},
    "clipped": {"gradient_clip": 0.5},
    "noise": {"example_clip": 0.7, "example_noise": 0.8},
}


def jobs_of(model: Architecture, training: Training) -> list[Job]:
    """Return jobs whose orders have the length that the training asks for."""
    jobs = random_jobs(model, SHAPE, CLASSES, SIZES, 40, spread=training.example_clip is not None)
    found = []
    for job in jobs:
        steps, batch = training.steps_of_epochs(job.samples), training.batch_of(job.samples)
        order = list(job.order[: len(steps)])
        order[-1] = order[-1][: steps[-1] * batch]
        found.append(replace(job, order=np.stack(order) if len(order[-1]) == job.samples else order))
    return found


def check(name: str, training: Training) -> np.ndarray:
    """Train with an implementation and with the plain loop, and compare; return the models."""
    model, make = LEARNERS[name]
    rows, losses = train(make(model, training, SHAPE, CLASSES), *jobs_of(model, training))
    expected, same = np.full_like(rows, np.nan), jobs_of(model, training)
    expected_losses = plain_training.train(model, training, CLASSES, expected, same)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5, atol=1e-5)
    assert np.abs(rows - np.stack([job.base for job in same])).max() > 1e-3, "training changed the models"
    return rows


# --- steps in place of epochs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 6, 13])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_number_of_steps_agrees_with_the_plain_loop(name: str, setting: str, steps: int) -> None:
    """Half an epoch, whole epochs, and two and a half."""
    check(name, Training(lr=0.05, device="cpu", batch_size=4, steps=steps, **SETTINGS[setting]))


@pytest.mark.parametrize("name", LEARNERS)
def test_steps_of_whole_epochs_are_these_epochs(name: str) -> None:
    model, make = LEARNERS[name]
    [job] = random_jobs(model, SHAPE, CLASSES, (20,), 3)
    by_epochs, by_steps = (Training(batch_size=4, device="cpu", **one) for one in ({"epochs": 3}, {"steps": 15}))
    models = [train(make(model, one, SHAPE, CLASSES), job)[0] for one in (by_epochs, by_steps)]
    assert models[0].tobytes() == models[1].tobytes()


@pytest.mark.parametrize(
    ("batch", "steps", "of_epochs", "processed"),
    [(4, 2, [2], 8), (4, 5, [5], 20), (4, 7, [5, 2], 28), (8, 2, [2], 16), (8, 4, [3, 1], 28), ("full", 2, [1, 1], 40)],
)
def test_a_task_of_steps_processes_the_samples_of_its_batches(
    batch: Any, steps: int, of_epochs: list[int], processed: int
) -> None:
    """20 samples: five batches of 4, or two of 8 and one of 4."""
    training = Training(batch_size=batch, steps=steps)
    assert training.steps_of_epochs(20) == of_epochs
    assert training.processed(20) == processed
    assert training.epochs_of(20) == len(of_epochs)
    assert training.steps_of(20) == steps


def test_poisson_batches_end_after_the_last_step() -> None:
    drawn = poisson_batches(20, 4, 2, np.random.default_rng(0), 2)
    assert [len(epoch) for epoch in drawn] == [5, 2]
    assert Training(batch_size=4, steps=7, batches="poisson", example_clip=1.0).processed(20) == 28


def test_steps_and_epochs_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match=r"epochs and steps exclude each other; .* got epochs 2 and steps 5"):
        Training(steps=5, epochs=2)


# --- optimisers ---------------------------------------------------------------------------------------------------

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd, decay": {"weight_decay": 0.1},
    "sgd, momentum, decay": {"momentum": 0.9, "weight_decay": 0.1},
    # A larger eps: where a gradient is as small as its rounding, Adam's step would depend on the rounding alone.
    "adam": {"optimizer": "adam", "eps": 1e-2},
    "adam, decay, betas": {"optimizer": "adam", "eps": 1e-2, "weight_decay": 0.1, "betas": (0.5, 0.9)},
    "adamw": {"optimizer": "adamw", "eps": 1e-2, "weight_decay": 0.1},
}
BESIDE: dict[str, dict[str, Any]] = {
    "alone": {"epochs": 2},
    "steps": {"steps": 7},
    "clipped, proximal": {"gradient_clip": 0.5, "proximal_mu": 1.0, "epochs": 2},
    "noise": {"example_clip": 0.7, "example_noise": 0.8},
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", LEARNERS)
def test_optimisers_agree_with_those_of_torch(name: str, optimizer: str, beside: str) -> None:
    check(name, Training(lr=0.02, batch_size=4, device="cpu", **OPTIMIZERS[optimizer], **BESIDE[beside]))


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_adam_with_its_usual_eps_agrees_with_that_of_torch(optimizer: Any) -> None:
    check("lenet", Training(lr=0.001, batch_size=4, device="cpu", optimizer=optimizer, epochs=2))


KEPT: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "adam": {"optimizer": "adam", "eps": 1e-2},
    "adamw": {"optimizer": "adamw", "eps": 1e-2, "weight_decay": 0.1},
}


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_kept_state_is_that_of_an_optimiser_which_is_never_renewed(name: str, kept: str) -> None:
    """Three tasks of one client, each from another model."""
    model, make = LEARNERS[name]
    training = Training(lr=0.02, batch_size=4, device="cpu", state="kept", **KEPT[kept])
    learner, state = make(model, training, SHAPE, CLASSES), OptimizerState()
    module = model.module(SHAPE, CLASSES)
    optimiser = plain_training.optimiser_of(training, module)
    for number in range(3):
        job = random_jobs(model, SHAPE, CLASSES, (20, 16, 7))[number]
        [row], _ = train(learner, replace(job, optimizer=state))
        torch.nn.utils.vector_to_parameters(torch.tensor(job.base), module.parameters())
        images, labels = torch.tensor(job.images), torch.tensor(job.labels)
        for batch in torch.split(torch.tensor(job.order[0]), 4):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(images[batch]), labels[batch]).backward()
            optimiser.step()
        wanted = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
        np.testing.assert_allclose(row, wanted, rtol=0, atol=1e-5)
    assert state.steps == 5 + 4 + 2


def test_a_state_that_is_not_finite_is_renewed() -> None:
    state = OptimizerState({"velocity": np.array([1, np.inf], np.float32)}, 3)
    assert state.entries() == ClientState({"velocity": np.zeros(2, np.float32)}, {"optimizer_steps": 0})


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"optimizer": "adam", "momentum": 0.9}, "momentum must be 0 with optimizer: adam, .* set betas instead"),
        ({"state": "kept"}, "state: kept needs momentum, adam or adamw"),
        ({"betas": (0.5, 0.9)}, r"betas and eps are for adam and adamw: .* got betas \[0.5, 0.9\] and eps 1e-08"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Training(**settings)


# --- schedules of the learning rate -----------------------------------------------------------------------------------

SCHEDULES: dict[str, dict[str, Any]] = {
    "warm-up": {"warm_up": 3},
    "step": {"shape": "step", "every": 2, "drop": 0.5},
    "cosine": {"shape": "cosine", "end": 0.1},
    "linear": {"shape": "linear", "warm_up": 2},
}


@pytest.mark.parametrize("beside", [{}, {"momentum": 0.9}, OPTIMIZERS["adam"], BESIDE["noise"], {"proximal_mu": 1.0}])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LEARNERS)
def test_schedules_agree_with_the_plain_loop(name: str, schedule: str, beside: dict[str, Any]) -> None:
    """Schedules themselves are compared with those of torch below."""
    check(name, Training(lr=0.05, batch_size=4, epochs=2, device="cpu", schedule=SCHEDULES[schedule], **beside))


def rates_of_torch(make: Callable[[torch.optim.Optimizer], Any], times: int) -> list[float]:
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    scheduler, rates = make(optimiser), []
    for _ in range(times):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return rates


TORCH: list[tuple[dict[str, Any], Callable[[torch.optim.Optimizer], Any]]] = [
    (
        {"shape": "cosine", "end": 0.2, "length": 8},
        lambda of: torch.optim.lr_scheduler.CosineAnnealingLR(of, 8, eta_min=0.02),
    ),
    ({"shape": "step", "every": 3, "drop": 0.5}, lambda of: torch.optim.lr_scheduler.StepLR(of, 3, 0.5)),
    (
        {"shape": "linear", "end": 0.3, "length": 5},
        lambda of: torch.optim.lr_scheduler.LinearLR(of, 1.0, 0.3, 5),
    ),
    ({"warm_up": 4}, lambda of: torch.optim.lr_scheduler.LinearLR(of, 0.25, 1.0, 3)),
]


@pytest.mark.parametrize(("schedule", "make"), TORCH)
def test_schedules_are_those_of_torch(schedule: dict[str, Any], make: Callable[[torch.optim.Optimizer], Any]) -> None:
    training = Training(lr=0.1, schedule=schedule)
    np.testing.assert_allclose(training.rates(8), rates_of_torch(make, 8), rtol=1e-6)


def test_the_version_that_a_client_was_sent_sets_the_rate_of_its_task() -> None:
    training = Training(lr=0.1, batch_size=20, version_schedule={"shape": "linear"}, device="cpu")
    learner = make_learner(LENET, training, SHAPE, CLASSES)
    [job] = random_jobs(LENET, SHAPE, CLASSES, (20,))
    assert [training.version_factor(version, 4) for version in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    moved = [train(learner, replace(job, rate=factor))[0][0] - job.base for factor in (1.0, 0.5)]
    np.testing.assert_allclose(moved[1], moved[0] / 2, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        ({"shape": "step"}, "shape: step needs every, got None"),
        ({"every": 3}, "shape: constant does not use every, which must be null, got 3"),
        ({"shape": "cosine", "drop": 0.5}, "shape: cosine does not use drop; leave it out, got 0.5"),
        ({"shape": "step", "every": 2, "end": 0.5}, "shape: step does not use end; leave it out, got 0.5"),
        ({"warm_up": 2, "length": 9}, "shape: constant does not use length; leave it out, got 9"),
        ({"shape": "cosine", "warm_up": 5, "length": 5}, r"length must be above warm_up \(5\), got 5"),
    ],
)
def test_schedules_without_a_meaning_are_refused(schedule: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        Training(schedule=schedule)


# --- dropout ----------------------------------------------------------------------------------------------------------

DROPPING: dict[str, tuple[Architecture, Any]] = {
    "direct": (Mlp(hidden=(20,), dropout=0.3), IMPLEMENTATIONS["direct"]),
    "auto, deep": (Mlp(hidden=(20, 12), dropout=0.5), make_learner),
    "module, mlp": (Mlp(hidden=(20,), dropout=0.3), IMPLEMENTATIONS["module"]),
    "batched, mlp": (Mlp(hidden=(20,), dropout=0.3), IMPLEMENTATIONS["batched"]),
    "lenet": (LeNet(channels=(4, 6), hidden=(16,), dropout=0.3), make_learner),
    "small_cnn": (SmallCnn(channels=(4, 6), groups=2, hidden=(8,), dropout=0.2), make_learner),
    "resnet": (ResNet(groups=4, dropout=0.3), make_learner),
}


def dropping_jobs(model: Architecture, epochs: int = 2) -> list[Job]:
    jobs = random_jobs(model, SHAPE, CLASSES, (20, 7), epochs)
    return [replace(job, seed=number + 5) for number, job in enumerate(jobs)]


@pytest.mark.parametrize("beside", [{}, {"momentum": 0.9, "gradient_clip": 0.5}, {"optimizer": "adam", "eps": 0.01}])
@pytest.mark.parametrize("name", DROPPING)
def test_dropout_agrees_with_the_plain_loop_of_the_same_seed(name: str, beside: dict[str, Any]) -> None:
    model, make = DROPPING[name]
    training = Training(lr=0.02, batch_size=8, epochs=2, device="cpu", **beside)
    rows, losses = train(make(model, training, SHAPE, CLASSES), *dropping_jobs(model))
    expected = np.full_like(rows, np.nan)
    expected_losses = plain_training.train(model, training, CLASSES, expected, dropping_jobs(model))
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5, atol=1e-5)
    other = [replace(job, seed=job.seed + 1) for job in dropping_jobs(model)]
    assert np.abs(train(make(model, training, SHAPE, CLASSES), *other)[0] - rows).max() > 1e-4


def test_clipped_examples_see_the_same_dropout_on_both_implementations() -> None:
    """The layers' formulas run through a batch at once, as the network by hand does."""
    training = Training(lr=0.1, batch_size=8, example_clip=0.5, example_noise=0.3, epochs=2, device="cpu")
    models = []
    for name in ("direct", "module, mlp"):
        model, make = DROPPING[name]
        models.append(train(make(model, training, SHAPE, CLASSES), *dropping_jobs(model))[0])
    np.testing.assert_allclose(*models, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", DROPPING)
def test_evaluation_drops_nothing_and_draws_nothing(name: str) -> None:
    model, make = DROPPING[name]
    learner = make(model, Training(device="cpu"), SHAPE, CLASSES)
    plain = make_learner(model.model_copy(update={"dropout": 0.0}), Training(device="cpu"), SHAPE, CLASSES)
    [job] = dropping_jobs(model, 1)[:1]
    train(learner, job)
    before = torch.get_rng_state()
    found = learner.outputs(job.base, job.images)
    np.testing.assert_allclose(found, plain.outputs(job.base, job.images), rtol=0, atol=1e-6)
    gradients = [one.gradient(job.base, job.images, job.labels) for one in (learner, plain)]
    np.testing.assert_allclose(*gradients, rtol=0, atol=1e-6)
    train(learner, job)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_recurrent_network_drops_behind_each_layer() -> None:
    model = CharLstm(embedding=3, hidden=7, dropout=0.5)
    training = Training(lr=0.5, batch_size=8, device="cpu")
    jobs, same = (random_jobs(model, (6,), CLASSES, (20,)) for _ in range(2))
    rows, _ = train(make_learner(model, training, (6,), CLASSES), *jobs)
    expected = np.full_like(rows, np.nan)
    plain_training.train(model, training, CLASSES, expected, same)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
