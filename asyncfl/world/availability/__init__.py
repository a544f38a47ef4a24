"""Availability of clients: always online, in alternating periods, once a day, or as measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.base.component import choice
from asyncfl.world.availability.alternating import AlternatingAvailability
from asyncfl.world.availability.diurnal import DiurnalAvailability
from asyncfl.world.availability.intervals import CsvAvailability
from asyncfl.world.availability.pattern import (
    AlwaysOnline,
    AlwaysPresent,
    Availability,
    ClientTraits,
    Presence,
    Variation,
)

if TYPE_CHECKING:
    AnyAvailability = Availability
else:
    AnyAvailability: Any = choice(
        Availability, AlwaysOnline, AlternatingAvailability, DiurnalAvailability, CsvAvailability
    )

__all__ = [
    "AlternatingAvailability",
    "AlwaysOnline",
    "AlwaysPresent",
    "AnyAvailability",
    "Availability",
    "ClientTraits",
    "CsvAvailability",
    "DiurnalAvailability",
    "Presence",
    "Variation",
]
