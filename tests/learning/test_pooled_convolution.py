"""Convolutions behind pooling by compiled kernels: the values and gradients of torch, for each instruction set."""

import ctypes

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, max_pool2d

from asyncfl.learning import DigitsNet, DpCnn, LeNet, McMahanCnn, ResNet, SmallCnn, Training, make_learner
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.kernels import TORCH, VARIABLE, WIDTHS, available, library
from asyncfl.learning.module import ModuleLearner
from asyncfl.learning.pooled_convolution import PooledConvolution, with_compiled_blocks
from tests.learning.jobs import Normed, random_jobs, train

ROUNDING = 3e-6
"""Largest relative error (Frobenius norm) of float32 sums of a few thousand products."""
SIZES = {
    "LeNet, first": (3, 1, 28, 28, 16, 5, 2),
    "LeNet, second": (2, 16, 14, 14, 32, 5, 2),
    "LeNet, unpadded": (2, 6, 12, 12, 16, 5, 0),
    "McMahan's CNN, second": (2, 32, 14, 14, 64, 5, 2),
    "odd sides, three channels": (2, 3, 17, 13, 7, 3, 1),
    "more channels than a vector": (2, 17, 9, 12, 33, 5, 0),
    "wide": (1, 2, 8, 64, 5, 3, 1),
    "one output": (1, 1, 6, 6, 1, 5, 0),
    "smaller than its kernel": (2, 3, 2, 3, 4, 5, 2),
    "many channels": (1, 70, 6, 6, 20, 3, 1),
    "wider padding than kernels need": (1, 2, 5, 5, 3, 3, 4),
    "a batch of one row": (4, 8, 2, 16, 16, 3, 1),
}
"""Images, channels, height, width, filters, side and padding of a convolution."""


@pytest.fixture(params=WIDTHS)
def kernels(request: pytest.FixtureRequest) -> str:
    if request.param not in available():
        pytest.skip(f"this machine or its installation has no kernels for {request.param}")
    return str(request.param)


def block_of(size: tuple[int, ...], kernels: str, *, rectified: bool = True, flattened: bool = False) -> nn.Module:
    _, channels, _, _, filters, side, padding = size
    torch.manual_seed(filters)
    convolution = nn.Conv2d(channels, filters, side, padding=padding).to(memory_format=torch.channels_last)
    return PooledConvolution(convolution, rectified, flattened, kernels)


def images_of(size: tuple[int, ...]) -> torch.Tensor:
    n, channels, height, width, *_ = size
    return torch.randn(n, channels, height, width).contiguous(memory_format=torch.channels_last)


