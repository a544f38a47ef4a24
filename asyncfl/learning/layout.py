"""Positions of a model's layers in its flat vector.

A model is one float32 vector of `n_parameters` numbers. A layer is a module that owns parameters: usually a weight and
a bias, but any parameters in any number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


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

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Layout:
    """All layers of a model, in the order of the flat vector, without gaps."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, layers: Iterable[tuple[str, Mapping[str, tuple[int, ...]]]]) -> Layout:
        """Build the layout of layers given as (name, {parameter name: shape})."""
        found: list[Layer] = []
        start = 0
        for name, shapes in layers:
            found.append(Layer(name, start, tuple((own, tuple(shape)) for own, shape in shapes.items())))
            start = found[-1].stop
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
                yield f"{layer.name}.{own}" if layer.name else own, slice(start, stop), shape
                start = stop

    def __getitem__(self, name: str) -> Layer:
        """Return the layer of that name. Raises KeyError, listing the known names, if there is none."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(f"no layer {name!r}; the layers are {', '.join(layer.name for layer in self.layers)}")
