"""Which experiments of this repository use a component, what they claim of it, and what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from asyncfl.manual.parts import Part, components
from asyncfl.manual.verdicts import NOT_RUN, kept, tally

MOST_USES = 0.5
"""Share of the experiments beyond which a component is part of the scenery, and they are not listed."""


@dataclass(frozen=True)
class ClaimSaid:
    """A claim of an experiment."""

    says: str
    expected: str
    """`holds` or `fails`."""
    why: str = ""
    """Why one that does not hold does not."""
    verdict: str = ""
    """What was decided; empty where that is not known."""
    measured: str = ""
    """The estimate with its interval, the scale and the seeds that it is from."""


@dataclass(frozen=True)
class Experimented:
    """An experiment, as far as a reader of the documentation asks."""

    name: str
    """`safl/attacks`."""
    title: str
    source: str
    claims: tuple[ClaimSaid, ...]
    kinds: frozenset[type]
    """Classes of the components in its scenarios."""

    @property
    def command(self) -> str:
        """What runs it."""
        from asyncfl.experiment.files import rule_name

        return f"snakemake --cores 8 {rule_name('', self.name)}"

    @property
    def tally(self) -> str:
        """How many claims it makes, and what became of them."""
        return tally(claim.verdict or NOT_RUN for claim in self.claims)

    def claims_about(self, part: Part) -> list[ClaimSaid]:
        """Those of its claims that name the component."""
        names = {part.kind.replace("_", " "), part.model.__name__}
        pattern = re.compile("|".join(rf"\b{re.escape(name)}" for name in names), flags=re.IGNORECASE)
        return [claim for claim in self.claims if pattern.search(claim.says)]


def remembered() -> list[Experimented]:
    """Every experiment that this package keeps verdicts of; its files need not be there."""
    named = {part.path: part.model for part in components()}
    return [
        Experimented(
            name,
            one["title"],
            one["source"],
            tuple(ClaimSaid(claim["says"], claim["expected"], "", *judged(claim)) for claim in one["claims"]),
            frozenset(named[path] for path in one["components"]),
        )
        for name, one in kept().experiments.items()
    ]


def using(part: Part, experiments: Iterable[Experimented]) -> tuple[list[Experimented], int]:
    """Experiments in whose scenarios a component stands, and how many there are of them: where those are most of all,
    the ones with claims that name it."""
    every = list(experiments)
    found = [one for one in every if part.model in one.kinds]
    if len(found) <= MOST_USES * len(every):
        return found, len(found)
    return [one for one in found if one.claims_about(part)], len(found)


def judged(claim: Mapping[str, Any] | None) -> tuple[str, str]:
    """Verdict, and what it rests on."""
    if claim is None or claim["verdict"] == NOT_RUN:
        return "", ""
    seeds = f", {claim['seeds']} seed{'s' if claim['seeds'] != 1 else ''}" if claim["seeds"] else ""
    scale = "a formula" if claim["scale"] == "formula" else f"{claim['scale']} scale"
    return claim["verdict"], f"{claim['reason']} ({scale}{seeds})".strip()
