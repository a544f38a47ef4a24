"""Reading experiment files: every fault of a file in one error."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from asyncfl.base.description import faults_of
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.data import CATALOG
from asyncfl.experiments.cells import Cell, cells
from asyncfl.experiments.recorded import recording_fault
from asyncfl.experiments.references import reference_faults
from asyncfl.experiments.spec import SCALES, Experiment, place_in_variant
from asyncfl.scenario import Scenario

MOST_CELLS = 10_000
"""Combinations of the values of all axes."""


def load(path: str | Path, name: str | None = None, check: bool = True) -> Experiment:
    """The experiment of a file, its cells validated at both scales.

    `name` is what results are filed under; None: the file's name. `check` false is for files whose cells the workflow
    has checked before: its jobs do not do so again. Raises ScenarioError with all faults of the file.
    """
    raw = {**_read(Path(path)), "name": name or Path(path).stem, "folder": str(Path(path).parent)}
    if not check:
        try:
            return Experiment.model_validate(raw)
        except ValidationError as error:
            raise ScenarioError(faults_of(error, Experiment, raw), path) from None
    faults: dict[Fault, None] = {}
    try:
        experiment = Experiment.model_validate(raw)
    except ValidationError as error:
        faults.update(dict.fromkeys(faults_of(error, Experiment, raw)))
        # what is sound is checked all the same, so that its faults are not found one run later
        sound = _without(raw, [str(one["loc"][0]) for one in error.errors()])
        if sound is None:
            if isinstance(raw.get("scenario"), dict):
                faults.update(dict.fromkeys(_scenario_faults(raw["scenario"])))
            raise ScenarioError(faults, path) from None
        experiment = sound
    if large := list(_large(experiment)):
        raise ScenarioError([*faults, *large], path)
    own = list(_own_faults(experiment))
    faults.update(dict.fromkeys(own))
    if any(fault.field.startswith("quick.") for fault in own):
        experiment = experiment.model_copy(update={"quick": {}})
    if experiment.scenario is not None:
        scenario = experiment.scenario
        for attempt in range(3):
            base = _scenario_faults(scenario)
            # without its faulty fields the rest can be checked too; what is missing then is no fault of the file
            faults.update(dict.fromkeys(f for f in base if attempt == 0 or "required" not in f.message))
            scenario = _healed(scenario, base)
        experiment = experiment.model_copy(update={"scenario": scenario})
    found, of_cells = _cells(experiment)
    faults.update(dict.fromkeys(of_cells))
    faults.update(dict.fromkeys(_recording_faults(experiment, found)))
    # without all its cells an experiment may have the columns of any domain
    federations = [tuple(CATALOG)] if of_cells or not found else [cell.scenario.data.domains for cell in found]
    domains = dict.fromkeys(domain for federation in federations if len(federation) > 1 for domain in federation)
    rounds = None if of_cells else max((cell.scenario.protocol.rounds for cell in found), default=None)
    regression = bool(found) and not of_cells and not any(cell.scenario.data.classes for cell in found)
    faults.update(dict.fromkeys(reference_faults(experiment, domains, rounds, regression)))
    if faults:
        raise ScenarioError(faults, path)
    return experiment


def _cells(experiment: Experiment) -> tuple[list[Cell], list[Fault]]:
    """The cells at all scales, and their faults that are none of the base scenario."""
    if experiment.scenario is None or _scenario_faults(experiment.scenario):
        return [], []
    made: list[Cell] = []
    found: dict[Fault, None] = {}
    for scale in SCALES:
        try:
            made += cells(experiment, scale)
        except ScenarioError as error:
            found.update(dict.fromkeys(error.faults))
    return made, list(found)


def _recording_faults(experiment: Experiment, found: list[Cell]) -> Iterator[Fault]:
    """Recordings that are not there, or are of another scenario."""
    recorded = [cell for cell in found if cell.recording is not None]
    if recorded and any(len(experiment.seeds.looks(scale).at) > 1 for scale in SCALES):
        yield Fault("seeds", "must be listed or counted, as recorded runs cannot be given more")
        return
    for cell in recorded:
        if cell.recording is not None and (fault := recording_fault(cell.recording, cell.scenario)) is not None:
            yield Fault("recorded", fault)


def _without(raw: dict[str, Any], faulty: list[str]) -> Experiment | None:
    """The experiment without its faulty parts; None where others refer to those, or nothing is left."""
    if {"axes", "variants", "scenario", "bounds", "targets"} & set(faulty):
        return None
    stand_ins = {"title": "untitled", "source": {"paper": "none"}}
    rest = {name: value for name, value in raw.items() if name not in faulty}
    try:
        return Experiment.model_validate({**stand_ins, **rest})
    except ValidationError:
        return None


def _healed(scenario: dict[str, Any], faults: list[Fault]) -> dict[str, Any]:
    """The scenario without its faulty fields, so that axes can be checked too."""
    healed = copy.deepcopy(scenario)
    for fault in faults:
        *parents, last = fault.field.removeprefix("scenario.").split(".")
        part: Any = healed
        for step in parents:
            part = part.get(step) if isinstance(part, dict) else None
        if isinstance(part, dict):
            part.pop(last, None)
    return healed


def _read(path: Path) -> dict[str, Any]:
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ScenarioError(f"must hold fields (title, scenario, ...), got {type(raw).__name__}", path)
    return raw


def _scenario_faults(raw: dict[str, Any]) -> list[Fault]:
    try:
        Scenario.read(raw)
    except ScenarioError as error:
        return [fault.under("scenario") for fault in error.faults]
    return []


def _large(experiment: Experiment) -> Iterator[Fault]:
    """Grids that are too large to be made."""
    grids = {"axes": experiment.grid("full"), **{f"bounds.{name}": b.grid() for name, b in experiment.bounds.items()}}
    for place, grid in grids.items():
        number = math.prod(len(values) for values in grid.values())
        if number > MOST_CELLS:
            yield Fault(place, f"must span at most {MOST_CELLS} combinations, got {number}")


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _own_faults(experiment: Experiment) -> Iterator[Fault]:
    """Faults between the parts of the file: axes that do not exist, values that no axis takes, names given twice."""
    grid = experiment.grid("full")
    if experiment.scenario is None and not experiment.bounds:
        yield Fault("scenario", "is required, unless the experiment has `bounds`")
    for name, values in grid.items():
        place = f"axes.{name}" if name in experiment.axes else f"variants.{name}"
        if not values:
            yield Fault(place, "must have at least one value")
        if len({repr(v) for v in values}) < len(values):
            yield Fault(place, "names a value twice")
    for name, labels in experiment.variants.items():
        if labels and all(_is_number(label) for label in labels):
            # Tables would read such labels back as numbers.
            yield Fault(f"variants.{name}", f"must have a label that is no number, got {', '.join(labels)}")
    for name in set(experiment.axes) & set(experiment.variants):
        yield Fault(f"variants.{name}", "is also an axis; give it another name")
    for name, covered in experiment.covered.items():
        if experiment.variants.get(name) != covered.settings():
            yield Fault(f"covered.{name}", "is also a variant; give it another name")
        for field, one, other in covered.doubled():
            yield Fault(f"covered.{name}", f"factors {one} and {other} both change {field}, one would undo the other")
    yield from _quick_faults(experiment)
    yield from _doubled_names(experiment)


def _quick_faults(experiment: Experiment) -> Iterator[Fault]:
    for name, value in experiment.quick.items():
        group, _, axis = name.partition(".")
        if place_in_variant(name, experiment.variants) is not None:
            continue
        if group in ("axes", "variants"):
            whole: Any = getattr(experiment, group).get(axis)
            if whole is None:
                yield Fault(
                    f"quick.{name}", f"there is no {axis} among {group} ({_listed(getattr(experiment, group))})"
                )
            elif not isinstance(value, list) or not value:
                yield Fault(f"quick.{name}", f"must be a list of values of the axis, got {value!r}")
            else:
                for absent in [v for v in value if v not in list(whole)]:
                    yield Fault(f"quick.{name}", f"{absent!r} is not among the axis's values ({_listed(whole)})")
        elif name in experiment.axes:
            yield Fault(f"quick.{name}", f"is an axis; thin it with axes.{name}")


def _doubled_names(experiment: Experiment) -> Iterator[Fault]:
    names = [figure.name for figure in experiment.all_figures] + [table.name for table in experiment.tables]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault("figures", f"two figures or tables are named {name!r}; give each its own `name`")


def _listed(values: Any) -> str:
    return ", ".join(str(v) for v in values) or "none"
