"""Learners: independence of jobs, evaluation, gradients, and losses of classes and of numbers."""

import dataclasses
import math
from copy import copy

import numpy as np
import pytest
import torch

from asyncfl.base.errors import ScenarioError
from asyncfl.learning import Job, Learner, LeNet, Mlp, Training, make_learner
from asyncfl.learning.batched import BatchedLearner
from asyncfl.learning.loss import is_regression, loss_of, loss_slope
from asyncfl.learning.mlp import MlpLearner
from asyncfl.learning.models import Linear
from asyncfl.learning.module import ModuleLearner
from benchmarks import plain_training
from tests.learning.jobs import IMPLEMENTATIONS, random_jobs, train

SHAPE, CLASSES = (1, 8, 8), 4
TRAINING = Training(lr=0.1, batch_size=8, epochs=2, momentum=0.9, proximal_mu=0.1, device="cpu")
LENET = LeNet(channels=(3, 4), hidden=(8,))


def learners() -> list[Learner]:
    return [
        make(Mlp(hidden=(6,)) if name in ("direct", "gram") else LENET, TRAINING, SHAPE, CLASSES)
        for name, make in IMPLEMENTATIONS.items()
    ]


@pytest.fixture(params=range(4), ids=list(IMPLEMENTATIONS))
def learner(request: pytest.FixtureRequest) -> Learner:
    return learners()[request.param]


def job_of(learner: Learner, samples: int = 20) -> Job:
    return random_jobs(learner.model, SHAPE, CLASSES, (samples,), TRAINING.epochs)[0]


def reference_logits(
    learner: Learner, parameters: np.ndarray, images: np.ndarray
) -> tuple[torch.nn.Module, torch.Tensor]:
    module = learner.model.module(SHAPE, CLASSES)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(parameters.copy()), module.parameters())
    return module, module(torch.from_numpy(images.copy()))


def test_a_model_does_not_depend_on_the_jobs_trained_before_or_beside_it(learner: Learner) -> None:
    jobs = random_jobs(learner.model, SHAPE, CLASSES, (20, 13, 20), TRAINING.epochs)
    rows, losses = train(learner, *jobs)
    swapped, again = train(learner, *jobs[::-1])
    if isinstance(learner, BatchedLearner):  # one kernel for all jobs: equal up to rounding
        np.testing.assert_allclose(swapped[::-1], rows, atol=1e-6)
        return
    assert np.array_equal(swapped[::-1], rows)
    assert np.array_equal(again[::-1], losses)


