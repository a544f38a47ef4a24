"""Architecture: which network is trained.

A network is described by the `nn.Module` it builds; its layout and its initial parameters follow from that module, so
an architecture of one's own needs one method.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Component, Described
from asyncfl.errors import Fault, ScenarioError, hint
from asyncfl.learning.layout import Layout
from asyncfl.learning.module_check import module_faults
from asyncfl.learning.parameter_split import ParameterSplit

if TYPE_CHECKING:
    import torch

Shape = tuple[int, ...]
"""Shape of a sample: channels, height and width of an image, or what else a data set holds."""


def image_shape(shape: Shape) -> tuple[int, int, int]:
    """Channels, height and width of the images that a convolution takes. Raises ScenarioError for other samples."""
    if len(shape) != 3:
        raise ScenarioError([Fault("model.kind", _no_images(shape))])
    return shape


def _no_images(shape: Shape) -> str:
    return f"must be a network for samples of shape {shape}, such as mlp; convolutions need images"


Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], Field(max_length=100)]
"""Units (or channels) of each of some layers."""


class Architecture(Component):
    """Base of all networks."""

    @classmethod
    def named_by(cls, path: str) -> object:
        """The class that an import path names; where that is an `nn.Module`, or a function, the one that calls it."""
        from asyncfl.learning.own_module import TORCHVISION, OwnModule

        if path.startswith(TORCHVISION):
            return OwnModule
        found = super().named_by(path)
        is_described = isinstance(found, type) and issubclass(found, Described)
        return OwnModule if callable(found) and not is_described else found

    images_only: ClassVar[bool] = False
    """Whether it takes images only."""
    classes_only: ClassVar[bool] = False
    """Whether it answers with classes, and cannot predict numbers."""
    stacks: ClassVar[bool] = True
    """Whether `torch.func.vmap` can train many clients' models at a time."""
    kind: str
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.train_loss",
        "rounds.test_loss",
        "rounds.test_accuracy",
        "rounds.diverged",
    )
    initial: str | None = None
    """File of the weights that training starts from, safetensors or a state dict that torch saved, such as a kept model
    of another run; null: they are drawn."""
    personal: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), examples=[["head.*"], ["*norm*"]])
    """Names of parameters that stay at each client and are neither sent nor averaged, such as the last layers (FedPer)
    or those that normalise (FedBN); `*` stands for any characters. Empty: all are shared."""

    def module(self, shape: Shape, outputs: int) -> torch.nn.Module:
        """Untrained network from samples (n, *shape) to (n, outputs): logits of so many classes, or numbers.

        It must be a function of its parameters and its input alone: no dropout, no running statistics.
        """
        raise NotImplementedError

    def layout(self, shape: Shape, outputs: int) -> Layout:
        """Names and places of the network's layers in its flat vector."""
        module = self._shapes_alone(shape, outputs)
        found: list[tuple[str, dict[str, tuple[int, ...]]]] = []
        seen: set[int] = set()  # a parameter that two modules share is the first one's
        for name, part in module.named_modules():
            own = {one: p for one, p in part.named_parameters(recurse=False) if id(p) not in seen}
            seen.update(map(id, own.values()))
            if own:
                found.append((name, {one: tuple(p.shape) for one, p in own.items()}))
        return Layout.of(found)

    def parameter_split(self, shape: Shape, outputs: int) -> ParameterSplit:
        """Which of the network's parameters are shared, and which personal."""
        return ParameterSplit(self.layout(shape, outputs), self.personal)

    def personal_faults(self, shape: Shape, outputs: int) -> Iterator[Fault]:
        """Names of personal parameters that the network does not have, and the fault that it has no others."""
        if not self.personal:
            return
        names = [name for name, _, _ in self.layout(shape, outputs).parameters()]
        for place, pattern in enumerate(self.personal):
            if not any(fnmatchcase(name, pattern) for name in names):
                listed = hint(pattern, names, "they are")
                yield Fault(f"personal.{place}", f"must be names of parameters, {pattern!r} is none; {listed}")
        if all(any(fnmatchcase(name, pattern) for pattern in self.personal) for name in names):
            yield Fault("personal", "must leave a parameter that is shared, got all of them")

    def _shapes_alone(self, shape: Shape, outputs: int) -> torch.nn.Module:
        import torch

        with torch.random.fork_rng(devices=[]):
            try:
                with torch.device("meta"):  # nothing is allocated, nothing is drawn
                    return self.module(shape, outputs)
            except (NotImplementedError, RuntimeError, TypeError, ValueError):
                if ":" not in self.kind:
                    raise
            return self.module(shape, outputs)  # one that computes with numbers when it is made

    @property
    def _code(self) -> object:
        """What makes the module: a class or a function."""
        return type(self)

    def faults(self, shape: Shape, outputs: int) -> Iterator[Fault]:
        """What is wrong with the network for these inputs, fields named relative to it."""
        if self.images_only and len(shape) != 3:
            yield Fault("kind", _no_images(shape))
        elif ":" in self.kind:  # of the user's own
            yield from _found(self, self._code, shape, outputs)

    def seconds_per_sample(self, shape: Shape, outputs: int) -> float:
        """Rough seconds that one core needs to train one epoch on one image; it tells how long a run will take."""
        return 3e-4

    def initial_parameters(self, shape: Shape, outputs: int, generator: torch.Generator) -> NDArray[np.float32]:
        """Fresh parameters (n_parameters,), distributed as PyTorch initialises the network's modules.

        `generator` gives one seed for all of them; the global generator of torch is left as it was.
        """
        import torch

        seed = int(torch.randint(2**62, (), generator=generator))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            module = self.module(shape, outputs)
            return torch.cat([p.reshape(-1) for p in module.parameters()]).float().numpy()


@lru_cache(maxsize=256)
def _found(model: Architecture, code: object, shape: Shape, outputs: int) -> tuple[Fault, ...]:
    """What is wrong with a network of the user's own; it is built and tried once, however often it is asked."""
    return tuple(module_faults(lambda: model.module(shape, outputs), model.kind, shape, outputs))
