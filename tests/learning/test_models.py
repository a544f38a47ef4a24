from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from asyncfl.errors import ScenarioError
from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.models import DigitsNet, LeNet, Linear, McMahanCnn, Mlp, ResNet, SmallCnn

MNIST = (1, 28, 28)
COLOUR = (3, 28, 28)
COLOUR_32 = (3, 32, 32)


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


@pytest.mark.parametrize(
    ("model", "count"),
    [
        # by hand: sum of (inputs kernel^2 + 1) outputs over convolutions, (inputs + 1) outputs over linear layers
        (Mlp(hidden=(64,)), 151_242),
        (LeNet(), 216_170),
        (SmallCnn(groups=0), 5_162),
        (SmallCnn(), 5_162 + 2 * (8 + 16 + 16)),
        (SmallCnn(channels=(8, 16), kernel=5, groups=0), 608 + 3_216 + 7_850),
        (DigitsNet(), 14_213_578 + 2 * (64 + 64 + 128 + 2048 + 512)),
    ],
    ids=str,
)
def test_number_of_parameters_on_colour_images(model: Architecture, count: int) -> None:
    assert model.layout(COLOUR, 10).n_parameters == count


def test_the_digits_net_is_fedbn_s_with_group_norm_for_batch_norm() -> None:
    """Shapes of `DigitModel` of FedBN: 3 convolutions, 6272 features, 2048 and 512 units."""
    layers = DigitsNet().layout(COLOUR, 10).layers
    assert [(x.weight_shape, x.bias_shape) for x in layers] == [
        ((64, 3, 5, 5), (64,)),
        ((64,), (64,)),
        ((64, 64, 5, 5), (64,)),
        ((64,), (64,)),
        ((128, 64, 5, 5), (128,)),
        ((128,), (128,)),
        ((2048, 6272), (2048,)),
        ((2048,), (2048,)),
        ((512, 2048), (512,)),
        ((512,), (512,)),
        ((10, 512), (10,)),
    ]


@pytest.mark.parametrize("model", [SmallCnn(), DigitsNet()])
def test_normalised_networks_judge_each_image_by_itself(model: Architecture) -> None:
    module = model.module(COLOUR, 10)
    images = torch.randn(6, *COLOUR, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        alone = torch.cat([module(image[None]) for image in images])
        torch.testing.assert_close(module(images), alone, rtol=0, atol=1e-5)


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ValidationError, match=r"groups must be 0 or divide each of channels \(8, 16, 16\)"):
        SmallCnn(groups=3)
    with pytest.raises(ValidationError, match="must divide 64 channels"):
        DigitsNet(groups=7)


def test_layout_names_modules_in_the_order_of_their_parameters() -> None:
    layers = Mlp(hidden=(256,)).layout(MNIST, 10).layers
    assert [(x.weight_shape, x.bias_shape) for x in layers] == [((256, 784), (256,)), ((10, 256), (10,))]
    assert Mlp(hidden=(5, 4)).widths((3, 28, 28), 10) == (2352, 5, 4, 10)


@pytest.mark.parametrize("model", [LeNet(), McMahanCnn(), SmallCnn(), DigitsNet()])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 28, 28), (1, 16, 16), (3, 32, 32)])
def test_convolutions_take_every_data_set(model: Architecture, shape: Shape) -> None:
    assert model.module(shape, 10)(torch.zeros(2, *shape)).shape == (2, 10)


@pytest.mark.parametrize(("height", "width"), [(3, 3), (3, 28), (28, 3)])
def test_images_too_small_to_pool_are_refused(height: int, width: int) -> None:
    got = f"images must be at least 4 wide and high, got {height}x{width}"
    with pytest.raises(ScenarioError, match=rf"model\.channels: {got}"):
        LeNet().module((1, height, width), 10)
    with pytest.raises(ScenarioError, match=got):
        DigitsNet().module((1, height, width), 10)


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


@pytest.mark.parametrize(
    ("depth", "classes", "parameters"),
    [(8, 10, 78_042), (20, 10, 272_474), (56, 10, 855_770), (18, 10, 11_173_962), (18, 100, 11_220_132)],
)
def test_residual_networks_have_the_parameters_of_the_paper(depth: int, classes: int, parameters: int) -> None:
    """Those with projections that are known of 20, 56 and 18 layers: 0.27, 0.85 and 11.17 millions."""
    assert ResNet(depth=depth).layout(COLOUR_32, classes).n_parameters == parameters


def test_a_residual_network_computes_for_any_size_of_image() -> None:
    module = ResNet(groups=4).module((1, 9, 7), 3)
    assert module(torch.zeros(2, 1, 9, 7)).shape == (2, 3)


@pytest.mark.parametrize("model", [LeNet(), McMahanCnn(), SmallCnn(), DigitsNet(), ResNet()])
def test_networks_for_images_refuse_other_inputs(model: Architecture) -> None:
    [fault] = model.faults((30,), 2)
    assert fault.message == "must be a network for samples of shape (30,), such as mlp; convolutions need images"
    assert list(model.faults((3, 32, 32), 10)) == []


def test_a_linear_model_takes_inputs_of_any_shape() -> None:
    assert Linear().layout((30,), 2).n_parameters == 62
    assert list(Linear().faults((30,), 2)) == []


def test_a_layer_may_own_any_parameters() -> None:
    class Recurrent(Architecture):
        kind: str = "tests:Recurrent"

        def module(self, shape: Shape, classes: int) -> torch.nn.Module:
            return torch.nn.LSTM(3, 2)

    [layer] = Recurrent().layout((1, 4, 4), 3).layers
    assert dict(layer.shapes) == {
        "weight_ih_l0": (8, 3),
        "weight_hh_l0": (8, 2),
        "bias_ih_l0": (8,),
        "bias_hh_l0": (8,),
    }
    assert (layer.is_plain, layer.weight_shape, len(layer)) == (False, (), 24 + 16 + 16)


def test_a_parameter_that_layers_share_counts_once() -> None:
    class Tied(Architecture):
        kind: str = "tests:Tied"

        def module(self, shape: Shape, classes: int) -> torch.nn.Module:
            first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            second.weight = first.weight
            return torch.nn.Sequential(first, second)

    layout = Tied().layout((1, 2, 2), 4)
    assert [name for name, _, _ in layout.parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert layout.n_parameters == len(Tied().initial_parameters((1, 2, 2), 4, torch.Generator().manual_seed(0)))


def test_an_architecture_without_a_module_is_none() -> None:
    with pytest.raises(NotImplementedError):
        Architecture(kind="x").module((1, 4, 4), 3)  # type: ignore[call-arg]


def test_convolutions_of_other_samples_than_images_are_refused() -> None:
    said = r"model\.kind: must be a network for samples of shape \(784,\), such as mlp; convolutions need images"
    with pytest.raises(ScenarioError, match=said):
        LeNet().module((784,), 10)
    assert [(fault.field, fault.message) for fault in LeNet().faults((784,), 10)] == [
        ("kind", "must be a network for samples of shape (784,), such as mlp; convolutions need images")
    ]
    assert list(LeNet().personal_faults(MNIST, 10)) == []
