"""The user's own modules as networks: which are trained, and which are refused with which message."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asyncfl.api import execute
from asyncfl.base.component import own_sources
from asyncfl.base.errors import ScenarioError
from asyncfl.base.own_classes import look_for_modules_in
from asyncfl.learning.architecture import OwnModule, untrained_module
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

CODE = '''
import numpy
import torch
from torch import nn

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.learning import Architecture


class Net(nn.Module):
    def __init__(self, shape, classes, hidden=4, bias=True):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(hidden))
        self.first = nn.Linear(shape[0] * shape[1] * shape[2], hidden)
        self.last = nn.Linear(hidden, classes, bias=bias)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x.flatten(1))) * self.scale)


def make(num_classes, *, wide: int):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, wide), nn.ReLU(), nn.Linear(wide, num_classes))


class Rows(nn.Module):
    """Reads an image row by row."""

    def __init__(self, classes):
        super().__init__()
        self.register_buffer("order", torch.from_numpy(numpy.arange(28)))
        self.lstm = nn.LSTM(28, 5, batch_first=True)
        self.last = nn.Linear(5, classes)

    def forward(self, x):
        return self.last(self.lstm(x[:, 0, self.order])[0][:, -1])


def flat(*parts):
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(784, 10))


def normed(): return flat(nn.BatchNorm2d(1))
def dropping(): return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(784, 10))
def sleeping(): return nn.Sequential(nn.Flatten(), nn.Dropout(0.0), nn.Linear(784, 10))
def double(): return flat().double()
def few(): return nn.Sequential(nn.Flatten(), nn.Linear(784, 9))
def empty(): return nn.Flatten()
def text(): return "net"
def lazy(): return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
def narrow(): return nn.Linear(3, 10)


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.rand(784))
        self.last = nn.Linear(784, 10)

    def forward(self, x):
        return self.last(x.flatten(1) * self.mask)


def frozen():
    net = flat()
    net[1].bias.requires_grad_(False)
    return net


def failing():
    raise KeyError("weights")


class Scaled(nn.Module):
    """A network whose constructor computes with values."""

    def __init__(self):
        super().__init__()
        wide = int(torch.ones(3).sum().item())
        self.first, self.last = nn.Linear(784, wide), nn.Linear(wide, 10)

    def forward(self, x):
        return self.last(self.first(x.flatten(1)))


class Detached(nn.Linear):
    def __init__(self):
        super().__init__(784, 10)

    def forward(self, x):
        return super().forward(x.flatten(1)).detach()


class Misreading(Detached):
    def forward(self, x):
        raise ScenarioError([Fault("model.file", "is not there")])


class Plain(nn.Module):
    """A linear network; the networks below change what goes into it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.last = nn.Linear(784, 10)

    def forward(self, x):
        return self.last(self.change(x.flatten(1)))


class Counting(Plain):
    def change(self, x):
        self.seen += len(x)
        return x


class Remembering(Plain):
    calls = 0

    def change(self, x):
        self.calls += 1
        return x * self.calls


class Noisy(Plain):
    def change(self, x):
        return x + torch.randn_like(x)


class Dropping(Plain):
    def change(self, x):
        return nn.functional.dropout(x, 0.5, self.training)


class Centred(Plain):
    def change(self, x):
        return x - x.mean(0)


class Ranked(Plain):
    def change(self, x):
        return x if self.training else x * torch.arange(1, len(x) + 1)[:, None]


def batch_normed(): return flat(nn.BatchNorm2d(1, track_running_stats=False))
def instance_normed(): return flat(nn.InstanceNorm2d(1))


class TwoHeads(nn.Module):
    """A network with a head that is not used, and a number of no dimensions."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.used, self.unused = nn.Linear(784, 10), nn.Linear(784, 3)

    def forward(self, x):
        return self.used(x.flatten(1)) * self.scale


class Described(Architecture):
    kind: str = "my_networks:Described"
    outputs: int = 10

    def module(self, shape, outputs):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, self.outputs))

'''


@pytest.fixture(autouse=True)
def module(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file with the user's networks on the search path."""
    folder = Path(tmp_path_factory.getbasetemp()) / "own_networks"
    folder.mkdir(exist_ok=True)
    (folder / "my_networks.py").write_text(CODE)
    look_for_modules_in(folder)


def with_model(tiny: dict[str, Any], name: str, **fields: Any) -> dict[str, Any]:
    return {**tiny, "model": {"kind": name if ":" in name else f"my_networks:{name}", **fields}}


