"""Reading experiment files: every fault of a file in one error."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from asyncfl.base.columns import Column
from asyncfl.base.description import faults_of
from asyncfl.base.errors import Fault, ScenarioError, hint
from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.data import CATALOG
from asyncfl.experiments.bounds import first_fault
from asyncfl.experiments.cells import Cell, cells, recording_fault
from asyncfl.experiments.claims import Claim
from asyncfl.experiments.claims.base import ClaimBase
from asyncfl.experiments.columns import TARGETS, is_known, measured_columns
from asyncfl.experiments.figures import Figure
from asyncfl.experiments.figures.base import FigureBase
from asyncfl.experiments.grid import AxisValues
from asyncfl.experiments.spec import SCALES, Experiment, is_number, place_in_variant
from asyncfl.experiments.table import Table
from asyncfl.scenario import Scenario

Referring = FigureBase | Table | ClaimBase

OF_CLASSES = ("test_accuracy", "attack_success", "client_accuracy_std", "client_accuracy_worst_decile")
"""Columns that are empty where numbers are predicted."""


@dataclass(frozen=True)
class Known:
    """What the parts of an experiment may name."""

    grid: AxisValues
    """Axis or variant -> its values or labels at full scale."""
    columns: Mapping[str, Mapping[str, Column]]
    """Table (rounds, ends) -> its columns."""
    rounds: int | None = None
    """Rounds of the longest cell, where that is known."""

    @classmethod
    def of(cls, experiment: Experiment, domains: Iterable[str], rounds: int | None, regression: bool) -> Known:
        """Arguments as for `reference_faults`."""
        methods = () if experiment.pictures is None else experiment.pictures.methods
        left_out, columns = OF_CLASSES if regression else (), {}
        for table in ("rounds", "ends"):
            found = measured_columns(
                table, domains, experiment.targets, methods, membership=experiment.membership is not None
            )
            columns[table] = {name: about for name, about in found.items() if name not in left_out}
        return cls(experiment.grid("full"), columns, rounds)

    def faults(self, part: Referring) -> Iterator[Fault]:
        """What of a part's names does not exist."""
        yield from unknown_axes(part.axes_named, self.grid)
        yield from unknown_values(part.values_named, self.grid)
        for field, table, column in part.columns_named:
            if not is_known(column, self.columns[table]):
                yield Fault(field, f"there is no column {column}; {hint(column, self.columns[table], 'columns')}")


def unknown_axes(named: Iterable[tuple[str, str]], axes: AxisValues) -> Iterator[Fault]:
    """A fault for each (field, axis) whose axis is not there."""
    for field, axis in named:
        if axis not in axes:
            yield Fault(field, f"there is no axis {axis}; {hint(axis, axes, 'axes')}")


def unknown_values(named: Iterable[tuple[str, str, Any]], axes: AxisValues) -> Iterator[Fault]:
    """A fault for each (field, axis, value) whose value the axis does not take."""
    for field, axis, value in named:
        if axis in axes and value not in axes[axis]:
            yield Fault(field, f"{value!r} is not among the values of {axis}; {hint(value, axes[axis], 'values')}")


def reference_faults(
    experiment: Experiment, domains: Iterable[str], rounds: int | None, regression: bool = False
) -> Iterator[Fault]:
    """Faults of what figures, tables, targets, claims and `seeds.cells` name.

    domains: those of the federations of its cells, where they have several. rounds: of its longest cell, None where
    that is not known. regression: whether all cells predict numbers.
    """
    known = Known.of(experiment, tuple(domains), rounds, regression)
    yield from _target_faults(experiment, known)
    for name, bounds in experiment.bounds.items():
        if fault_of_bound := first_fault(bounds, bounds.grid()):
            yield Fault(f"bounds.{name}", fault_of_bound)
    for number, exception in enumerate(experiment.seeds.cells):
        named = [("where", axis) for axis in exception.where]
        for fault in (*unknown_axes(named, known.grid), *unknown_values(exception.values_named, known.grid)):
            yield fault.under(f"seeds.cells.{number}")
    for place, figure in experiment.placed_figures:
        for fault in _figure_faults(figure, experiment, known):
            yield fault.under(place)
    for number, table in enumerate(experiment.tables):
        for fault in (*known.faults(table), *_loose_axes(table, known.grid, "rows nor columns")):
            yield fault.under(f"tables.{number}")
    for number, claim in enumerate(experiment.claims):
        for fault in _claim_faults(claim, experiment, known):
            yield fault.under(f"claims.{number}")


