"""Where each layer of a model lies in its flat vector.

A model is one float32 vector of `n_parameters` numbers. A layer is what one module owns: its weight, then its bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """One module's place in the flat vector."""

    name: str
    """The module's name inside the model."""
    start: int
    """Index of its first parameter."""
    weight_shape: tuple[int, ...]
    """Shape of the weight, which comes first."""
    bias_shape: tuple[int, ...]
    """Shape of the bias, which follows; () where there is none."""

    @property
    def bias_start(self) -> int:
        """Index of the first number of the bias (= `stop` where there is none)."""
        return self.start + math.prod(self.weight_shape)

    @property
    def stop(self) -> int:
        """Index behind its last parameter."""
        return self.bias_start + (math.prod(self.bias_shape) if self.bias_shape else 0)

    @property
    def slice(self) -> slice:
        """The layer in a flat vector, or in the last axis of a matrix of models."""
        return slice(self.start, self.stop)

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Layout:
    """All layers of a model, in the order of the flat vector, without gaps."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, shapes: Iterable[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> Layout:
        """Layout of layers given as (name, weight shape, bias shape)."""
        layers: list[Layer] = []
        start = 0
        for name, weight, bias in shapes:
            layers.append(Layer(name, start, tuple(weight), tuple(bias)))
            start = layers[-1].stop
        return cls(tuple(layers))

    @property
    def n_parameters(self) -> int:
        """Length of the flat vector."""
        return self.layers[-1].stop if self.layers else 0

    def __getitem__(self, name: str) -> Layer:
        """The layer of that name; KeyError, naming those that exist, where there is none."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(f"no layer {name!r}; the layers are {', '.join(layer.name for layer in self.layers)}")
