"""What each adversary got hold of in one seed: which uploads, and which published models.

An audit attacks with nothing else. It may use less than the ledger grants, which counts a model that was missed as well
once a later one is held: what is measured is a lower bound either way.
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncfl.federation import SeedRun
from asyncfl.federation.adversary_holdings import first_times, overheard
from asyncfl.federation.adversary_holdings import holdings as holdings_since


@dataclass(frozen=True)
class HeldReleases:
    """What one adversary holds. Version 0 depends on nobody's data and is known to everybody."""

    tasks: frozenset[int] = frozenset()
    """Numbers of the tasks whose uploads it holds."""
    versions: tuple[int, ...] = ()
    """Published models that it holds, from 1 on, rising."""


def held_releases(run: SeedRun) -> dict[str, HeldReleases]:
    """Adversary -> what it holds: eavesdropper, server, both, public_last (the last model), public (all of them)."""
    published = {row["version"]: row["time_s"] for row in run.rounds}
    held = holdings_since(run.events, published)
    # Buffers that are sent to be scored are not attacked here.
    tapped = frozenset(first_times(overheard(run.events, "up"), "task"))
    caught = {version for version in held["eavesdropper"].models if version > 0}
    arrived = frozenset(held["server"].uploads)
    models = [version for version in published if version > 0]
    return {
        "eavesdropper": HeldReleases(tapped, tuple(sorted(caught))),
        "server": HeldReleases(arrived, tuple(models)),
        "both": HeldReleases(arrived | tapped, tuple(models)),
        "public_last": HeldReleases(versions=tuple(models[-1:])),
        "public": HeldReleases(versions=tuple(models)),
    }