def _target_faults(experiment: Experiment, known: Known) -> Iterator[Fault]:
    for name, target in experiment.targets.items():
        place = f"targets.{name}"
        start = next(start for start, unit in TARGETS.items() if unit == target.unit)
        if not (name.startswith(start) and name.isidentifier()):
            yield Fault(place, f"must be named {start}..., as its cost is {target.cost}; figures tell the unit by it")
        if not is_known(target.column, known.columns["rounds"]):
            near = hint(target.column, known.columns["rounds"], "columns")
            yield Fault(f"{place}.column", f"there is no column {target.column}; {near}")


def _figure_faults(figure: Figure, experiment: Experiment, known: Known) -> Iterator[Fault]:
    if figure.bound_named is not None:
        if figure.bound_named not in experiment.bounds:
            yield _unknown_bound(figure.bound_named, experiment)
            return
    elif experiment.scenario is None:
        yield Fault("kind", f"{figure.kind} needs a scenario; without one only kind: bound can be drawn")
        return
    axes = figure.axes(known.grid, experiment.bounds)
    yield from Known(axes, known.columns).faults(figure)
    yield from _loose_axes(figure, axes, "x, hue nor panels")
    if fault_of_bound := figure.own_bound_fault(axes):
        yield Fault("bound", fault_of_bound)


def _loose_axes(part: Referring, axes: AxisValues, drawn: str) -> Iterator[Fault]:
    """Axes of which a figure or table does not show the values, but has several; none where one is misspelt."""
    if any(axis not in axes for _, axis in part.axes_named):
        return
    shown = {axis for field, axis in part.axes_named if field != "where"}
    kept = {axis: sum(axis == of for _, of, _ in part.values_named) or len(values) for axis, values in axes.items()}
    for axis, number in kept.items():
        if axis not in shown and number > 1:
            yield Fault("", f"axis {axis} is neither {drawn}; name it, or fix it to one value with where")


def _claim_faults(claim: Claim, experiment: Experiment, known: Known) -> Iterator[Fault]:
    if claim.bound is not None:
        if claim.bound not in experiment.bounds:
            yield _unknown_bound(claim.bound, experiment)
            return
        bound = dict.fromkeys(("bound",), known.columns["ends"]["train_loss"])
        yield from Known(experiment.bounds[claim.bound].grid(), {"rounds": bound, "ends": bound}).faults(claim)
    elif experiment.scenario is None:
        yield Fault("bound", "is required, as the experiment has no scenario")
    else:
        yield from known.faults(claim)
        for field, number in claim.rounds_named:
            if known.rounds is not None and number > known.rounds:
                yield Fault(field, f"there is no round {number}; the runs end at round {known.rounds}")


def _unknown_bound(name: str, experiment: Experiment) -> Fault:
    return Fault("bound", f"{name!r} is not among bounds; {hint(name, experiment.bounds, 'bounds')}")


MOST_CELLS = 10_000
"""Combinations of the values of all axes."""


def load(path: str | Path, name: str | None = None, check: bool = True) -> Experiment:
    """Read the experiment of a file, its cells validated at both scales.

    `name` is what results are filed under; None: the file's name. `check` false is for files whose cells the workflow
    has checked before: its jobs do not do so again. Raises ScenarioError with all faults of the file.
    """
    fields = read_yaml(Path(path))
    if not isinstance(fields, dict):
        raise ScenarioError(f"must hold fields (title, scenario, ...), got {type(fields).__name__}", path)
    raw = {**fields, "name": name or Path(path).stem, "folder": str(Path(path).parent)}
    faults: list[Fault] = []
    sound: Experiment | None
    try:
        sound = Experiment.model_validate(raw)
    except ValidationError as error:
        faults += faults_of(error, Experiment, raw)
        # what is sound is checked all the same, so that its faults are not found one run later
        sound = _without(raw, {str(one["loc"][0]) for one in error.errors()}) if check else None
        if sound is None and check and isinstance(raw.get("scenario"), dict):
            faults += _scenario_faults(raw["scenario"])
    if sound is not None and check:
        faults += list(_large(sound)) or _checked(sound)
    if faults or sound is None:
        raise ScenarioError(dict.fromkeys(faults), path)
    return sound


def _without(raw: dict[str, Any], faulty: set[str]) -> Experiment | None:
    """The experiment without its faulty parts; None where others refer to those, or nothing is left."""
    if {"axes", "variants", "scenario", "bounds", "targets"} & faulty:
        return None
    stand_ins = {"title": "untitled", "source": {"paper": "none"}}
    rest = {name: value for name, value in raw.items() if name not in faulty}
    try:
        return Experiment.model_validate({**stand_ins, **rest})
    except ValidationError:
        return None


