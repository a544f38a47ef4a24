"""Which parameters of a network are shared, and which stay at each client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.errors import Fault
from asyncfl.learning.layout import Layout

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class ParameterSplit:
    """Which parameters of a network are shared, and which are each client's own."""

    whole: Layout
    """All of them."""
    patterns: tuple[str, ...]
    """Names of the personal ones, `*` and `?` stand for any characters."""

    def is_personal(self, name: str) -> bool:
        """Whether a parameter of that name stays at the clients."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    @cached_property
    def shared(self) -> Layout:
        """Names and places of the shared parameters in the vector that is sent."""
        return self._of(False)

    @cached_property
    def own(self) -> Layout:
        """Names and places of the personal parameters among themselves."""
        return self._of(True)

    def root_faults(self, root_samples: int) -> Iterator[Fault]:
        """Why `root_samples` of the server's own say nothing of updates; fields named relative to the defence.

        The server has no personal layers but the initial ones. Where those are the last, clients' shared layers still
        learn to suit them; where the first are, which read the samples, its directions point away from the clients'.
        """
        first = next(name for name, _, _ in self.whole.parameters())
        if root_samples and self.is_personal(first):
            yield Fault(
                "root_samples",
                f"must be 0 where model.personal holds the first layer ({first}), got {root_samples}: the server has "
                "none but the initial one, by which it would judge updates wrongly; take a rule and a detector that "
                "need no samples",
            )

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
        """(n_parameters,) which numbers of a whole model stay at the clients."""
        mask = np.zeros(self.whole.n_parameters, dtype=bool)
        for name, place, _ in self.whole.parameters():
            mask[place] = self.is_personal(name)
        return mask

    def split(self, whole: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The shared and the personal part of whole models (..., n_parameters)."""
        return whole[..., ~self.personal], whole[..., self.personal]

    def join(self, shared: Vector, personal: Vector) -> Vector:
        """(n_parameters,) the whole model of both parts."""
        whole = np.empty(self.whole.n_parameters, np.float32)
        whole[~self.personal], whole[self.personal] = shared, personal
        return whole

    def by_name(self, personal: Vector) -> dict[str, NDArray[np.float32]]:
        """Name -> (clients, *shape) of the personal parameters of all clients (clients, n_personal)."""
        return {name: personal[:, place].reshape(-1, *shape) for name, place, shape in self.own.parameters()}

    def of_client(self, weights: Mapping[str, NDArray[Any]], client: int) -> dict[str, NDArray[Any]]:
        """Arrays of one client's model, of a kept one whose personal arrays are those of all clients, see `by_name`."""
        return {name: array[client] if self.is_personal(name) else array for name, array in weights.items()}
