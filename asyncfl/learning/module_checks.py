"""Checks of a user's own `nn.Module`: whether it can be trained, averaged and evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from asyncfl.base.errors import AsyncflError, Fault
from asyncfl.base.own_classes import describe_exception

if TYPE_CHECKING:
    import torch

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
