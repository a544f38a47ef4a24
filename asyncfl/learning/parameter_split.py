"""Split of a network's parameters into shared ones and personal ones, which stay on each client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import Fault
from asyncfl.learning.layout import Layout

Vector = NDArray[np.float32]


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
        return self._of(False)

    @cached_property
    def own(self) -> Layout:
        """Layout of a client's personal vector."""
        return self._of(True)

    def root_faults(self, root_samples: int) -> Iterator[Fault]:
        """Report why the server's own `root_samples` cannot judge updates; field names are relative to the defence.

        The server has only the initial personal layers. If these are the last layers, the clients' shared layers still
        learn to fit them. If they include the first layer, which reads the samples, the server's update points away
        from the clients'.
        """
        first = next(name for name, _, _ in self.whole.parameters())
        if root_samples and self.is_personal(first):
            allowed = f"must be 0 where model.personal holds the first layer ({first}), got {root_samples}"
            why = "the server has none but the initial one, by which it would judge updates wrongly"
            yield Fault("root_samples", f"{allowed}: {why}; take a rule and a detector that need no samples")

    def _of(self, personal: bool) -> Layout:
        found = []
        for layer in self.whole.layers:
            names = {own: f"{layer.name}.{own}" if layer.name else own for own, _ in layer.shapes}
            part = {own: shape for own, shape in layer.shapes if self.is_personal(names[own]) == personal}
            if part:
                found.append((layer.name, part))
        return Layout.of(found)

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
