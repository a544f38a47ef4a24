"""A task on its way to the client that carries it out."""

from __future__ import annotations

from dataclasses import dataclass

from asyncfl.messages import Vector


@dataclass(frozen=True, slots=True)
class Ticket:
    """A task that is to be carried out now."""

    task: int
    client: int
    base_version: int
    base: Vector
    """(n_parameters,) the model that the client was sent."""
    turn: int = 0
    """Tasks that the client was given before."""
    epochs: int | None = None
    """Passes over its samples that it has time for; None: all of a task."""
