"""A coalition of honest-but-curious clients, which follow the protocol and share what they were sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator

from asyncfl.base.errors import Fault
from asyncfl.base.streams import Streams


def _share_or_clients(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in value):
            return tuple(sorted(set(value)))
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1:
        return float(value)
    raise ValueError("must be a share of the clients, 0..1 (exclusive), or a list of client numbers")


Curious = Annotated[float | tuple[int, ...], BeforeValidator(_share_or_clients)]
"""Type of a field that names the curious clients."""


def coalition(curious: float | tuple[int, ...], clients: int, streams: Streams) -> frozenset[int]:
    """Return the curious clients among clients 0..clients-1. A share takes the first clients of one random order, so
    that a larger coalition contains every smaller one."""
    if isinstance(curious, tuple):
        return frozenset(curious)
    order = streams.generator("curious").permutation(clients)
    return frozenset(order[: round(curious * clients)].tolist())


def coalition_faults(curious: float | tuple[int, ...], clients: int) -> Iterator[Fault]:
    """Yield a fault for unknown client numbers and for a coalition of all clients. Field names are relative to the
    scheme."""
    if not isinstance(curious, tuple):
        return
    if wrong := [one for one in curious if one >= clients]:
        yield Fault("curious", f"must hold client numbers, 0..{clients - 1}, got {wrong[0]}")
    elif len(curious) == clients:
        yield Fault("curious", f"must leave out at least one client, got all {clients} clients")
