"""Files of experiments below a folder, and the names of their Snakemake rules."""

from __future__ import annotations

import re
from pathlib import Path, PurePath

from asyncfl.base.errors import Fault, ScenarioError

NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_-]*$")
"""Names of folders and files that Snakemake accepts as the name of a rule, not as a pattern of file names."""
STEPS = ("", "attacks", "analysis")
"""Prefixes of an experiment's name in its rules."""
MOST_LOOKS = 9
LOOKS = tuple(f"look_{number}" for number in range(1, MOST_LOOKS))
RULES = ("all", "report_on_claims", "index_of_runs", *LOOKS)
"""Rules that belong to no experiment."""


def find(folder: str | Path) -> dict[str, Path]:
    """Return name (`nbafl/fig2`) -> file of each experiment (`*.yaml`) below a folder, sorted by name.

    Hidden files and folders are left aside. Raises ScenarioError where there is none, and for files whose names cannot
    be those of experiments, all of them at once.
    """
    root = Path(folder)
    places = sorted(path.relative_to(root) for path in root.rglob("*") if path.suffix in (".yaml", ".yml"))
    places = [place for place in places if not any(part.startswith(".") for part in place.parts)]
    if not places:
        raise ScenarioError("holds no experiment (*.yaml)", root)
    faults = []
    for place in places:
        if place.suffix == ".yml":
            message = f"experiments are files *.yaml; rename it to {place.with_suffix('.yaml').name}"
            faults.append(Fault(str(place), message))
        for part in (part for part in place.with_suffix("").parts if not NAME.match(part)):
            message = f"{part!r} must be letters, digits, _ and -, as it becomes the name of a rule"
            faults.append(Fault(str(place), message))
    found = {place.with_suffix("").as_posix(): root / place for place in places if place.suffix == ".yaml"}
    if faults := faults or _shared_rules(found):
        raise ScenarioError(faults, root)
    return {name: found[name] for name in sorted(found, key=_natural)}


def _natural(name: str) -> list[str | int]:
    """Return a sort key that puts fig10 behind fig9: texts and numbers in turn."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def rule_name(prefix: str, name: str) -> str:
    """Return the rule of a step of an experiment: `analysis_nbafl_fig2`."""
    return "_".join([prefix, *PurePath(name).parts]).strip("_")


def _shared_rules(names: dict[str, Path]) -> list[Fault]:
    faults, taken = [], dict.fromkeys(RULES, "the workflow itself")
    for name in names:
        for rule in (rule_name(step, name) for step in STEPS):
            if rule in taken:
                message = f"would become the rule {rule}, as {taken[rule]} does; rename one of them"
                faults.append(Fault(f"{name}.yaml", message))
                break
            taken[rule] = f"{name}.yaml"
    return faults
