"""The task of a secure aggregation: the weighted sum of the vectors of one buffer, and nothing else, at the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np


class Member(NamedTuple):
    """A client with one task, for which it made masks."""

    client: int
    turn: int  # number of tasks that the client was given before


Generators: TypeAlias = Callable[[Member], np.random.Generator]
"""Function that returns a new generator of a member's secrets, the same at each call."""


class BelowThresholdError(Exception):
    """Fewer clients answered than are needed to unmask a sum."""


@dataclass(frozen=True)
class MaskedSum:
    """The vectors of one buffer that are to be added, and the clients that help to unmask their sum."""

    weights: tuple[int, ...]
    """(n_updates,) factor >= 0 of each vector, an integer of the field."""
    senders: tuple[Member, ...]
    """(n_updates,) member that sends each vector."""
    members: tuple[Member, ...]
    """All members that agreed on masks, `senders` among them; the others have dropped out."""
    helpers: tuple[int, ...]
    """Clients that answered the request to unmask, in the order of their answers."""
    clients: int
    """Number of clients for which shares were planned; the threshold is one of these."""