def at_address(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy whose address is a multiple of 64 bytes, plus `offset`."""
    memory = np.empty(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert copy.ctypes.data % 64 == offset
    return copy


@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_results_do_not_depend_on_where_arrays_lie_in_memory(name: str) -> None:
    """Slices of a data set, and arrays of a pickle, begin at any multiple of four bytes; MKL's products differ then."""
    shape = (1, 5, 6)
    learner = IMPLEMENTATIONS[name](Mlp(hidden=(3,)), TRAINING, shape, CLASSES)
    jobs = random_jobs(learner.model, shape, CLASSES, (13, 11, 23), TRAINING.epochs)
    found = set()
    for offset in (0, 4, 8, 12, 16, 24, 32, 40, 48):
        moved = [
            dataclasses.replace(
                job,
                base=at_address(job.base, offset),
                images=at_address(job.images, offset),
                labels=at_address(job.labels, offset // 8 * 8),
                noise=np.random.SFC64(1),
            )
            for job in jobs
        ]
        rows = at_address(np.zeros((len(jobs), learner.n_parameters), np.float32), offset)
        losses = learner.train(rows, moved)
        base, images, labels = moved[0].base, moved[0].images, moved[0].labels
        about = learner.evaluate(base, images, labels), learner.losses(base, images, labels).tobytes()
        more = learner.gradient(base, images, labels).tobytes(), learner.slopes(base, rows[1], images, labels).tobytes()
        found.add((rows.tobytes(), losses.tobytes(), about, more))
    assert len(found) == 1


def test_a_job_with_fewer_epochs_is_trained_for_those(learner: Learner) -> None:
    stopped, whole = random_jobs(learner.model, SHAPE, CLASSES, (20, 13), TRAINING.epochs)
    stopped = dataclasses.replace(stopped, order=stopped.order[:1])
    once = TRAINING.model_copy(update={"epochs": 1})
    expected = np.empty((1, learner.n_parameters), np.float32)
    loss = plain_training.train(learner.model, once, CLASSES, expected, [stopped])
    rows, losses = train(learner, stopped, whole)
    assert losses[0] == pytest.approx(loss[0], rel=1e-5)
    np.testing.assert_allclose(rows[0], expected[0], atol=1e-5)
    # The other job is not affected.
    np.testing.assert_allclose(rows[1], train(learner, whole)[0][0], atol=1e-5)


def test_inputs_are_not_modified(learner: Learner) -> None:
    job = job_of(learner)
    corrected = dataclasses.replace(job, correction=np.full_like(job.base, 0.1))
    names = [one.name for one in dataclasses.fields(job) if one.name not in ("noise", "deadline", "optimizer")]
    before = {name: copy(getattr(corrected, name)) for name in names}
    train(learner, job, corrected)
    learner.evaluate(job.base, job.images, job.labels)
    learner.gradient(job.base, job.images, job.labels)
    assert all(np.array_equal(getattr(corrected, name), value) for name, value in before.items())


def test_nan_stays_in_its_own_job(learner: Learner) -> None:
    good = job_of(learner)
    bad = dataclasses.replace(good, base=np.full_like(good.base, np.nan))
    rows, losses = train(learner, bad, good)
    assert np.isnan(losses[0])
    assert np.isfinite(losses[1])
    assert not np.isfinite(rows[0]).all()
    row, alone = train(learner, good)
    np.testing.assert_allclose(rows[1], row[0], atol=1e-6)
    np.testing.assert_allclose(losses[1], alone[0], atol=1e-6)


def test_evaluation_in_chunks_equals_evaluation_at_once(learner: Learner) -> None:
    job = job_of(learner, 33)
    learner.chunk = 10
    _, logits = reference_logits(learner, job.base, job.images)
    labels = torch.from_numpy(job.labels)
    loss, accuracy = learner.evaluate(job.base, job.images, job.labels)
    assert loss == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item(), abs=1e-6)
    assert accuracy == pytest.approx((logits.argmax(1) == labels).double().mean().item())


def test_gradient_is_autograds_of_the_mean_loss(learner: Learner) -> None:
    job = job_of(learner, 33)
    learner.chunk = 10
    module, logits = reference_logits(learner, job.base, job.images)
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(job.labels)).backward()
    expected = torch.cat([p.grad.reshape(-1) for p in module.parameters() if p.grad is not None]).numpy()
    np.testing.assert_allclose(learner.gradient(job.base, job.images, job.labels), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base": np.zeros(3, np.float32)}, "base of job 0"),
        ({"images": np.zeros((20, 1, 8, 9), np.float32)}, "images of job 0"),
        ({"order": np.zeros((3, 20), np.int64)}, "order of job 0"),
        ({"images": np.zeros((20, 1, 8, 8))}, "must be float32, got float64"),
    ],
)
def test_arrays_of_the_wrong_shape_or_type_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    learner = learners()[0]
    rows = np.zeros((1, learner.n_parameters), np.float32)
    with pytest.raises(ValueError, match=message):
        learner.train(rows, [dataclasses.replace(job_of(learner), **change)])
    assert not rows.any()


def test_the_implementation_is_chosen_by_network_and_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert isinstance(make_learner(Mlp(), Training(), SHAPE, CLASSES), MlpLearner)
    learner = make_learner(LENET, Training(), SHAPE, CLASSES)
    assert isinstance(learner, ModuleLearner)
    assert learner.description["path"] == "ModuleLearner"
    assert learner.description["n_parameters"] == learner.n_parameters == learner.layout.n_parameters
    with pytest.raises(ScenarioError, match=r"training\.device: must be auto or cpu"):
        make_learner(Mlp(), Training(device="cuda"), SHAPE, CLASSES)
    made = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(BatchedLearner, "__init__", lambda self, *a: made.append(a[-1]))
    make_learner(Mlp(), Training(), SHAPE, CLASSES)
    assert made == ["cuda"]


