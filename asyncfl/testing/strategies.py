"""Hypothesis strategies for the inputs of components: `from asyncfl.testing import strategies`.

Counterexamples shrink to few updates with small values.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.strategies import SearchStrategy

from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.defences import Buffer
from asyncfl.protocol.messages import Fate
from asyncfl.testing import builders
from asyncfl.testing.arrivals import Lost, Step

LOSSES = (Fate.LOST_DOWN, Fate.LOST_UP, Fate.DROPPED_OUT)


def updates(
    n: int | SearchStrategy[int] | None = None,
    n_parameters: int | SearchStrategy[int] | None = None,
    *,
    most: float = 100,
) -> SearchStrategy[Vector]:
    """Generate updates, (n, n_parameters) float32 with entries -`most`..`most`, by default 1..12 of 1..6 parameters."""
    shapes = st.tuples(_range_or(n, 1, 12), _range_or(n_parameters, 1, 6))
    entries = st.floats(-most, most, width=32, allow_subnormal=False)
    return shapes.flatmap(lambda shape: hnp.arrays(np.float32, shape, elements=entries)).map(builders.read_only)


def weights(n: int | SearchStrategy[int] | None = None) -> SearchStrategy[Floats]:
    """Generate weights, (n,) float64, each >= 0.01/n, with a sum of at most 1; by default 1..12 weights."""
    shares = st.floats(0.01, 1)
    drawn = _range_or(n, 1, 12).flatmap(lambda number: hnp.arrays(np.float64, number, elements=shares))
    return drawn.map(lambda share: builders.read_only(share / len(share), np.float64))


def staleness(n: int | SearchStrategy[int] | None = None, *, oldest: int = 20) -> SearchStrategy[Ints]:
    """Generate staleness, (n,) int64 in 0..`oldest` versions; by default 0..12 values."""
    ages, as_ages = st.integers(0, oldest), partial(builders.read_only, dtype=np.int64)
    return _range_or(n, 0, 12).flatmap(lambda number: hnp.arrays(np.int64, number, elements=ages)).map(as_ages)


@st.composite
def buffers(
    draw: st.DrawFn,
    *,
    clients: int = 10,
    n: int | SearchStrategy[int] | None = None,
    n_parameters: int | SearchStrategy[int] | None = None,
    oldest: int = 5,
    most: float = 100,
) -> Buffer:
    """Generate buffers with updates of clients 0..clients-1, several per client, with staleness 0..`oldest`."""
    deltas = draw(updates(n, n_parameters, most=most))
    number = len(deltas)
    senders = draw(st.lists(st.integers(0, clients - 1), min_size=number, max_size=number))
    ages = draw(staleness(number, oldest=oldest)).tolist()
    return builders.buffer(
        deltas,
        clients=senders,
        staleness=ages,
        samples=draw(st.lists(st.integers(1, 1000), min_size=number, max_size=number)),
        current=draw(st.floats(-1, 1, width=32)),
        version=max(ages) + draw(st.integers(0, 3)),
    )


def arrivals(clients: int = 6, *, most: int = 40, losses: bool = True) -> SearchStrategy[list[Step]]:
    """Generate sequences for `asyncfl.testing.arrivals` with clients 0..clients-1, and with lost tasks if `losses`.

    The sequences suit a server that gives every idle client a task at once, such as `asyncfl.testing.server()`. For
    other servers, use `skip_absent=True`.
    """
    client = st.integers(0, clients - 1)
    steps: list[SearchStrategy[Any]] = [client]
    if losses:
        steps.append(st.builds(Lost, client, st.sampled_from(LOSSES)))
    return st.lists(st.one_of(steps), max_size=most)


def _range_or(number: int | SearchStrategy[int] | None, least: int, most: int) -> SearchStrategy[int]:
    if number is None:
        return st.integers(least, most)
    return st.just(number) if isinstance(number, int) else number
