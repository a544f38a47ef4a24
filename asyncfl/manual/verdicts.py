"""The verdicts of this repository's experiments, kept in a small file of the package, `measured.json`: results
themselves are too large to keep. `asyncfl.manual.record` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("measured.json")
"""The file."""
NOT_RUN = "not run"
SAID = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not hold", "do not hold"),
    "not decided": ("is not decided", "are not decided"),
    NOT_RUN: ("was not run", "were not run"),
}
"""Verdict -> how it is said of one claim, and of several."""
DECIDED = ("holds", "does not hold")

Claims = Mapping[tuple[str, str], Mapping[str, Any]]
"""(experiment, what a claim says) -> verdict, reason, seeds, scale."""


@dataclass(frozen=True)
class Kept:
    """What the file holds."""

    date: str
    """Day on which the results were judged, YYYY-MM-DD."""
    experiments: Mapping[str, Mapping[str, Any]]
    """Name -> title, source, components, and claims with their verdicts."""

    @property
    def claims(self) -> Claims:
        """All claims, by experiment and sentence."""
        return {(name, claim["says"]): claim for name, one in self.experiments.items() for claim in one["claims"]}


@cache
def kept() -> Kept:
    """The file of this package."""
    found = json.loads(KEPT.read_text(encoding="utf-8"))
    return Kept(found["date"], found["experiments"])


def tally(claims: Iterable[str]) -> str:
    """How many claims there are, and of each verdict: `12 claims: 9 hold, 3 are not decided`."""
    given = list(claims)
    counts = {verdict: given.count(verdict) for verdict in SAID}
    parts = ", ".join(f"{count} {SAID[verdict][count > 1]}" for verdict, count in counts.items() if count)
    return f"{len(given)} claim{'s' if len(given) != 1 else ''}{': ' if parts else ''}{parts}"
