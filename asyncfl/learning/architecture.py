"""Base class of the networks.

A network is described by the `nn.Module` that it builds. Its layout and its initial parameters follow from that module,
so a network of your own needs only one method.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.component import Component, Described
from asyncfl.base.errors import Fault, ScenarioError, hint
from asyncfl.learning.layout import Layout, ParameterSplit

if TYPE_CHECKING:
    import torch

Shape = tuple[int, ...]
"""Shape of a sample: channels, height and width of an image, or any other shape."""


def image_shape(shape: Shape) -> tuple[int, int, int]:
    """Return channels, height and width of images. Raises ScenarioError for samples that are not images."""
    if len(shape) != 3:
        raise ScenarioError([_needs_images(shape).under("model")])
    return shape


def _needs_images(shape: Shape) -> Fault:
    return Fault("kind", f"must be a network for samples of shape {shape}, such as mlp; convolutions need images")


Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(max_length=100)]
"""Number of units (or channels) of each of several layers."""


class Architecture(Component):
    """Base class of all networks."""

    @classmethod
    def named_by(cls, path: str) -> object:
        """Return the class that an import path names; `OwnModule` for an `nn.Module` or a function that builds one."""
        from asyncfl.learning.own_module import TORCHVISION, OwnModule

        if path.startswith(TORCHVISION):
            return OwnModule
        found = super().named_by(path)
        is_described = isinstance(found, type) and issubclass(found, Described)
        return OwnModule if callable(found) and not is_described else found

    images_only: ClassVar[bool] = False
    classes_only: ClassVar[bool] = False
    """Whether the network cannot be used for regression."""
    supports_vmap: ClassVar[bool] = True
    """Whether `torch.func.vmap` can train the models of many clients at once."""
    kind: str
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.train_loss",
        "rounds.test_loss",
        "rounds.test_accuracy",
        "rounds.diverged",
    )
    initial: str | None = None
    """File with the weights that training starts from: safetensors, or a state dict saved by torch, such as a kept
    model of another run. null: random weights."""
    personal: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), examples=[["head.*"], ["*norm*"]])
    """Names of parameters that stay on each client and are neither sent nor averaged, such as the last layers (FedPer)
    or the normalisation layers (FedBN); `*` stands for any characters. Empty: all parameters are shared."""

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        """Build the untrained network, which maps samples (n, *shape) to (n, outputs): class logits, or predicted
        numbers.

        The output must depend on the parameters and the input alone: no dropout, no running statistics.
        """
        raise NotImplementedError

    def layout(self, shape: Shape, outputs: int) -> Layout:
        """Return the names and positions of the network's layers in its flat vector."""
        module = self._meta_module(shape, outputs)
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

    def _meta_module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        import torch

        with torch.random.fork_rng(devices=[]):
            try:
                with torch.device("meta"):  # allocates no memory and draws no random numbers
                    return self.module(shape, outputs)
            except (NotImplementedError, RuntimeError, TypeError, ValueError):
                if ":" not in self.kind:
                    raise
            return self.module(shape, outputs)  # a module whose constructor computes with values

    @property
    def _code(self) -> object:
        return type(self)

    def faults(self, shape: Shape, outputs: int) -> Iterator[Fault]:
        """Report why the network cannot be used for these inputs; field names are relative to the network."""
        if self.images_only and len(shape) != 3:
            yield _needs_images(shape)
        elif ":" in self.kind:  # a network of the user's own
            yield from _own_module_faults(self, self._code, shape, outputs)

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Estimate the seconds that one core needs to train one epoch on one sample."""
        return 3e-4

    def initial_parameters(self, shape: Shape, outputs: int, generator: torch.Generator) -> NDArray[np.float32]:
        """Draw initial parameters (n_parameters,), distributed as PyTorch initialises the network's modules, from one
        seed by `generator`; the global generator of torch is left unchanged."""
        import torch

        seed = int(torch.randint(2**62, (), generator=generator))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            module = self.module(shape, outputs)
            return torch.cat([p.reshape(-1) for p in module.parameters()]).float().numpy()


@lru_cache(maxsize=256)
def _own_module_faults(model: Architecture, code: object, shape: Shape, outputs: int) -> tuple[Fault, ...]:
    from asyncfl.learning.own_module import module_faults

    return tuple(module_faults(lambda: model.module(shape, outputs), model.kind, shape, outputs))