def test_memory_grows_with_the_number_of_classes_not_with_its_square() -> None:
    learner = make_learner(Mlp(hidden=()), TRAINING, (1,), 3_000_000)
    job = Job(np.zeros(6_000_000, np.float32), np.ones((1, 1), np.float32), np.array([7]), np.zeros((2, 1), np.int64))
    row = train(learner, job)[0][0]
    assert row[7] > 0 > row[8]


def test_learners_leave_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    for learner in learners():
        train(learner, job_of(learner))
        learner.gradient(job_of(learner).base, job_of(learner).images, job_of(learner).labels)
    assert torch.equal(torch.get_rng_state(), before)


def test_losses_and_slopes_of_single_images(learner: Learner) -> None:
    job = job_of(learner)
    direction = np.random.default_rng(5).standard_normal(learner.n_parameters).astype(np.float32)
    losses = learner.losses(job.base, job.images, job.labels)
    slopes = learner.slopes(job.base, direction, job.images, job.labels)
    for number in range(3):
        one = slice(number, number + 1)
        gradient = learner.gradient(job.base, job.images[one], job.labels[one])
        assert losses[number] == pytest.approx(
            learner.evaluate(job.base, job.images[one], job.labels[one])[0], rel=1e-5
        )
        assert slopes[number] == pytest.approx(float(gradient @ direction), rel=1e-4, abs=1e-5)


def test_a_gpu_computes_in_float32_and_deterministically(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    learner.device = torch.device("cuda")
    with learner._products():
        assert not torch.backends.cudnn.benchmark
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.benchmark


@pytest.fixture
def judged() -> tuple[Learner, np.ndarray, np.ndarray, np.ndarray]:
    """A linear model with two outputs, 7 samples, and the numbers to predict."""
    rng = np.random.default_rng(1)
    learner = make_learner(Linear(), Training(device="cpu"), (4,), 2)
    model = rng.normal(size=learner.n_parameters).astype(np.float32)
    return learner, model, rng.normal(size=(7, 4)).astype(np.float32), rng.normal(size=(7, 2)).astype(np.float32)


def test_a_regression_is_evaluated_by_its_squared_error(judged) -> None:
    learner, model, x, y = judged
    expected = ((x @ model[:8].reshape(2, 4).T + model[8:] - y).astype(np.float64) ** 2).mean(1)
    np.testing.assert_allclose(learner.losses(model, x, y), expected, rtol=1e-5, atol=1e-6)
    loss, accuracy = learner.evaluate(model, x, y)
    assert loss == pytest.approx(expected.mean(), rel=1e-5)
    assert math.isnan(accuracy)
    assert is_regression(y)
    assert not is_regression(np.zeros(2, np.int64))


def test_gradient_and_slopes_of_a_regression_agree_with_finite_differences(judged) -> None:
    learner, model, x, y = judged
    direction = np.random.default_rng(2).normal(size=len(model)).astype(np.float32)
    slopes = learner.slopes(model, direction, x, y)
    assert slopes.mean() == pytest.approx(float(learner.gradient(model, x, y) @ direction), rel=1e-4)
    step = 1e-2
    ahead, behind = (learner.losses((model + way * direction).astype(np.float32), x, y) for way in (step, -step))
    np.testing.assert_allclose(slopes, (ahead - behind) / (2 * step), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("labels", [torch.tensor([1, 0, 2]), torch.randn(3, 4, generator=torch.Generator())])
def test_the_slope_is_the_derivative_of_the_loss(labels: torch.Tensor) -> None:
    outputs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    [derivative] = torch.autograd.grad(loss_of(outputs, labels, "sum"), outputs)
    torch.testing.assert_close(loss_slope(outputs, labels).detach(), derivative)


def test_labels_of_another_shape_are_refused_instead_of_broadcast() -> None:
    learner = make_learner(Linear(), Training(device="cpu"), (1,), 1)
    zeros = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match=r"labels of job 0 must have shape \(3, 1\), got \(3,\)"):
        learner.train(np.empty((1, 2), np.float32), [Job(zeros[:2], zeros[:, None], zeros, np.zeros((1, 3), np.int64))])
