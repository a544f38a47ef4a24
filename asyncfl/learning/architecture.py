"""Base class of the networks, and any `nn.Module` of the user's own as a network.

A network is described by the `nn.Module` that it builds. Its layout and its initial parameters follow from that module,
so a network of your own needs only one method.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from asyncfl.base.component import Component, Described
from asyncfl.base.errors import Fault, hint, nearest
from asyncfl.base.own_classes import own_class
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.torchvision_parts import torchvision_part
from asyncfl.learning.layout import Layout, ParameterSplit
from asyncfl.learning.module_checks import module_faults
from asyncfl.learning.seeded import seeded

if TYPE_CHECKING:
    import torch

Shape = tuple[int, ...]
"""Shape of a sample: channels, height and width of an image, or any other shape."""


Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(max_length=100)]
"""Number of units (or channels) of each of several layers."""


Dropout = Annotated[float, Field(ge=0, lt=1), MeasuredIn("probability")]
"""Probability with which a unit is dropped."""


def rectified(dropout: float) -> torch.nn.Module:
    """Build the ReLU of a hidden layer, with dropout behind it unless its probability is 0."""
    from torch import nn

    return nn.Sequential(nn.ReLU(), nn.Dropout(dropout)) if dropout else nn.ReLU()


_GROUPS = 32
"""Groups of channels of GroupNorm. If it does not divide the channels, their greatest common divisor is used."""
TORCHVISION = "torchvision:"
"""Prefix for networks of torchvision, as in `torchvision:resnet18`."""


class Architecture(Component):
    """Base class of all networks."""

    @classmethod
    def named_by(cls, path: str) -> object:
        """Return the class that an import path names; `OwnModule` for an `nn.Module` or a function that builds one."""
        if path.startswith(TORCHVISION):
            return OwnModule
        found = super().named_by(path)
        is_described = isinstance(found, type) and issubclass(found, Described)
        return OwnModule if callable(found) and not is_described else found

    images_only: ClassVar[bool] = False
    classes_only: ClassVar[bool] = False
    """Whether the network cannot be used for regression."""
    seconds: ClassVar[float] = 3e-4
    """Seconds that one core needs to train one epoch on one sample, measured on 28x28 images."""
    supports_vmap: ClassVar[bool] = True
    """Whether `torch.func.vmap` can train the models of many clients at once."""
    kind: str
    logged: ClassVar[tuple[str, ...]] = tuple(
        f"rounds.{name}" for name in ("train_loss", "test_loss", "test_accuracy", "diverged")
    )
    initial: str | None = None
    """File with the weights that training starts from: safetensors, or a state dict saved by torch, such as a kept
    model of another run. null: random weights."""
    personal: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), examples=[["head.*"], ["*norm*"]])
    """Names of parameters that stay on each client and are neither sent nor averaged, such as the last layers (FedPer)
    or the normalisation layers (FedBN); `*` stands for any characters. Empty: all parameters are shared."""

    @property
    def draws(self) -> bool:
        """Whether the network may draw random numbers in training, as dropout does."""
        return ":" in self.kind or bool(getattr(self, "dropout", 0.0))

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        """Build the untrained network, which maps samples (n, *shape) to (n, outputs): class logits, or predicted
        numbers.

        The output must depend on the parameters and the input alone; in training also on draws of torch's generator, as
        dropout makes them. BatchNorm is replaced by GroupNorm, since running statistics are not averaged.
        """
        raise NotImplementedError

    def layout(self, shape: Shape, outputs: int) -> Layout:
        """Return the names and positions of the network's layers in its flat vector."""
        import torch

        try:
            with torch.device("meta"):  # allocates no memory and draws no random numbers
                module = untrained_module(self, shape, outputs)
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            if ":" not in self.kind:
                raise
            module = untrained_module(self, shape, outputs)  # its constructor computes with values
        found: list[tuple[str, dict[str, tuple[int, ...]]]] = []
        seen: set[int] = set()  # a parameter that two modules share belongs to the first one
        for name, part in module.named_modules():
            own = {one: p for one, p in part.named_parameters(recurse=False) if id(p) not in seen}
            seen.update(map(id, own.values()))
            if own:
                found.append((name, {one: tuple(p.shape) for one, p in own.items()}))
        return Layout.of(found)

    def parameter_split(self, shape: Shape, outputs: int) -> ParameterSplit:
        return ParameterSplit(self.layout(shape, outputs), self.personal)

    def faults_with(self, shape: Shape, outputs: int, root_samples: int) -> Iterator[Fault]:
        """Yield the faults of this network for samples of `shape`, and of a server with `root_samples` samples of its
        own; fields are relative to the scenario."""
        unfit = list(self.faults(shape, outputs)) or list(self.personal_faults(shape, outputs))
        yield from (fault.under("model") for fault in unfit)
        if not (self.personal and root_samples) or unfit:
            return
        found = self.parameter_split(shape, outputs)
        first = next(name for name, _, _ in found.whole.parameters())
        # The clients' shared layers learn to fit the initial personal layers that the server has, unless these include
        # the first layer, which reads the samples.
        if found.is_personal(first):
            allowed = f"must be 0 where model.personal holds the first layer ({first}), got {root_samples}"
            why = "the server has none but the initial one, by which it would judge updates wrongly"
            yield Fault("defence.root_samples", f"{allowed}: {why}; take a rule and a detector that need no samples")

    def personal_faults(self, shape: Shape, outputs: int) -> Iterator[Fault]:
        """Report patterns in `personal` that match no parameter, and patterns that leave no parameter shared."""
        if not self.personal:
            return
        found = self.parameter_split(shape, outputs)
        names = [name for name, _, _ in found.whole.parameters()]
        for place, pattern in enumerate(self.personal):
            if not any(fnmatchcase(name, pattern) for name in names):
                listed = hint(pattern, names, "they are")
                yield Fault(f"personal.{place}", f"must name parameters, but {pattern!r} matches none; {listed}")
        if all(map(found.is_personal, names)):
            yield Fault("personal", "must leave a parameter that is shared, got all of them")

    @property
    def _code(self) -> object:
        return type(self)

    def faults(self, shape: Shape, outputs: int) -> Iterator[Fault]:
        """Report why the network cannot be used for these inputs; field names are relative to the network."""
        if self.images_only and len(shape) != 3:
            allowed = f"must be a network for samples of shape {shape}, such as mlp"
            yield Fault("kind", f"{allowed}; convolutions need images")
        elif ":" in self.kind:  # a network of the user's own
            yield from _own_module_faults(self, self._code, shape, outputs)

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Estimate the seconds that one core needs to train one epoch on one sample."""
        return self.seconds

    def initial_parameters(self, shape: Shape, outputs: int, generator: torch.Generator) -> NDArray[np.float32]:
        """Draw initial parameters (n_parameters,) as PyTorch initialises the module, from one seed by `generator`."""
        import torch

        seed = int(torch.randint(2**62, (), generator=generator))
        with seeded(seed), torch.no_grad():
            module = _built(self, shape, outputs)
            return torch.cat([p.reshape(-1) for p in module.parameters()]).float().numpy()


def untrained_module(model: Architecture, shape: Shape, outputs: int) -> torch.nn.Module:
    """Build a network's module with arbitrary values, leaving torch's global generator unchanged."""
    with seeded():
        return _built(model, shape, outputs)


def _built(model: Architecture, shape: Shape, outputs: int) -> torch.nn.Module:
    """Build a network's module, with GroupNorm in place of BatchNorm in networks that are not ours."""
    made = model.module(shape, outputs)
    return _without_batch_norm(made) if ":" in model.kind else made


