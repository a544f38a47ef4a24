"""Positions of a model's layers in its flat vector, and the split into shared and personal parameters.

A model is one float32 vector of `n_parameters` numbers. A layer is a module that owns parameters: usually a weight and
a bias, but any parameters in any number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""Flat vectors, or matrices of them; also images."""


@dataclass(frozen=True)
class Layer:
    """Position of one module's parameters in the flat vector."""

    name: str
    """The module's name inside the model; empty for the model itself."""
    start: int
    """Index of its first parameter."""
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    """Name (inside the module) and shape of each of its parameters, in the order of the flat vector."""

    @property
    def is_plain(self) -> bool:
        """Whether the layer consists of a weight and at most a bias, in this order."""
        return [name for name, _ in self.shapes] in (["weight"], ["weight", "bias"])

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the weight, which comes first; () if the layer is not plain."""
        return self.shapes[0][1] if self.is_plain else ()

    @property
    def bias_shape(self) -> tuple[int, ...]:
        """Shape of the bias, which follows the weight; () if there is none or the layer is not plain."""
        return self.shapes[1][1] if self.is_plain and len(self.shapes) == 2 else ()

    @property
    def bias_start(self) -> int:
        """Index of the first number of the bias (= `stop` if there is none)."""
        return self.stop - (math.prod(self.bias_shape) if self.bias_shape else 0)

    @property
    def stop(self) -> int:
        return self.start + sum(math.prod(shape) for _, shape in self.shapes)

    @property
    def slice(self) -> slice:
        """Position of the layer in a flat vector, or in the last axis of a matrix of models."""
        return slice(self.start, self.stop)

    def full(self, parameter: str) -> str:
        """Return the name of one of its parameters in `nn.Module.named_parameters`."""
        return f"{self.name}.{parameter}" if self.name else parameter


@dataclass(frozen=True)
class Layout:
    """All layers of a model, in the order of the flat vector, without gaps."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, layers: Iterable[tuple[str, Mapping[str, tuple[int, ...]]]]) -> Layout:
        """Build the layout of layers given as (name, {parameter name: shape})."""
        found: list[Layer] = []
        for name, shapes in layers:
            found.append(Layer(name, found[-1].stop if found else 0, tuple(shapes.items())))
        return cls(tuple(found))

    @property
    def n_parameters(self) -> int:
        """Length of the flat vector."""
        return self.layers[-1].stop if self.layers else 0

    def parameters(self) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
        """Yield full name (as in `nn.Module.named_parameters`), position and shape of each parameter."""
        for layer in self.layers:
            start = layer.start
            for own, shape in layer.shapes:
                stop = start + math.prod(shape)
                yield layer.full(own), slice(start, stop), shape
                start = stop

    @property
    def convolves(self) -> bool:
        """Whether there are convolutions of images."""
        return any(len(shape) == 4 for _, _, shape in self.parameters())

    def __getitem__(self, name: str) -> Layer:
        return {layer.name: layer for layer in self.layers}[name]


@dataclass(frozen=True)
class ParameterSplit:
    """Split of a network's parameters into shared and personal ones."""

    whole: Layout
    """Layout of all parameters."""
    patterns: tuple[str, ...]
    """Names of the personal parameters; `*` and `?` stand for any characters."""

    def is_personal(self, name: str) -> bool:
        """Whether the parameter `name` stays on the clients."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    @cached_property
    def shared(self) -> Layout:
        """Layout of the vector that is sent."""
        return self._part(personal=False)

    @cached_property
    def own(self) -> Layout:
        """Layout of a client's personal vector."""
        return self._part(personal=True)

    def _part(self, personal: bool) -> Layout:
        parts = [
            (layer.name, {own: shape for own, shape in layer.shapes if self.is_personal(layer.full(own)) == personal})
            for layer in self.whole.layers
        ]
        return Layout.of((name, shapes) for name, shapes in parts if shapes)

    @cached_property
    def personal(self) -> NDArray[np.bool_]:
        """(n_parameters,) mask of the personal numbers of a whole model."""
        mask = np.zeros(self.whole.n_parameters, dtype=bool)
        for name, place, _ in self.whole.parameters():
            mask[place] = self.is_personal(name)
        return mask

    def split(self, whole: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Split whole models (..., n_parameters) into the shared and the personal part."""
        return whole[..., ~self.personal], whole[..., self.personal]

    def join(self, shared: Vector, personal: Vector) -> Vector:
        """Combine a shared and a personal part into a whole model (n_parameters,)."""
        whole = np.empty(self.whole.n_parameters, np.float32)
        whole[~self.personal], whole[self.personal] = shared, personal
        return whole

    def by_name(self, personal: Vector) -> dict[str, NDArray[np.float32]]:
        """Split the personal vectors of all clients (clients, n_personal) into arrays {name: (clients, *shape)}."""
        return {name: personal[:, place].reshape(-1, *shape) for name, place, shape in self.own.parameters()}

    def of_client(self, weights: Mapping[str, NDArray[Any]], client: int) -> dict[str, NDArray[Any]]:
        """Select one client's arrays from a kept model whose personal arrays hold all clients (see `by_name`)."""
        return {name: array[client] if self.is_personal(name) else array for name, array in weights.items()}
