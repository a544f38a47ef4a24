"""What each adversary got hold of in one seed: which uploads, and which published models.

An audit attacks with nothing else. It may use less than the ledger grants, which counts a model that was missed as well
once a later one is held: what is measured is a lower bound either way.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.federation import SeedRun
from asyncfl.trace import Kind
from asyncfl.trace.query import select


@dataclass(frozen=True)
class Holding:
    """What one adversary holds. Version 0 depends on nobody's data and is known to everybody."""

    tasks: frozenset[int] = frozenset()
    """Numbers of the tasks whose uploads it holds."""
    versions: tuple[int, ...] = ()
    """Published models that it holds, from 1 on, rising."""


def holdings(run: SeedRun) -> dict[str, Holding]:
    """Adversary -> what it holds: eavesdropper, server, both, public_last (the last model), public (all of them)."""
    overheard = select(run.events, kinds=[Kind.OVERHEARD])
    tapped = _tasks(overheard, "up")
    caught = {version for version in _numbers(_way(overheard, "down"), "base_version") if version > 0}
    arrived = frozenset(_numbers(select(run.events, kinds=[Kind.UPLOADED]), "task"))
    models = [row["version"] for row in run.rounds if row["version"] > 0]
    return {
        "eavesdropper": Holding(tapped, tuple(sorted(caught))),
        "server": Holding(arrived, tuple(models)),
        "both": Holding(arrived | tapped, tuple(models)),
        "public_last": Holding(versions=tuple(models[-1:])),
        "public": Holding(versions=tuple(models)),
    }


def _way(overheard: pa.Table, way: str) -> pa.Table:
    return overheard.filter(pc.equal(overheard["detail"].cast(pa.string()), way))


def _tasks(overheard: pa.Table, way: str) -> frozenset[int]:
    return frozenset(task for task in _numbers(_way(overheard, way), "task") if task >= 0)


def _numbers(events: pa.Table, column: str) -> list[int]:
    found: list[int] = events[column].to_pylist()
    return found
