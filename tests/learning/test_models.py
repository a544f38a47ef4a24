"""The networks: number of parameters, and outputs compared with the same network written in plain torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional

from asyncfl.learning.architecture import Architecture, Shape
from asyncfl.learning.models import CharLstm, DigitsNet, DpCnn, LeNet, Linear, McMahanCnn, Mlp, ResNet, SmallCnn

MNIST, COLOUR, COLOUR_32, TEXT = (1, 28, 28), (3, 28, 28), (3, 32, 32), (80,)


def resnet_parameters(stages: tuple[int, ...], blocks: int) -> int:
    """Two 3x3 convolutions and two norms per block, and a 1x1 convolution with norm where the width changes."""
    before, total = stages[0], 9 * 3 * stages[0] + 2 * stages[0]
    for width in stages:
        for _ in range(blocks):
            total += 9 * before * width + 9 * width * width + 4 * width
            total += before * width + 2 * width if before != width else 0
            before = width
    return total + (before + 1) * 10


@pytest.mark.parametrize(
    ("model", "shape", "classes", "count"),
    [
        # By hand: (inputs kernel^2 + 1) outputs of a convolution, (inputs + 1) outputs of a linear layer, 2 channels of
        # a GroupNorm; pooling halves the 28 pixels to 14, 7 and 3.
        (Linear(), MNIST, 10, 785 * 10),
        (Linear(), (30,), 2, 31 * 2),
        (Mlp(), MNIST, 10, 785 * 256 + 257 * 10),
        (Mlp(hidden=()), MNIST, 10, 785 * 10),
        (Mlp(hidden=(64,)), COLOUR, 10, 2353 * 64 + 65 * 10),
        (LeNet(), MNIST, 10, 26 * 16 + 401 * 32 + 1569 * 128 + 129 * 10),
        (LeNet(channels=(6, 16), hidden=(120, 84), padded=False), MNIST, 10, 44_426),  # LeNet-5 as commonly written
        (DpCnn(), MNIST, 10, 26_010),  # in the literature on DP-SGD
        (McMahanCnn(), MNIST, 10, 26 * 32 + 801 * 64 + 3137 * 512 + 513 * 10),  # 1,663,370 in the paper
        (SmallCnn(groups=0), COLOUR, 10, 28 * 8 + 73 * 16 + 145 * 16 + 145 * 10),
        (SmallCnn(), COLOUR, 10, 28 * 8 + 73 * 16 + 145 * 16 + 145 * 10 + 2 * (8 + 16 + 16)),
        (SmallCnn(channels=(8, 16), kernel=5, groups=0), COLOUR, 10, 76 * 8 + 201 * 16 + 785 * 10),
        # FedBN's DigitModel: 6272 = 128 channels of 7 x 7 pixels; 76 + 1601 = 1677; 2816 channels are normalised.
        (DigitsNet(), COLOUR, 10, 1677 * 64 + 1601 * 128 + 6273 * 2048 + 2049 * 512 + 513 * 10 + 2 * 2816),
        (ResNet(depth=20), COLOUR_32, 10, resnet_parameters((16, 32, 64), 3)),  # 0.27 M in the paper, 0.85 M for 56
        (ResNet(depth=56), COLOUR_32, 10, resnet_parameters((16, 32, 64), 9)),
        (ResNet(depth=18), COLOUR_32, 10, resnet_parameters((64, 128, 256, 512), 2)),
        # Four gates with weights and, in torch, two biases each: McMahan et al. report 820,522 with one bias.
        (CharLstm(), TEXT, 90, 90 * 8 + 4 * 256 * (8 + 256 + 2) + 4 * 256 * (256 + 256 + 2) + 257 * 90),
    ],
    ids=str,
)
def test_number_of_parameters(model: Architecture, shape: Shape, classes: int, count: int) -> None:
    assert model.layout(shape, classes).n_parameters == count
    drawn = model.initial_parameters(shape, classes, torch.Generator().manual_seed(0))
    assert (drawn.shape, drawn.dtype) == ((count,), np.float32)


Weights = dict[str, torch.Tensor]


def linear(w: Weights, x: torch.Tensor) -> torch.Tensor:
    return x.flatten(1) @ w["1.weight"].T + w["1.bias"]


def mlp(w: Weights, x: torch.Tensor) -> torch.Tensor:
    hidden = (x.flatten(1) @ w["1.weight"].T + w["1.bias"]).relu()
    return hidden @ w["3.weight"].T + w["3.bias"]


def two_convolutions(w: Weights, x: torch.Tensor) -> torch.Tensor:
    """Convolution, ReLU and pooling, as the papers order them, then two linear layers."""
    for at in ("0", "3"):
        x = functional.max_pool2d(functional.conv2d(x, w[f"{at}.weight"], w[f"{at}.bias"], padding=2).relu(), 2)
    hidden = (x.flatten(1) @ w["7.weight"].T + w["7.bias"]).relu()
    return hidden @ w["9.weight"].T + w["9.bias"]


def small_cnn(w: Weights, x: torch.Tensor) -> torch.Tensor:
    for at in (0, 4, 8):
        x = functional.max_pool2d(functional.conv2d(x, w[f"{at}.weight"], w[f"{at}.bias"], padding=1), 2)
        x = functional.group_norm(x, 4, w[f"{at + 2}.weight"], w[f"{at + 2}.bias"]).relu()
    return x.flatten(1) @ w["13.weight"].T + w["13.bias"]


def digits(w: Weights, x: torch.Tensor) -> torch.Tensor:
    for at, pooled in ((0, True), (4, True), (8, False)):
        x = functional.conv2d(x, w[f"{at}.weight"], w[f"{at}.bias"], padding=2)
        x = functional.group_norm(x, 32, w[f"{at + 1}.weight"], w[f"{at + 1}.bias"])
        x = (functional.max_pool2d(x, 2) if pooled else x).relu()
    x = x.flatten(1)
    for at in (12, 15):
        x = x @ w[f"{at}.weight"].T + w[f"{at}.bias"]
        x = functional.group_norm(x, 32, w[f"{at + 1}.weight"], w[f"{at + 1}.bias"]).relu()
    return x @ w["18.weight"].T + w["18.bias"]


def resnet(w: Weights, x: torch.Tensor) -> torch.Tensor:
    """He et al. 2016, section 4.2, with one block per stage and GroupNorm of 8 groups."""

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.group_norm(x, 8, w[f"{name}.weight"], w[f"{name}.bias"])

    x = norm("1", functional.conv2d(x, w["0.weight"], padding=1)).relu()
    for block, stride in (("3", 1), ("4", 2), ("5", 2)):
        inner = functional.conv2d(x, w[f"{block}.convolution1.weight"], stride=stride, padding=1)
        inner = functional.conv2d(norm(f"{block}.norm1", inner).relu(), w[f"{block}.convolution2.weight"], padding=1)
        if stride > 1:
            x = norm(f"{block}.shortcut.1", functional.conv2d(x, w[f"{block}.shortcut.0.weight"], stride=stride))
        x = (norm(f"{block}.norm2", inner) + x).relu()
    return x.mean((2, 3)) @ w["8.weight"].T + w["8.bias"]


def char_lstm(w: Weights, x: torch.Tensor) -> torch.Tensor:
    """Gates in torch's order: input, forget, cell, output."""
    steps = w["embedding.weight"][x.long()]
    for layer in range(2):
        hidden = cell = torch.zeros(len(x), 256)
        outputs = []
        for step in range(x.shape[1]):
            gates = steps[:, step] @ w[f"lstm.weight_ih_l{layer}"].T + w[f"lstm.bias_ih_l{layer}"]
            gates = gates + hidden @ w[f"lstm.weight_hh_l{layer}"].T + w[f"lstm.bias_hh_l{layer}"]
            i, f, g, o = gates.chunk(4, dim=1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        steps = torch.stack(outputs, dim=1)
    return steps[:, -1] @ w["output.weight"].T + w["output.bias"]


@pytest.mark.parametrize(
    ("model", "shape", "plain"),
    [
        (Linear(), MNIST, linear),
        (Mlp(), MNIST, mlp),
        (LeNet(), MNIST, two_convolutions),
        (McMahanCnn(), MNIST, two_convolutions),
        (SmallCnn(), COLOUR, small_cnn),
        (DigitsNet(), (3, 8, 8), digits),
        (ResNet(), COLOUR_32, resnet),
        (CharLstm(), TEXT, char_lstm),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_outputs_are_those_of_the_network_in_plain_torch(
    model: Architecture, shape: Shape, plain: Callable[[Weights, torch.Tensor], torch.Tensor]
) -> None:
    module = model.module(shape, 10)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
        x = torch.randn(3, *shape, generator=generator)
        x = (x.abs() * 4).floor().clamp(max=9) if shape == TEXT else x
        expected = plain(dict(module.named_parameters()), x)
        torch.testing.assert_close(module(x), expected, rtol=1e-4, atol=1e-4)
        alone = torch.cat([module(one[None]) for one in x])
        torch.testing.assert_close(module(x), alone, rtol=1e-4, atol=1e-4, msg="an example depends on the others")


def test_groups_must_divide_the_channels() -> None:
    with pytest.raises(ValidationError, match=r"groups must be 0 or divide each of channels \(8, 16, 16\)"):
        SmallCnn(groups=3)
    with pytest.raises(ValidationError, match="must divide 64 channels"):
        DigitsNet(groups=7)


def test_networks_refuse_samples_of_another_kind() -> None:
    for model in (LeNet(), McMahanCnn(), SmallCnn(), DigitsNet(), ResNet()):
        [fault] = model.faults((30,), 2)
        assert str(fault) == "kind: must be a network for samples of shape (30,), such as mlp; convolutions need images"
        assert list(model.faults((3, 32, 32), 10)) == []
    [fault] = CharLstm().faults((1, 28, 28), 10)
    assert fault.message == "char_lstm reads texts (length,), got inputs of shape (1, 28, 28); take another network"
    assert list(CharLstm().faults((6,), 5)) == []


class Own(Architecture):
    """A user's network with a layer without bias, an LSTM, and a weight that two layers share."""

    kind: str = "tests:Own"

    def module(self, shape: Shape, classes: int) -> Any:
        from torch import nn

        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        second.weight = first.weight
        return nn.ModuleDict({"norm": nn.LayerNorm(4), "first": first, "second": second, "rnn": nn.LSTM(3, 2)})


def test_a_network_of_ones_own_needs_only_its_module() -> None:
    layout = Own().layout((4,), 4)
    assert [name for name, _, _ in layout.parameters()] == [
        "norm.weight", "norm.bias", "first.weight", "first.bias", "second.bias",
        "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0",
    ]  # fmt: skip
    rnn = layout["rnn"]
    assert (layout["norm"].is_plain, rnn.is_plain, rnn.stop - rnn.start) == (True, False, 56)
    drawn = Own().initial_parameters((4,), 4, torch.Generator().manual_seed(0))
    assert len(drawn) == layout.n_parameters
    assert drawn[layout["norm"].slice].tolist() == [1] * 4 + [0] * 4
    with pytest.raises(NotImplementedError):
        Architecture(kind="x").module((1, 4, 4), 3)  # type: ignore[call-arg]
