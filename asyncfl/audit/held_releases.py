"""Uploads and published models that each adversary holds in one seed.

An audit attacks with these alone. The ledger grants an adversary more: a model that it missed also counts once it holds
a later one. A measured epsilon is a lower bound either way.
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncfl.federation import SeedRun
from asyncfl.federation.adversary_holdings import first_times, overheard
from asyncfl.federation.adversary_holdings import holdings as holdings_since


@dataclass(frozen=True)
class HeldReleases:
    """Releases that one adversary holds, without version 0, which is public and depends on no data."""

    tasks: frozenset[int] = frozenset()
    """Tasks whose uploads the adversary holds."""
    versions: tuple[int, ...] = ()
    """Published versions that the adversary holds, from 1 on, ascending."""


def held_releases(run: SeedRun) -> dict[str, HeldReleases]:
    """Return the uploads and published models that each adversary holds in a seed: name of the adversary -> releases.

    Adversaries: eavesdropper, server, both, public_last (the last published model), public (all published models).
    """
    published = {row["version"]: row["time_s"] for row in run.rounds}
    held = holdings_since(run.events, published)
    # Buffers that are sent to clients for scoring are not attacked here.
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
