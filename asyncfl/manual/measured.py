"""Which experiments of this repository use a component, what they claim of it, and what was measured, where results are
there."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asyncfl.component import Component, components_in
from asyncfl.experiment.cells import cells
from asyncfl.experiment.files import find, rule_name
from asyncfl.experiment.loading import load
from asyncfl.manual.parts import Part


@dataclass(frozen=True)
class ClaimSaid:
    """A claim of an experiment."""

    says: str
    expected: str
    """`holds` or `fails`."""
    why: str = ""
    """Why one that does not hold does not."""
    verdict: str = ""
    """What was decided; empty where no results are there."""
    measured: str = ""
    """The numbers, with the scale they were measured at."""


@dataclass(frozen=True)
class Experimented:
    """An experiment, as far as a reader of the documentation asks."""

    name: str
    """`safl/attacks`."""
    title: str
    source: str
    claims: tuple[ClaimSaid, ...]
    kinds: frozenset[type[Component]]
    """Classes of the components in its scenarios."""

    @property
    def command(self) -> str:
        """What runs it."""
        return f"snakemake --cores 8 {rule_name('', self.name)}"

    def claims_about(self, part: Part) -> list[ClaimSaid]:
        """Those of its claims that name the component."""
        names = {part.kind.replace("_", " "), part.model.__name__}
        pattern = re.compile("|".join(rf"\b{re.escape(name)}" for name in names), flags=re.IGNORECASE)
        return [claim for claim in self.claims if pattern.search(claim.says)]


def experimented(folder: str | Path, results: str | Path) -> list[Experimented]:
    """Every experiment below `folder`, with the verdicts in `results/claims.csv` where there is one.

    Raises ScenarioError for a faulty file.
    """
    verdicts = _verdicts(Path(results) / "claims.csv")
    found = []
    for name, path in find(folder).items():
        experiment = load(path, name, check=False)
        scenarios = [] if experiment.scenario is None else [cell.scenario for cell in cells(experiment, "full")]
        kinds = frozenset(type(part) for scenario in scenarios for part in components_in(scenario))
        claims = tuple(
            ClaimSaid(claim.says, claim.expected, claim.why, *verdicts.get((name, claim.says), ()))
            for claim in experiment.claims
        )
        found.append(Experimented(name, experiment.title, str(experiment.source), claims, kinds))
    return found


def _verdicts(path: Path) -> Mapping[tuple[str, str], tuple[str, str]]:
    """(experiment, claim) -> (verdict, what was measured)."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["experiment"], row["claim"]): (row["verdict"], f"{row['measured']} ({row['scale']} scale)") for row in rows
    }