def by_torch(block: nn.Module, images: torch.Tensor, padding: int, rectified: bool = True) -> list[torch.Tensor]:
    """Return inputs of float64 that need gradients, and the output."""
    inputs = [one.detach().double().requires_grad_() for one in (images, block.weight, block.bias)]
    output = max_pool2d(conv2d(*inputs, padding=padding), 2)
    return [*inputs, output.relu() if rectified else output]


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative difference of two arrays by their Frobenius norms."""
    return float((found.detach().double() - expected.detach()).norm() / expected.detach().norm())


@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize("flattened", [True, False])
@pytest.mark.parametrize("name", SIZES)
def test_outputs_and_gradients_are_those_of_torch_in_float64(
    name: str, flattened: bool, rectified: bool, kernels: str
) -> None:
    size = SIZES[name]
    block = block_of(size, kernels, rectified=rectified, flattened=flattened)
    images = images_of(size).requires_grad_()
    *exact_inputs, exact = by_torch(block, images, size[-1], rectified)
    slope = torch.randn_like(exact)
    output = block(images)
    assert output.shape == exact.shape
    assert output.is_contiguous(memory_format=torch.contiguous_format if flattened else torch.channels_last)
    assert error(output, exact) < ROUNDING
    gradients = torch.autograd.grad(output, [images, block.weight, block.bias], slope.float())
    for found, expected in zip(gradients, torch.autograd.grad(exact, exact_inputs, slope), strict=True):
        assert found.shape == expected.shape
        assert error(found, expected) < ROUNDING


@pytest.mark.parametrize("rectified", [True, False])
@pytest.mark.parametrize("name", SIZES)
def test_gradients_of_each_image_are_kept_where_they_are_asked_for(name: str, rectified: bool, kernels: str) -> None:
    size = SIZES[name]
    block = block_of(size, kernels, rectified=rectified)
    images = images_of(size).requires_grad_()
    slope = torch.randn_like(block(images))
    block.keeps_examples = True
    (of_images,) = torch.autograd.grad(block(images), [images], slope)
    of_weight, of_bias = block.of_examples
    for i in range(len(images)):
        *exact_inputs, exact = by_torch(block, images[i : i + 1], size[-1], rectified)
        expected = torch.autograd.grad(exact, exact_inputs, slope[i : i + 1].double())
        found = (of_images[i : i + 1], of_weight[i], of_bias[i])
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            assert error(one, other) < ROUNDING


def test_an_image_that_is_not_finite_spoils_no_other(kernels: str) -> None:
    size = SIZES["LeNet, second"]
    block, images = block_of(size, kernels), images_of(size)
    block.keeps_examples = True

    def of_first() -> torch.Tensor:
        output = block(images)
        torch.autograd.grad(output, [block.weight], torch.ones_like(output), allow_unused=True)
        return block.of_examples[0]

    expected = of_first()[0]
    images[1, 3, 4, 5] = torch.nan
    found = of_first()
    assert torch.equal(found[0], expected)
    assert found[1].isnan().any()


def test_the_first_of_equal_places_has_the_gradient(kernels: str) -> None:
    block = block_of((2, 1, 6, 8, 3, 3, 0), kernels)
    nn.init.zeros_(block.weight)
    nn.init.ones_(block.bias)
    images = torch.randn(2, 1, 6, 8)
    output = block(images)
    (of_weight,) = torch.autograd.grad(output, [block.weight], torch.ones_like(output))
    # Windows of the outputs' upper left places: rows 0 and 2, columns 0, 2 and 4.
    expected = sum(images[:, 0, i : i + 3, j : j + 3].sum(0) for i in (0, 2) for j in (0, 2, 4))
    for filter_slope in of_weight[:, 0]:
        np.testing.assert_allclose(filter_slope, expected, rtol=0, atol=1e-5)
    assert torch.equal(output, torch.ones(2, 3, 2, 3))


@pytest.mark.parametrize("bias", [-100.0, 0.0])
def test_outputs_that_are_not_positive_have_no_gradient(bias: float, kernels: str) -> None:
    """At zero itself the gradient of ReLU is zero, as in torch."""
    block = block_of((2, 2, 8, 8, 5, 5, 2), kernels)
    nn.init.constant_(block.bias, bias)
    images = (images_of((2, 2, 8, 8)) if bias else torch.zeros(2, 2, 8, 8)).requires_grad_()
    output = block(images)
    assert not output.any()
    gradients = torch.autograd.grad(output, [images, block.weight, block.bias], torch.full_like(output, 7.0))
    assert not any(one.any() for one in gradients)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (4, 5), (7, 7)])
def test_outputs_that_are_not_finite_are_those_of_torch(place: tuple[int, int], value: float, kernels: str) -> None:
    size = (2, 2, 8, 8, 5, 3, 1)
    block, images = block_of(size, kernels), images_of(size)
    images[1, 1, place[0], place[1]] = value
    *_, expected = by_torch(block, images, 1)
    np.testing.assert_allclose(block(images).detach(), expected.detach(), rtol=1e-5, atol=1e-5)


def test_a_slope_that_is_nan_makes_gradients_nan(kernels: str) -> None:
    block, images = block_of(SIZES["LeNet, second"], kernels), images_of(SIZES["LeNet, second"])
    output = block(images)
    gradients = torch.autograd.grad(output, [block.weight, block.bias], torch.full_like(output, torch.nan))
    assert all(one.isnan().any() for one in gradients)


def test_bytes_depend_neither_on_memory_formats_nor_on_other_images_nor_on_earlier_passes(kernels: str) -> None:
    size = SIZES["LeNet, second"]
    block, images = block_of(size, kernels), images_of(size).requires_grad_()
    output = block(images)
    slope = torch.randn_like(output)
    first = torch.autograd.grad(output, [images, block.weight, block.bias], slope)
    block(images_of((5, *size[1:])))
    again = block(images.contiguous())
    assert torch.equal(again, output)
    assert torch.equal(block(images[:1]), output[:1])
    strided = torch.empty(*slope.shape[:3], 2 * slope.shape[3])[..., ::2]
    for same in (slope.contiguous(), strided.copy_(slope)):
        second = torch.autograd.grad(again, [images, block.weight, block.bias], same, retain_graph=True)
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("model", "shape", "blocks"),
    [
        (LeNet(), (1, 28, 28), 2),
        (LeNet(padded=False), (1, 28, 28), 2),
        (McMahanCnn(), (3, 32, 32), 2),
        (SmallCnn(), (3, 28, 28), 3),
        (SmallCnn(groups=0, kernel=5), (1, 28, 28), 3),
        (DpCnn(), (1, 28, 28), 0),
        (DigitsNet(), (3, 28, 28), 0),
        (ResNet(), (3, 32, 32), 0),
    ],
)
def test_blocks_of_the_built_in_networks_are_found(
    model: Architecture, shape: Shape, blocks: int, kernels: str
) -> None:
    plain = model.module(shape, 10)
    found = with_compiled_blocks(plain, kernels)
    assert sum(isinstance(part, PooledConvolution) for part in found.modules()) == blocks
    assert (found is plain) == (blocks == 0)
    parameters = list(found.parameters())
    assert len(parameters) == len(list(plain.parameters()))
    assert all(one is other for one, other in zip(parameters, plain.parameters(), strict=True))
    images = torch.randn(2, *shape)
    np.testing.assert_allclose(found(images).detach(), plain(images).detach(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "parts",
    [
        [nn.Conv2d(1, 2, 5, stride=2), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 5, dilation=2), nn.MaxPool2d(2)],
        [nn.Conv2d(2, 2, 5, groups=2), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 5, bias=False), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 5, padding="same"), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 5, padding=(1, 2)), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, (3, 5)), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 7), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 5), nn.MaxPool2d(3)],
        [nn.Conv2d(1, 2, 5), nn.MaxPool2d(2, stride=1)],
        [nn.Conv2d(1, 2, 5), nn.MaxPool2d(2, ceil_mode=True)],
        [nn.Conv2d(1, 2, 5), nn.AvgPool2d(2)],
        [nn.Conv2d(1, 2, 5), nn.ReLU(), nn.MaxPool2d(2)],
        [nn.Conv2d(1, 2, 5)],
    ],
    ids=str,
)
def test_other_blocks_stay_with_torch(parts: list[nn.Module], kernels: str) -> None:
    plain = nn.Sequential(*parts)
    assert with_compiled_blocks(plain, kernels) is plain


def learner(model: Architecture, kernels: str, monkeypatch: pytest.MonkeyPatch, **settings: object) -> ModuleLearner:
    monkeypatch.setenv(VARIABLE, kernels)
    training = Training(**{"lr": 0.05, "batch_size": 8, "epochs": 2, "device": "cpu"} | settings)
    found = make_learner(model, training, (1, 28, 28), 10)
    assert isinstance(found, ModuleLearner)
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"momentum": 0.9, "proximal_mu": 0.1},
        {"optimizer": "adam", "lr": 1e-3},
        {"example_clip": 0.5},
        {"batch_size": "full", "example_clip": 0.1},
    ],
)
@pytest.mark.parametrize("model", [LeNet(), McMahanCnn(channels=(8, 20), hidden=(30,)), SmallCnn()])
def test_training_and_evaluation_agree_with_torch(
    model: Architecture, settings: dict[str, object], kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_torch = learner(model, TORCH, monkeypatch, **settings)
    compiled = learner(model, kernels, monkeypatch, **settings)
    assert (by_torch.kernels, compiled.kernels) == (TORCH, kernels)
    jobs = random_jobs(model, (1, 28, 28), 10, (20, 7), 2)
    rows, losses = train(compiled, *jobs)
    expected, expected_losses = train(by_torch, *jobs)
    # Among nearly equal values of a window rounding decides, on each CPU in its way, which one has the gradient.
    for row, other, job in zip(rows, expected, jobs, strict=True):
        apart = np.linalg.norm(row - other) / np.linalg.norm(other - job.base)
        assert apart < 1e-2
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-3)
    found = compiled.evaluate(rows[0], jobs[0].images, jobs[0].labels)
    assert found == pytest.approx(by_torch.evaluate(rows[0], jobs[0].images, jobs[0].labels), rel=1e-4)
    assert f"convolutions behind pooling by kernels for {kernels}" in compiled.log_line
    assert "behind pooling" not in by_torch.log_line


def test_equal_trainings_give_equal_bytes(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LeNet()
    jobs = random_jobs(model, (1, 28, 28), 10, (20,), 2)
    first, second = (train(learner(model, kernels, monkeypatch), *jobs)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_networks_of_users_and_without_such_blocks_stay_with_torch(
    kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert learner(Normed(), kernels, monkeypatch).kernels == TORCH
    assert learner(ResNet(), kernels, monkeypatch).kernels == TORCH


def test_no_kernel_writes_beyond_the_workspace_that_it_asks_for(kernels: str) -> None:
    for size in SIZES.values():
        block, images = block_of(size, kernels), images_of(size).requires_grad_()
        sizes = block._sizes(images, block.weight)
        needed, beyond = library().asyncfl_workspace(ctypes.byref(sizes)), 4096
        block._workspace = torch.full((needed + beyond,), 7.5)
        for block.keeps_examples in (False, True):
            block(images).sum().backward()
            assert (block._workspace[needed:] == 7.5).all()


def test_sums_over_a_large_batch_round_no_more_than_those_of_torch(kernels: str) -> None:
    size = (500, 1, 28, 28, 4, 5, 2)
    block, images = block_of(size, kernels), images_of(size).add_(1)
    *exact_inputs, exact = by_torch(block, images, 2)
    slope = torch.rand_like(exact)
    found = torch.autograd.grad(block(images), [block.weight, block.bias], slope.float())
    for one, expected in zip(found, torch.autograd.grad(exact, exact_inputs[1:], slope), strict=True):
        assert error(one, expected) < ROUNDING