def _large(experiment: Experiment) -> Iterator[Fault]:
    """Grids that are too large to be made."""
    grids = {"axes": experiment.grid("full"), **{f"bounds.{name}": b.grid() for name, b in experiment.bounds.items()}}
    for place, grid in grids.items():
        number = math.prod(len(values) for values in grid.values())
        if number > MOST_CELLS:
            yield Fault(place, f"must span at most {MOST_CELLS} combinations, got {number}")


def _checked(experiment: Experiment) -> list[Fault]:
    """All faults of an experiment whose fields are sound."""
    faults = list(_own_faults(experiment))
    if any(fault.field.startswith("quick.") for fault in faults):
        experiment = experiment.model_copy(update={"quick": {}})
    found: list[Cell] = []
    of_cells: list[Fault] = []
    if experiment.scenario is not None:
        scenario = experiment.scenario
        for attempt in range(3):
            base = _scenario_faults(scenario)
            # without its faulty fields the rest can be checked too; what is missing then is no fault of the file
            faults += [fault for fault in base if attempt == 0 or "required" not in fault.message]
            scenario = _healed(scenario, base)
        experiment = experiment.model_copy(update={"scenario": scenario})
        for scale in () if _scenario_faults(scenario) else SCALES:
            try:
                found += cells(experiment, scale)
            except ScenarioError as error:
                of_cells += error.faults
    recorded = [(cell.recording, cell.scenario) for cell in found if cell.recording is not None]
    if recorded and any(len(experiment.seeds.looks(scale).at) > 1 for scale in SCALES):
        faults.append(Fault("seeds", "must be listed or counted, as recorded runs cannot be given more"))
    else:
        faults += [Fault("recorded", fault) for fault in starmap(recording_fault, recorded) if fault is not None]
    # without all its cells an experiment may have the columns of any domain
    federations = [tuple(CATALOG)] if of_cells or not found else [cell.scenario.data.domains for cell in found]
    domains = dict.fromkeys(domain for federation in federations if len(federation) > 1 for domain in federation)
    rounds = None if of_cells else max((cell.scenario.protocol.rounds for cell in found), default=None)
    regression = bool(found) and not of_cells and not any(cell.scenario.data.classes for cell in found)
    return [*faults, *of_cells, *reference_faults(experiment, domains, rounds, regression)]


def _scenario_faults(raw: dict[str, Any]) -> list[Fault]:
    try:
        Scenario.read(raw)
    except ScenarioError as error:
        return [fault.under("scenario") for fault in error.faults]
    return []


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


def _own_faults(experiment: Experiment) -> Iterator[Fault]:
    """Faults between the parts of the file: axes that do not exist, values that no axis takes, names given twice."""
    if experiment.scenario is None and not experiment.bounds:
        yield Fault("scenario", "is required, unless the experiment has `bounds`")
    for name, values in experiment.grid("full").items():
        place = f"axes.{name}" if name in experiment.axes else f"variants.{name}"
        if not values:
            yield Fault(place, "must have at least one value")
        if len({repr(v) for v in values}) < len(values):
            yield Fault(place, "names a value twice")
    for name, labels in experiment.variants.items():
        if labels and all(map(is_number, labels)):
            # Tables would read such labels back as numbers.
            yield Fault(f"variants.{name}", f"must have a label that is no number, got {', '.join(labels)}")
        if name in experiment.axes:
            yield Fault(f"variants.{name}", "is also an axis; give it another name")
    for name, covered in experiment.covered.items():
        if experiment.variants.get(name) != covered.settings():
            yield Fault(f"covered.{name}", "is also a variant; give it another name")
        for field, one, other in covered.doubled():
            yield Fault(f"covered.{name}", f"factors {one} and {other} both change {field}, one would undo the other")
    yield from _quick_faults(experiment)
    names = [figure.name for figure in experiment.all_figures] + [table.name for table in experiment.tables]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault("figures", f"two figures or tables are named {name!r}; give each its own `name`")


def _quick_faults(experiment: Experiment) -> Iterator[Fault]:
    for name, value in experiment.quick.items():
        group, _, axis = name.partition(".")
        place = f"quick.{name}"
        if place_in_variant(name, experiment.variants) is not None:
            continue
        if group in ("axes", "variants"):
            known = getattr(experiment, group)
            whole = known.get(axis)
            if whole is None:
                yield Fault(place, f"there is no {axis} among {group} ({_listed(known)})")
            elif not isinstance(value, list) or not value:
                yield Fault(place, f"must be a list of values of the axis, got {value!r}")
            else:
                for absent in [v for v in value if v not in list(whole)]:
                    yield Fault(place, f"{absent!r} is not among the axis's values ({_listed(whole)})")
        elif name in experiment.axes:
            yield Fault(place, f"is an axis; thin it with axes.{name}")


def _listed(values: Any) -> str:
    return ", ".join(str(v) for v in values) or "none"
