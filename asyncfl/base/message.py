"""Base class of all messages, and the numbers that they hold."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from asyncfl.base.disclosure import BATCHES, LOSSES, Leak, Public

Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Text: TypeAlias = Annotated[str, Meta(max_length=1000)]
Time: TypeAlias = Annotated[
    float, Leak(BATCHES, Public("devices, links and availability decide it, not the values of samples"))
]
ServerNumber: TypeAlias = Annotated[Count, Public("the server gave this number")]
CHOICE = Leak(LOSSES, Public("the server chose the client at random, by its tasks so far or by times"))
ClientNumber: TypeAlias = Annotated[Count, CHOICE]


class Message(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base class of all messages. The tag of a message is the name of its class."""
