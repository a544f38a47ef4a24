"""OwnModule: any `nn.Module` of the user's own as a network, named by its import path.

The class (or a function that returns a module) is called with the fields beside `kind` in the scenario, and with those
of `shape` and `outputs` (or `classes`, `num_classes`) that appear among its parameters.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ConfigDict

from asyncfl.base.errors import Fault, hint, nearest
from asyncfl.base.own_classes import own_class
from asyncfl.base.torchvision_parts import torchvision_part
from asyncfl.learning.architecture import Architecture, Shape

if TYPE_CHECKING:
    import torch

_GROUPS = 32
"""Groups of channels of GroupNorm. If it does not divide the channels, their greatest common divisor is used."""
TORCHVISION = "torchvision:"
"""Prefix for networks of torchvision, as in `torchvision:resnet18`."""


class OwnModule(Architecture):
    """A user's own `nn.Module`, or a network of torchvision with GroupNorm in place of BatchNorm."""

    model_config = ConfigDict(extra="allow")
    supports_vmap: ClassVar[bool] = False

    @property
    def code_modules(self) -> tuple[str, ...]:
        """The Python module that defines the class; empty for torchvision, whose version identifies its code."""
        return () if self.kind.startswith(TORCHVISION) else (self.kind.partition(":")[0],)

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        made: torch.nn.Module = self._factory()(**self._arguments(shape, outputs))
        return _without_batch_norm(made) if self.kind.startswith(TORCHVISION) else made

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

    with torch.random.fork_rng(devices=[]), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.module(shape, outputs)(torch.zeros(1, *shape))
    return float(counter.get_total_flops())


def _without_batch_norm(module: torch.nn.Module) -> torch.nn.Module:
    """Replace each BatchNorm in `module` by a GroupNorm (Wu and He 2018) of as many channels, and return the module:
    running statistics cannot be averaged like parameters."""
    from torch import nn
    from torch.nn.modules.batchnorm import _BatchNorm

    for name, part in module.named_children():
        if isinstance(part, _BatchNorm):
            channels = part.num_features
            setattr(module, name, nn.GroupNorm(math.gcd(_GROUPS, channels), channels, part.eps, part.affine))
        else:
            _without_batch_norm(part)
    return module
