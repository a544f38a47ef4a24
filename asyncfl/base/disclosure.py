"""Declarations of what a field of a message, or an event, tells its reader about training data.

Each field of each message to a server (`asyncfl.protocol.messages`), each field of each live message
(`asyncfl.extras.live.client_messages`), and each kind and column of the trace (`asyncfl.protocol.events`) declares one
of these classes, as metadata of `typing.Annotated`:

    losses: Annotated[NDArray[np.float64] | None, Leak(LOSSES, Public("not sent"))] = None

The privacy ledger reads the declarations: a leak that is in force in a run makes the epsilon infinite for each
adversary that holds the message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, get_type_hints

BATCHES = "durations depend on secret batches"
BUDGETS = "data-dependent budgets"
CLIP_NORM = "clip norm depends on data"
LOSSES = "losses without noise"
PAYLOADS = "payloads without noise"
REJECTION = "rejected for what it holds"
SCORES = "scores without noise"


@dataclass(frozen=True, slots=True)
class Public:
    """A value that is the same for all neighbouring data sets."""

    why: str


@dataclass(frozen=True, slots=True)
class Released:
    """A value that depends on training data only through noised releases that the ledger counts."""

    by: str
    """Mechanism that adds the noise."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A value that depends on training data, without noise, in runs with a certain flag."""

    flag: str
    """The flag (`privacy.flags`) that names the leak in the ledger."""
    otherwise: Public | Released
    """The declaration in runs without this flag."""


@dataclass(frozen=True, slots=True)
class Unsent:
    """A record of the simulator for the researcher, which no party of the federation receives."""

    why: str


Disclosure: TypeAlias = Public | Released | Leak | Unsent


def disclosures(message: type) -> dict[str, Disclosure | None]:
    """Return the declaration of each field of a message class; None: the field declares nothing."""
    return {name: disclosure_of(hint) for name, hint in get_type_hints(message, include_extras=True).items()}


def disclosure_of(hint: Any) -> Disclosure | None:
    """Return the declaration in the metadata of a type hint; None without one."""
    return next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Disclosure)), None)


def leaks(message: type, in_force: Collection[str]) -> Iterator[str]:
    """Yield the flag of each field of `message` that is a leak in a run with the flags `in_force`."""
    for one in disclosures(message).values():
        if isinstance(one, Leak) and one.flag in in_force:
            yield one.flag
