"""A coalition of curious clients: they follow the protocol, and put together what they were sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator

from asyncfl.errors import Fault
from asyncfl.streams import Streams


def _share_or_clients(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in value):
            return tuple(sorted(set(value)))
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1:
        return float(value)
    raise ValueError("must be a share of the clients, 0..1 (exclusive), or a list of numbers of clients")


Curious = Annotated[float | tuple[int, ...], BeforeValidator(_share_or_clients)]
"""Annotation of a field that says who is curious."""


def coalition(curious: float | tuple[int, ...], clients: int, streams: Streams) -> frozenset[int]:
    """The curious among clients 0..clients-1; of a share the same first ones of a drawn order, however large it is."""
    if isinstance(curious, tuple):
        return frozenset(curious)
    order = streams.generator("curious").permutation(clients)
    return frozenset(order[: round(curious * clients)].tolist())


def coalition_faults(curious: float | tuple[int, ...], clients: int) -> Iterator[Fault]:
    """Numbers of no client, and a coalition of all, fields named relative to the scheme."""
    if not isinstance(curious, tuple):
        return
    if wrong := [one for one in curious if one >= clients]:
        yield Fault("curious", f"must hold numbers of clients, 0..{clients - 1}, got {wrong[0]}")
    elif len(curious) == clients:
        yield Fault("curious", f"must leave somebody out to be curious about, got all {clients} clients")
