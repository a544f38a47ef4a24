"""Epsilon spent so far: the ledger of a run spread over its time.

The ledger tells what the releases of each client are worth together, all of one noise multiplier; the trace tells when
each was made. An eavesdropper holds an upload when the tap has it, the server when it has judged it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.trace.events import Kind
from asyncfl.trace.query import select
from asyncfl.trace.tasks import Floats, Ints

EpsilonOf: TypeAlias = Callable[[Floats, float], Any]
"""(squared mu of n holders, delta) -> (n,) smallest epsilon that holds; `asyncfl.privacy.gaussian.exact_epsilon`."""


JUDGED = (Kind.AGGREGATED, Kind.FLAGGED, Kind.REJECTED)
HANDING = {"eavesdropper": (Kind.OVERHEARD,), "server": JUDGED, "both": (Kind.OVERHEARD, *JUDGED)}
"""Adversary -> kinds of events by which it gets an upload."""


@dataclass(frozen=True)
class Spending:
    """What one adversary has learnt of the client that it knows most of. Never falls."""

    seed: int
    adversary: str
    time_s: Floats
    """(n,) when it rose, 0 first."""
    epsilon: Floats
    """(n,) from then on, for the delta of the ledger."""


def spending(events: pa.Table, ledger: pa.Table, epsilon_of: EpsilonOf) -> tuple[list[Spending], list[str]]:
    """The spending of each seed and adversary, and a sentence for each that cannot be told."""
    found, missing = [], []
    clients = ledger.filter(pc.field("holder") == "client")
    if not len(clients):
        return [], ["the ledger has no rows of clients"]
    pairs = clients.group_by(["seed", "adversary"]).aggregate([]).to_pylist()
    for pair in sorted(pairs, key=lambda pair: (pair["seed"], pair["adversary"])):
        seed, adversary = pair["seed"], pair["adversary"]
        rows = clients.filter((pc.field("seed") == seed) & (pc.field("adversary") == adversary))
        own = events.filter(pc.field("seed") == seed)
        result = _spending(own, rows, seed, adversary, epsilon_of)
        if isinstance(result, Spending):
            found.append(result)
        else:
            missing.append(f"seed {seed}, {adversary}: {result}")
    return found, missing


def releases(events: pa.Table, adversary: str) -> pa.Table | None:
    """The events of one seed that handed an upload to `adversary`, one per upload; None where it is not known which."""
    if adversary not in HANDING:
        return None
    found = select(events, kinds=HANDING[adversary])
    from_client = pc.or_kleene(
        pc.not_equal(found["kind"].cast(pa.string()), Kind.OVERHEARD),
        pc.equal(found["detail"].cast(pa.string()), "up"),
    )
    found = found.filter(from_client)
    # What both hold is one upload, known when the first of them has it.
    _, first = np.unique(found["task"].to_numpy(), return_index=True)
    return found.take(pa.array(np.sort(first)))


def _spending(events: pa.Table, rows: pa.Table, seed: int, adversary: str, epsilon_of: EpsilonOf) -> Spending | str:
    """The spending, or why there is none."""
    given = releases(events, adversary)
    if given is None:
        return "the trace does not say when it learns something"
    client, number = rows["client"].to_numpy(), rows["releases"].to_numpy()
    size = int(client.max()) + 1
    expected, each = np.zeros(size, dtype=np.int64), np.zeros(size)
    expected[client] = number
    each[client] = rows["squared_mu"].to_numpy() / np.maximum(number, 1)
    delta = float(rows["delta"][0].as_py())
    if not expected.any() and not len(given):
        return Spending(seed, adversary, np.zeros(1), np.zeros(1))
    if not np.isfinite(each).all() or delta <= 0:
        return "unbounded, uploads carry no noise that hides anything"
    of = given["client"].to_numpy()
    if not np.array_equal(np.bincount(of, minlength=size), expected):
        return "the ledger counts other releases than the trace"
    squared_mu = np.maximum.accumulate(_ranks(of) * each[of])
    rises = np.flatnonzero(np.diff(squared_mu, prepend=0.0) > 0)
    times = np.concatenate([[0.0], given["time_s"].to_numpy()[rises]])
    return Spending(seed, adversary, times, np.asarray(epsilon_of(np.concatenate([[0.0], squared_mu[rises]]), delta)))


def _ranks(of: Ints) -> Ints:
    """(n,) how many times each value has occurred up to its place, itself included."""
    order = np.argsort(of, kind="stable")
    _, starts, numbers = np.unique(of[order], return_index=True, return_counts=True)
    ranks = np.empty(len(of), dtype=np.int64)
    ranks[order] = np.arange(len(of)) - np.repeat(starts, numbers) + 1
    return ranks
