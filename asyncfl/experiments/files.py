"""Files of experiments below a folder, and the names of Snakemake's rules that they become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from asyncfl.base.errors import Fault, ScenarioError

NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_-]*$")
"""Names of folders and files: what Snakemake takes for a name of a rule, and for no pattern of file names."""
STEPS = ("", "attacks", "analysis")
"""What stands before an experiment's name in the rules that it becomes."""
MOST_LOOKS = 9
RULES = (
    "all",
    "report_on_claims",
    "pages_of_runs",
    "index_of_runs",
    *(f"look_{number}" for number in range(1, MOST_LOOKS)),
)
"""Rules that are there without any experiment."""


def find(folder: str | Path) -> dict[str, Path]:
    """Name (`nbafl/fig2`) -> file of each experiment (`*.yaml`) below a folder, sorted by name.

    Hidden files and folders are left aside. Raises ScenarioError where there is none, and for files whose names cannot
    be those of experiments, all of them at once.
    """
    root = Path(folder)
    files = {path.relative_to(root): path for path in root.rglob("*") if path.suffix in (".yaml", ".yml")}
    files = {place: path for place, path in files.items() if not any(part.startswith(".") for part in place.parts)}
    if not files:
        raise ScenarioError("holds no experiment (*.yaml)", root)
    names = {place.with_suffix("").as_posix(): place for place in sorted(files) if place.suffix == ".yaml"}
    faults = [fault for place in sorted(files) for fault in _faults_of(place)]
    faults = faults or list(_shared_rules(names))
    if faults:
        raise ScenarioError(faults, root)
    found = {name: files[place] for name, place in names.items()}
    return dict(sorted(found.items(), key=lambda item: _natural(item[0])))


def rule_name(prefix: str, name: str) -> str:
    """The rule of a step of an experiment: `analysis_nbafl_fig2`."""
    return "_".join([prefix, *PurePath(name).parts]).strip("_")


def _faults_of(place: PurePath) -> Iterator[Fault]:
    if place.suffix == ".yml":
        yield Fault(str(place), f"experiments are files *.yaml; rename it to {place.with_suffix('.yaml').name}")
    for part in place.with_suffix("").parts:
        if not NAME.match(part):
            yield Fault(str(place), f"{part!r} must be letters, digits, _ and -, as it becomes the name of a rule")


def _shared_rules(names: Iterable[str]) -> Iterator[Fault]:
    """Experiments of different names whose rules would have one name."""
    taken = dict.fromkeys(RULES, "the workflow itself")
    for name in names:
        for rule in (rule_name(step, name) for step in STEPS):
            if rule in taken:
                yield Fault(f"{name}.yaml", f"would become the rule {rule}, as {taken[rule]} does; rename one of them")
                break
            taken[rule] = f"{name}.yaml"


def _natural(name: str) -> tuple[str | int, ...]:
    """Sort key that puts fig10 behind fig9: texts and numbers in turn."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))
