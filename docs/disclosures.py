"""Generate the page about what each message and event tells about training data, from the declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from asyncfl.base.disclosure import Disclosure, Leak, Public, Released, disclosures
from asyncfl.base.tables import columns_of
from asyncfl.extras.live import client_messages
from asyncfl.protocol.events import DISCLOSED, EventsTable
from asyncfl.protocol.messages import Input, ScoreRequest

INTRO = """# What do messages tell?

Each field of a message between clients and server, and each kind of event, is declared in the code as one of these:

| declaration | meaning |
|---|---|
| public | the same for all neighbouring data sets |
| released | depends on training data through noise that the ledger counts |
| leak | depends on training data without noise, in runs with the flag in brackets |
| not sent | known to the researcher alone, and to no party of the federation |

A leak of losses or scores makes epsilon infinite for each adversary that holds the message, and nothing is proven for
adversaries that see decisions based on it. A leak that the scheme itself assumes to be harmless (a clip norm or budgets
that follow the data) is a flag of its claim: nothing is proven, and `exact_epsilon` counts the noised releases alone.

Training losses are sent only if `protocol.selection` needs them, or if `privacy` is off. The times of messages count as
public: the time that a device takes for a task must not depend on the values of its samples. With Poisson batches it
depends on how many samples they draw, so nothing is proven of such trainings in real time."""


def disclosure_page() -> str:
    """Return the page as Markdown."""
    parts = [INTRO, "## Messages of live clients"]
    for message in (client_messages.Hello, *get_args(client_messages.FromClient), client_messages.ClientEvent):
        parts.append(_table(message.__name__, disclosures(message)))
    parts.append("## Messages to live clients")
    for message in (client_messages.Welcome, *get_args(client_messages.FromServer)):
        parts.append(_table(message.__name__, disclosures(message)))
    parts.append("## Messages to and from the server's state machine\n\nOf live and simulated clients.")
    for message in (*get_args(Input), ScoreRequest):
        parts.append(_table(message.__name__, disclosures(message)))
    parts += ["## Events", _table("kind", {kind.value: one for kind, one in DISCLOSED.items()})]
    parts.append(_table("column", {name: one.disclosure for name, one in columns_of(EventsTable).items()}))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(title: str, fields: Mapping[str, Disclosure | None]) -> str:
    rows = [f"| `{name}` | {' '.join(_words(one))} |" for name, one in fields.items() if one is not None]
    return "\n".join([f"| {title} | tells |", "|---|---|", *rows]) if rows else ""


def _words(one: Disclosure) -> Iterator[str]:
    if isinstance(one, Leak):
        yield f"**leak** ({one.flag}); otherwise"
        yield from _words(one.otherwise)
    elif isinstance(one, Released):
        yield f"released: {one.by}"
    else:
        yield f"{'public' if isinstance(one, Public) else 'not sent'}: {one.why}"
