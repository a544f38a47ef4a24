"""Checks of a user's own `nn.Module`: whether it can be trained, averaged and evaluated.

A model is its parameters: what `forward` keeps, or computes from other samples of a batch, would leak from one client
to the next, and differ between one process, several, and a run that goes on. In training it may draw from torch's
generator, which each task seeds; in evaluation it may not. So it is tried on a small batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from asyncfl.base.errors import AsyncflError, Fault
from asyncfl.base.own_classes import describe_exception
from asyncfl.learning.seeded import seeded

if TYPE_CHECKING:
    import torch

_TRIED = 2
"""Examples in the trial batch."""
_CLOSE = 1e-3
"""Largest difference, over the largest output, that rounding may make between batches of different sizes."""


def module_faults(make: Callable[[], Any], name: str, shape: tuple[int, ...], outputs: int) -> Iterator[Fault]:
    """Report why the module that `make` returns, called `name`, cannot be trained on inputs (n, *shape).

    Errors of asyncfl that it raises are passed on.
    """
    import torch

    with seeded():
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
            way = "use GroupNorm, or no running statistics"
            yield Fault("kind", f"{name} has {type(part).__name__} ({path}), {why}; {way}")
    drawn = dict(other.named_buffers())
    for path, buffer in module.named_buffers():
        if path not in running and not torch.equal(buffer, drawn[path]):
            yield Fault("kind", f"{name} draws its buffer {path} at random; make it a parameter, or compute it")


def _output_faults(module: torch.nn.Module, name: str, shape: tuple[int, ...], outputs: int) -> Iterator[Fault]:
    import torch

    # Zeros and ones are pixels as well as the numbers of words.
    inputs = torch.randint(0, 2, (_TRIED, *shape), generator=torch.Generator().manual_seed(0)).float()
    buffers = {path: buffer.clone() for path, buffer in module.named_buffers()}
    try:
        module.train()
        found, again, other = (_seeded_output(module, inputs, seed) for seed in (1, 1, 2))
        evaluated, once_more = (_seeded_output(module.eval(), inputs, seed) for seed in (1, 2))
        changed = [path for path, buffer in module.named_buffers() if not torch.equal(buffer, buffers[path])]
        wanted = (_TRIED, outputs)
        is_output = isinstance(found, torch.Tensor) and tuple(found.shape) == wanted and found.dtype == torch.float32
        if not is_output:
            is_tensor = isinstance(found, torch.Tensor)
            got = f"{tuple(found.shape)} {str(found.dtype)[6:]}" if is_tensor else type(found).__name__
            allowed = f"must return {wanted} float32 for inputs of shape {tuple(inputs.shape)}"
            yield Fault("kind", f"{name} {allowed}, got {got}")
        elif not found.requires_grad:
            why = "does not depend on its parameters: there is nothing to train"
            yield Fault("kind", f"{name} returns an output that {why}")
        elif changed:
            why = "forward changes it, and what is not a parameter is not averaged"
            yield Fault("kind", f"{name} keeps state in its buffer {changed[0]}: {why}")
        elif not _same(found, again):
            why = "keeps state, or draws from a generator other than torch's"
            yield Fault("kind", f"{name} gives two outputs for the same inputs in training: its forward {why}")
        elif not _same(evaluated, once_more):
            why = "draws at random though self.training is False"
            yield Fault("kind", f"{name} gives two outputs for the same inputs in evaluation: its forward {why}")
        elif mixes := next(filter(None, (_mixes(module.train(on), inputs) for on in _modes(found, other))), None):
            yield Fault("kind", f"{name} gives a sample another output {mixes}; use no statistics over the batch")
    except (AsyncflError, KeyboardInterrupt):
        raise
    except BaseException as error:
        yield Fault("kind", f"{name} fails on inputs of shape {tuple(inputs.shape)}: {describe_exception(error)}")


def _seeded_output(module: torch.nn.Module, inputs: torch.Tensor, seed: int) -> Any:
    """Return what the module answers when torch's generator begins at `seed`."""
    import torch

    torch.manual_seed(seed)
    return module(inputs)


def _modes(found: torch.Tensor, other: torch.Tensor) -> tuple[bool, ...]:
    """Return whether samples are compared in training, and in evaluation. `found`, `other`: outputs in training with
    different draws; with dropout a sample's output depends on its place in them."""
    return (True, False) if _same(found, other) else (False,)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two outputs are equal; NaN equals NaN."""
    import torch

    return torch.equal(one.nan_to_num(), other.nan_to_num())


def _mixes(module: torch.nn.Module, inputs: torch.Tensor) -> str | None:
    """Return how the output of a sample depends on the batch that it is in; None if it does not."""
    import torch

    with torch.no_grad():
        together = module(inputs).nan_to_num()
        alone = torch.cat([module(inputs[place : place + 1]) for place in range(len(inputs))]).nan_to_num()
        turned = module(inputs.flip(0)).flip(0).nan_to_num()
    close = _CLOSE * max(1.0, float(together.abs().max()))
    if not torch.allclose(together, alone, rtol=0.0, atol=close):
        return "alone than in a batch of two"
    return None if torch.allclose(together, turned, rtol=0.0, atol=close) else "in another order of the batch"
