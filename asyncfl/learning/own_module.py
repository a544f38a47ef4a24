"""OwnModule: any `nn.Module` of the user's own as a network, named by its import path, and its checks.

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

from asyncfl.base.errors import AsyncflError, Fault, hint, nearest
from asyncfl.base.own_classes import describe_exception, own_class
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


_TRIED = 2
"""Examples in the trial batch."""


def module_faults(make: Callable[[], Any], name: str, shape: tuple[int, ...], outputs: int) -> Iterator[Fault]:
    """Report why the module that `make` returns, called `name`, cannot be trained on inputs (n, *shape).

    Errors of asyncfl that it raises are passed on.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        try:
            torch.manual_seed(1)
            module = make()
            torch.manual_seed(2)
            other = make()
        except (AsyncflError, KeyboardInterrupt):
            raise
        except BaseException as error:
            yield Fault("kind", f"{name} cannot be made: {describe_exception(error)}")
            return
        if not isinstance(module, torch.nn.Module):
            yield Fault("kind", f"{name} must be or return an nn.Module, got {type(module).__name__}")
            return
        wrong = list(_part_faults(module, other, name))
        yield from wrong or _output_faults(module, name, shape, outputs)


def _part_faults(module: torch.nn.Module, other: torch.nn.Module, name: str) -> Iterator[Fault]:
    import torch
    from torch.nn.modules.batchnorm import _NormBase
    from torch.nn.modules.dropout import _DropoutNd

    parameters = dict(module.named_parameters())
    if not parameters:
        yield Fault("kind", f"{name} has no parameters: there is nothing to train")
    places = sorted({str(one.device) for one in [*parameters.values(), *module.buffers()]})
    if places not in ([], ["cpu"]):
        yield Fault("kind", f"{name} must be on the CPU when it is made, got {', '.join(places)}")
        return
    if lazy := [path for path, one in parameters.items() if isinstance(one, torch.nn.UninitializedParameter)]:
        part = type(module.get_submodule(lazy[0].rpartition(".")[0])).__name__
        yield Fault("kind", f"{name} has {part} ({lazy[0]}), whose size depends on its first input; give it all sizes")
        return
    for path, one in parameters.items():
        if one.dtype != torch.float32:
            yield Fault("kind", f"{name} must have float32 parameters, {path} is {str(one.dtype)[6:]}")
        if not one.requires_grad:
            got = f"{path} has requires_grad=False; make it a buffer"
            yield Fault("kind", f"{name} must train all its parameters, {got}")
    running: set[str] = set()
    for path, part in module.named_modules():
        if isinstance(part, _NormBase) and part.track_running_stats:
            running.update(f"{path}.{own}" if path else own for own, _ in part.named_buffers())
            why = "whose running statistics are not averaged"
            way = "use GroupNorm, or kind: torchvision:NAME, where it is exchanged"
            yield Fault("kind", f"{name} has {type(part).__name__} ({path}), {why}; {way}")
        if (isinstance(part, _DropoutNd) and part.p) or (isinstance(part, torch.nn.RNNBase) and part.dropout):
            yield Fault("kind", f"{name} has dropout ({path}), which draws anew each time; set it to 0")
    drawn = dict(other.named_buffers())
    for path, buffer in module.named_buffers():
        if path not in running and not torch.equal(buffer, drawn[path]):
            yield Fault("kind", f"{name} draws its buffer {path} at random; make it a parameter, or compute it")


def _output_faults(module: torch.nn.Module, name: str, shape: tuple[int, ...], outputs: int) -> Iterator[Fault]:
    import torch

    inputs = torch.zeros(_TRIED, *shape)
    try:
        found = module(inputs)
    except (AsyncflError, KeyboardInterrupt):
        raise
    except BaseException as error:
        yield Fault("kind", f"{name} fails on inputs of shape {tuple(inputs.shape)}: {describe_exception(error)}")
        return
    got = f"{tuple(found.shape)} {str(found.dtype)[6:]}" if isinstance(found, torch.Tensor) else type(found).__name__
    wanted = (_TRIED, outputs)
    if not isinstance(found, torch.Tensor) or tuple(found.shape) != wanted or found.dtype != torch.float32:
        yield Fault("kind", f"{name} must return {wanted} float32 for inputs of shape {tuple(inputs.shape)}, got {got}")
    elif not found.requires_grad:
        why = "does not depend on its parameters: there is nothing to train"
        yield Fault("kind", f"{name} returns an output that {why}")
