"""State that a client carries from one task to the next, and the table of all clients' states.

Whatever a client carries is an entry of its `ClientState`: personal layers, the remainder of compression, the spent
privacy budget, an algorithm's own vectors. A state is immutable: a change puts another one in its place. So a snapshot
costs nothing, and checkpoints, worker processes and nodes carry a state as a whole, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scalar: TypeAlias = int | float


@dataclass(frozen=True, slots=True, eq=False)
class ClientState:
    """Named arrays and numbers of one client. Neither is ever changed in place."""

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.arrays or self.scalars)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same names and, byte by byte, the same values."""
        if not isinstance(other, ClientState):
            return NotImplemented
        if self.arrays.keys() != other.arrays.keys() or self.scalars.keys() != other.scalars.keys():
            return False
        return all(_equal(one, other.arrays[name]) for name, one in self.arrays.items()) and all(
            _equal(np.asarray(one), np.asarray(other.scalars[name])) for name, one in self.scalars.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def updated(self, changes: ClientState) -> ClientState:
        """Return this state with the entries of `changes` in place of those of the same names."""
        return ClientState({**self.arrays, **changes.arrays}, {**self.scalars, **changes.scalars})

    def part(self, names: Collection[str]) -> ClientState:
        """Return the entries with these names; names without an entry are left out."""
        return ClientState(
            {name: one for name, one in self.arrays.items() if name in names},
            {name: one for name, one in self.scalars.items() if name in names},
        )

    def since(self, before: ClientState) -> ClientState:
        """Return the entries that `before` does not have, or has with another object as value."""
        return ClientState(
            {name: one for name, one in self.arrays.items() if one is not before.arrays.get(name)},
            {name: one for name, one in self.scalars.items() if one is not before.scalars.get(name)},
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the state as nested mappings, lists, numbers, texts and bytes, which `of_plain` reads."""
        arrays = {name: [one.dtype.str, list(one.shape), one.tobytes()] for name, one in self.arrays.items()}
        return {"arrays": arrays, "scalars": dict(self.scalars)}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> ClientState:
        """Return the state that `to_plain` described."""
        arrays = {name: np.frombuffer(of[2], of[0]).reshape(of[1]) for name, of in plain["arrays"].items()}
        return cls(arrays, dict(plain["scalars"]))


def _equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one is other:
        return True
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


NOTHING = ClientState()
"""State of a client that carries nothing."""


class ClientStates:
    """States of all clients. A client that carries nothing takes no memory."""

    def __init__(self, states: Mapping[int, ClientState] | None = None) -> None:
        self._states = dict(states or {})

    def of(self, client: int) -> ClientState:
        """Return the state of a client, `NOTHING` before its first entry."""
        return self._states.get(client, NOTHING)

    def put(self, client: int, state: ClientState) -> None:
        """Replace the whole state of a client."""
        if state:
            self._states[client] = state
        else:
            self._states.pop(client, None)

    def update(self, client: int, changes: ClientState) -> None:
        """Replace the entries that `changes` has, and leave all others."""
        if changes:
            self._states[client] = self.of(client).updated(changes)

    def set_array(self, client: int, name: str, value: NDArray[Any]) -> None:
        """Replace one array of a client."""
        self.update(client, ClientState({name: value}))

    def take(self, client: int) -> ClientState:
        """Remove and return the state of a client."""
        return self._states.pop(client, NOTHING)

    def copy(self) -> ClientStates:
        """Return a table that later changes of this one do not reach."""
        return ClientStates(self._states)