@pytest.mark.parametrize(
    ("name", "fields", "parameters"),
    [
        ("Net", {}, 4 + 784 * 4 + 4 + 4 * 10 + 10),
        ("Net", {"hidden": 3, "bias": False}, 3 + 784 * 3 + 3 + 3 * 10),
        ("make", {"wide": 5}, 784 * 5 + 5 + 5 * 10 + 10),
        ("Rows", {}, 4 * 5 * (28 + 5 + 2) + 60),
        ("sleeping", {}, 7850),
        ("Scaled", {}, 785 * 3 + 4 * 10),
        ("dropping", {}, 7850),
        ("Dropping", {}, 7850),
        ("normed", {}, 7850 + 2),
        ("batch_normed", {}, 7850 + 2),
        ("Described", {}, 7850),
        ("instance_normed", {}, 7850),
        ("TwoHeads", {}, 1 + 7850 + 785 * 3),
    ],
)
def test_any_sound_module_is_trained(tiny: dict[str, Any], name: str, fields: dict[str, Any], parameters: int) -> None:
    scenario = Scenario.read(with_model(tiny, name, **fields))
    assert scenario.n_parameters == parameters
    again = Scenario.read(scenario.resolved())
    assert again == scenario.settled()
    assert own_sources(scenario).keys() == {"my_networks"}
    assert 0 < scenario.estimated_cost() < 10
    run = simulate_seed(scenario, 0)
    losses = [row["train_loss"] for row in run.rounds]
    assert losses[-1] < losses[0]
    assert run.learner["path"] == "ModuleLearner"


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("Drawn", {}, r"draws its buffer mask at random"),
        ("Counting", {}, r"keeps state in its buffer seen: forward changes it"),
        ("Remembering", {}, r"gives two outputs for the same inputs in training: its forward keeps state, or draws"),
        ("Noisy", {}, r"gives two outputs for the same inputs in evaluation: its forward draws at random though"),
        ("Centred", {}, r"gives a sample another output alone than in a batch of two; use no statistics over the"),
        ("Ranked", {}, r"gives a sample another output alone than in a batch of two"),
        ("frozen", {}, r"must train all its parameters, 1\.bias has requires_grad=False"),
        ("double", {}, r"must have float32 parameters, 1\.weight is float64"),
        ("few", {}, r"must return \(2, 10\) float32 for inputs of shape \(2, 1, 28, 28\), got \(2, 9\) float32"),
        ("empty", {}, r"has no parameters: there is nothing to train"),
        ("lazy", {}, r"has LazyLinear \(1\.weight\), whose size depends on its first input; give"),
        ("text", {}, r"must be or return an nn\.Module, got str"),
        ("failing", {}, r"cannot be made: .*my_networks\.py, line \d+: KeyError: 'weights'"),
        ("narrow", {}, r"fails on inputs of shape \(2, 1, 28, 28\): RuntimeError: mat1 and mat2"),
        ("Detached", {}, r"returns an output that does not depend on its parameters: there is nothing to train"),
        ("Misreading", {}, r"^model\.file: is not there$"),
        ("Net", {"hiden": 3}, r"model\.hiden: my_networks:Net takes no hiden; did you mean hidden\?"),
        ("make", {}, r"model\.wide: is an argument of my_networks:make without a default; set it beside kind"),
        ("torchvision:vgg17", {}, r"torchvision has no network vgg17; did you mean vgg1\d\?"),
    ],
)
def test_a_module_that_cannot_be_trained_is_refused(
    tiny: dict[str, Any], name: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario.read(with_model(tiny, name, **fields))


@pytest.mark.parametrize("name", ["dropping", "Dropping"])
def test_dropout_of_a_users_network_is_drawn_anew_for_each_task_and_alike_in_each_run(
    tiny: dict[str, Any], name: str
) -> None:
    scenario = Scenario.read(with_model(tiny, name))
    runs = [simulate_seed(scenario, 0) for _ in range(2)]
    assert list(runs[0].rounds) == list(runs[1].rounds)
    sleeping = simulate_seed(Scenario.read(with_model(tiny, "sleeping")), 0)
    assert sleeping.rounds[-1]["train_loss"] != runs[0].rounds[-1]["train_loss"]


def test_a_run_says_that_batchnorm_was_replaced(tiny: dict[str, Any]) -> None:
    notes = simulate_seed(Scenario.read(with_model(tiny, "normed")), 0).notes
    assert any("GroupNorm takes the place of 1 BatchNorm layers of my_networks:normed" in one for one in notes)


def test_networks_of_torchvision_get_groupnorm_instead_of_batchnorm() -> None:
    model = OwnModule(kind="torchvision:resnet18")
    assert list(model.faults((3, 32, 32), 10)) == []
    module = untrained_module(model, (3, 32, 32), 10)
    kinds = {type(part).__name__ for part in module.modules()}
    assert "GroupNorm" in kinds
    assert "BatchNorm2d" not in kinds
    assert model.layout((3, 32, 32), 10).n_parameters == 11_181_642
    assert own_sources(model) == {}
    before = torch.get_rng_state()
    first = model.initial_parameters((3, 32, 32), 10, torch.Generator().manual_seed(1))
    assert np.array_equal(first, model.initial_parameters((3, 32, 32), 10, torch.Generator().manual_seed(1)))
    assert torch.equal(torch.get_rng_state(), before)


def test_changed_code_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = OwnModule(kind="my_networks:few")
    assert [fault.field for fault in model.faults((1, 28, 28), 10)] == ["kind"]
    code = importlib.import_module("my_networks")
    monkeypatch.setattr(code, "few", code.sleeping)
    assert list(model.faults((1, 28, 28), 10)) == []


def test_a_parameter_without_gradient_stays_and_a_number_without_dimensions_is_kept(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    scenario = Scenario.read({**with_model(tiny, "TwoHeads"), "evaluation": {"keep": {"every": 3}}})
    run = Run.load(execute(scenario, tmp_path / "run"))
    first, last = run.model(0), run.model(3)
    assert torch.allclose(first.unused.weight, last.unused.weight, rtol=0, atol=1e-6)  # means of equal numbers round
    assert last.scale.shape == ()
    assert not torch.equal(first.scale, last.scale)
    again = scenario.override({"model.initial": str(next((tmp_path / "run" / "models").glob("3*")))})
    assert simulate_seed(again, 0).rounds[0]["train_loss"] == pytest.approx(run.rounds["train_loss"].iloc[-1])


def test_clipped_gradients_of_samples_take_a_parameter_without_gradient(tiny: dict[str, Any]) -> None:
    private = {"privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0}}
    private["training"] = {**tiny["training"], "example_clip": 1.0, "example_noise": 1.0, "batches": "poisson"}
    run = simulate_seed(Scenario.read({**with_model(tiny, "TwoHeads"), **private}), 0)
    assert np.isfinite(run.rounds[-1]["train_loss"])
