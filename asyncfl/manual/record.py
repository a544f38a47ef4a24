"""Experiments as they stand in their files, with what is known of their claims; and the file that keeps that.

    python -m asyncfl.manual.record workflow/experiments results

writes `measured.json` anew from a folder of results. Verdicts that the results lack, as those of experiments that run
on request, stay where the scenarios are those that they are of. A component belongs to the experiments in one of whose
scenarios it stands.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from asyncfl.analysis.tables import read_csv
from asyncfl.base.component import Component, components_in
from asyncfl.base.files.atomic import write_text
from asyncfl.experiment.cells import cells
from asyncfl.experiment.files import find
from asyncfl.experiment.loading import load
from asyncfl.experiment.spec import Experiment
from asyncfl.manual.measured import ClaimSaid, Experimented, judged
from asyncfl.manual.parts import components
from asyncfl.manual.verdicts import KEPT, NOT_RUN, Claims, kept


def experimented(folder: str | Path, known: Claims | None = None) -> list[Experimented]:
    """Every experiment below `folder`, with the verdicts that are `known`; None: those of this package.

    Raises ScenarioError for a faulty file.
    """
    known = kept().claims if known is None else known
    found = []
    for name, path in find(folder).items():
        experiment = load(path, name, check=False)
        claims = tuple(
            ClaimSaid(claim.says, claim.expected, claim.why, *judged(known.get((name, claim.says))))
            for claim in experiment.claims
        )
        found.append(Experimented(name, experiment.title, str(experiment.source), claims, _kinds(experiment)))
    return found


def judged_in(results: Path) -> Claims:
    """The claims in the report over a folder of results. Raises OSError where there is none."""
    return {
        (row["experiment"], row["claim"]): {
            "verdict": row["verdict"],
            "reason": row["reason"],
            "seeds": int(float(row["seeds"])),
            "scale": row["scale"],
        }
        for row in read_csv(results / "claims.csv").astype(str).to_dict("records")
    }


def outline(name: str, experiment: Experiment) -> dict[str, Any]:
    """What of an experiment the file repeats, but for its components: they follow from `made_of`."""
    grid = experiment.model_dump(mode="json", include={"scenario", "axes", "variants", "quick", "seeds"})
    return {
        "title": experiment.title,
        "source": str(experiment.source),
        "made_of": hashlib.sha256(json.dumps(grid, sort_keys=True).encode()).hexdigest()[:12],
        "claims": [{"says": claim.says, "expected": claim.expected} for claim in experiment.claims],
    }


def made(experiments: Mapping[str, Experiment], known: Claims, date: str) -> str:
    """The file's text: every experiment, its claims with the verdicts that are known since `date`."""
    named = {part.model: part.path for part in components()}
    found = {}
    for name, experiment in experiments.items():
        one = outline(name, experiment)
        one["components"] = sorted(named[kind] for kind in _kinds(experiment) if kind in named)
        one["claims"] = [_with_verdict(claim, known.get((name, claim["says"]))) for claim in one["claims"]]
        found[name] = one
    return json.dumps({"date": date, "experiments": found}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _kinds(experiment: Experiment) -> frozenset[type[Component]]:
    """Classes of the components in all its scenarios."""
    return frozenset(type(part) for cell in cells(experiment, "full") for part in components_in(cell.scenario))


def _with_verdict(claim: Mapping[str, Any], known: Mapping[str, Any] | None) -> dict[str, Any]:
    if known is None or known["verdict"] == NOT_RUN:
        return {**claim, "verdict": NOT_RUN}
    return {**claim, **{name: known[name] for name in ("verdict", "reason", "seeds", "scale")}}


def main(folder: str, results: str | None = None) -> None:
    """Write the file anew, from the experiments in a folder and their results."""
    experiments = {name: load(path, name, check=False) for name, path in find(folder).items()}
    date, of = kept().date, {name: one["made_of"] for name, one in kept().experiments.items()}
    same = {name for name, one in experiments.items() if outline(name, one)["made_of"] == of.get(name)}
    known: Claims = {key: claim for key, claim in kept().claims.items() if key[0] in same}
    if results is not None:
        found = judged_in(Path(results)).items()
        known = {**known, **{key: claim for key, claim in found if claim["verdict"] != NOT_RUN}}
        date = datetime.fromtimestamp((Path(results) / "claims.csv").stat().st_mtime, UTC).date().isoformat()
    write_text(made(experiments, known, date), KEPT)


if __name__ == "__main__":
    main(*sys.argv[1:3])
