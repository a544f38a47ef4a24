from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from asyncfl.errors import ScenarioError
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.models import LeNet, McMahanCnn, Mlp

MNIST = (1, 28, 28)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (Mlp(), 203_530),
        (Mlp(hidden=(64,)), 50_890),
        (Mlp(hidden=()), 7_850),
        (LeNet(), 215_370),
        (McMahanCnn(), 1_663_370),
    ],
)
def test_number_of_parameters(model: Architecture, count: int) -> None:
    assert model.layout(MNIST, 10).n_parameters == count


def test_layout_names_modules_in_the_order_of_their_parameters() -> None:
    layers = Mlp(hidden=(256,)).layout(MNIST, 10).layers
    assert [(x.weight_shape, x.bias_shape) for x in layers] == [((256, 784), (256,)), ((10, 256), (10,))]
    assert Mlp(hidden=(5, 4)).widths((3, 28, 28), 10) == (2352, 5, 4, 10)


@pytest.mark.parametrize("model", [LeNet(), McMahanCnn()])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 28, 28), (1, 16, 16), (3, 32, 32)])
def test_convolutions_take_every_data_set(model: Architecture, shape: Shape) -> None:
    assert model.module(shape, 10)(torch.zeros(2, *shape)).shape == (2, 10)


def test_images_too_small_to_pool_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"model\.channels: images must be at least 4"):
        LeNet().module((1, 3, 3), 10)


def test_initial_parameters_are_those_of_pytorch_defaults() -> None:
    """Uniform within 1/sqrt(inputs): weight norm of 784-256-10 is 9.42, moments as the uniform law has them."""
    model = Mlp()
    drawn = model.initial_parameters(MNIST, 10, torch.Generator().manual_seed(3))
    assert drawn.dtype == np.float32
    assert np.linalg.norm(drawn) == pytest.approx(9.42, abs=0.05)
    for layer in model.layout(MNIST, 10).layers:
        bound = 1 / math.sqrt(layer.weight_shape[1])
        part = drawn[layer.slice]
        assert np.abs(part).max() <= bound
        assert part.std() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_initial_parameters_depend_on_the_generator_alone() -> None:
    model = LeNet()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = model.initial_parameters(MNIST, 10, torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert np.array_equal(first, model.initial_parameters(MNIST, 10, torch.Generator().manual_seed(3)))
    assert not np.array_equal(first, model.initial_parameters(MNIST, 10, torch.Generator().manual_seed(4)))


class Normed(Architecture):
    """A user's own network, with layers of other kinds."""

    kind: str = "tests:Normed"

    def module(self, shape: Shape, classes: int) -> torch.nn.Module:
        from torch import nn

        pixels = math.prod(shape)
        return nn.Sequential(nn.Flatten(), nn.LayerNorm(pixels), nn.Linear(pixels, classes, bias=False))


def test_an_architecture_of_ones_own_needs_its_module_alone() -> None:
    layers = Normed().layout((1, 4, 4), 3).layers
    assert [(x.weight_shape, x.bias_shape) for x in layers] == [((16,), (16,)), ((3, 16), ())]
    drawn = Normed().initial_parameters((1, 4, 4), 3, torch.Generator().manual_seed(0))
    assert np.array_equal(drawn[:32], [1] * 16 + [0] * 16)


def test_a_module_with_other_parameters_is_refused() -> None:
    class Odd(Architecture):
        kind: str = "tests:Odd"

        def module(self, shape: Shape, classes: int) -> torch.nn.Module:
            return torch.nn.MultiheadAttention(4, 2)

    with pytest.raises(TypeError, match="owns"):
        Odd().layout((1, 4, 4), 3)
    with pytest.raises(NotImplementedError):
        Architecture(kind="x").module((1, 4, 4), 3)  # type: ignore[call-arg]