def batch_norms(model: Architecture, shape: Shape, outputs: int) -> int:
    """Count the BatchNorm layers of a user's own network, which are replaced by GroupNorm; 0 for ours."""
    if ":" not in model.kind:
        return 0
    from torch.nn.modules.batchnorm import _BatchNorm

    with seeded():
        return sum(isinstance(part, _BatchNorm) for part in model.module(shape, outputs).modules())


@lru_cache(maxsize=256)
def _own_module_faults(model: Architecture, code: object, shape: Shape, outputs: int) -> tuple[Fault, ...]:
    return tuple(module_faults(lambda: _built(model, shape, outputs), model.kind, shape, outputs))


class OwnModule(Architecture):
    """A user's own `nn.Module` by its import path, or a network of torchvision, with GroupNorm in place of BatchNorm.

    The class (or a function that returns a module) is called with the fields beside `kind` in the scenario, and with
    those of `shape` and `outputs` (or `classes`, `num_classes`) that appear among its parameters.
    """

    model_config = ConfigDict(extra="allow")
    supports_vmap: ClassVar[bool] = False

    @property
    def code_modules(self) -> tuple[str, ...]:
        """The Python module that defines the class; empty for torchvision, whose version identifies its code."""
        return () if self.kind.startswith(TORCHVISION) else (self.kind.partition(":")[0],)

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        made: torch.nn.Module = self._factory()(**self._arguments(shape, outputs))
        return made

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Estimate three times the operations of a forward pass, at the rate that small batches reach."""
        return 1e-5 + 3 * _operations(self, self._code, shape, outputs) / 20e9

    def faults(self, shape: Shape, outputs: int) -> Iterator[Fault]:
        """Report unknown or missing arguments, and faults of the module that the class builds."""
        try:
            parameters = _parameters(self._factory())
        except ImportError as error:
            yield Fault("kind", str(error))
            return
        if wrong := list(self._argument_faults(parameters)):
            yield from wrong
            return
        yield from super().faults(shape, outputs)

    @property
    def _code(self) -> object:
        return self._factory()

    def _factory(self) -> Callable[..., Any]:
        if self.kind.startswith(TORCHVISION):
            name = self.kind.removeprefix(TORCHVISION)
            networks = torchvision_part("models")
            known = networks.list_models(networks)
            if name not in known:
                meant = nearest(name, known) or "resnet18"
                raise ImportError(f"torchvision has no network {name}; did you mean {meant}?")
            return getattr(networks, name)  # type: ignore[no-any-return]
        return own_class(self.kind)  # type: ignore[return-value]

    def _arguments(self, shape: Shape, outputs: int) -> dict[str, Any]:
        parameters, given = _parameters(self._factory()), dict(self.model_extra or {})
        known = {"shape": shape, "outputs": outputs, "classes": outputs, "num_classes": outputs}
        wanted = set(known) & set(parameters)
        if self.kind.startswith(TORCHVISION):
            wanted.add("num_classes")  # which its functions pass on
        return {name: known[name] for name in sorted(wanted)} | given

    def _argument_faults(self, parameters: dict[str, inspect.Parameter]) -> Iterator[Fault]:
        given = dict(self.model_extra or {})
        names = [name for name in parameters if parameters[name].kind not in _STARRED]
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
            for name in given:
                if name not in parameters:
                    yield Fault(name, f"{self.kind} takes no {name}; {hint(name, names, 'it takes')}")
        for name, one in parameters.items():
            if one.default is one.empty and one.kind not in _STARRED and name not in self._arguments((1,), 1):
                yield Fault(name, f"is an argument of {self.kind} without a default; set it beside kind")


_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(factory).parameters)


@lru_cache(maxsize=256)
def _operations(model: OwnModule, code: object, shape: Shape, outputs: int) -> float:
    """Count the floating-point operations of a forward pass on one example."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with seeded(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        _built(model, shape, outputs).eval()(torch.zeros(1, *shape))
    return float(counter.get_total_flops())


def _without_batch_norm(module: torch.nn.Module) -> torch.nn.Module:
    """Replace each BatchNorm in `module` by a GroupNorm (Wu and He 2018) of as many channels, and return the module:
    running statistics cannot be averaged like parameters, and other samples of a batch must not matter.

    Behind a linear layer, where BatchNorm1d stands, all channels are one group: a group of one number would be zero.
    """
    from torch import nn
    from torch.nn.modules.batchnorm import _BatchNorm

    if not isinstance(module, nn.Module):
        return module  # which the checks of a user's network name
    if isinstance(module, _BatchNorm) and not isinstance(module, nn.modules.lazy.LazyModuleMixin):
        channels = module.num_features
        groups = 1 if isinstance(module, nn.BatchNorm1d) else math.gcd(_GROUPS, channels)
        return nn.GroupNorm(groups, channels, module.eps, module.affine)
    for name, part in module.named_children():
        if (other := _without_batch_norm(part)) is not part:
            setattr(module, name, other)
    return module
