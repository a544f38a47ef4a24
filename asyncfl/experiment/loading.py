"""Reading experiment files: every fault of a file in one error."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from asyncfl.description import faults_of
from asyncfl.errors import Fault, ScenarioError
from asyncfl.experiment.cells import cells
from asyncfl.experiment.spec import SCALES, Experiment, place_in_variant
from asyncfl.scenario import Scenario
from asyncfl.yaml_text import read_yaml

MOST_CELLS = 10_000
"""Combinations of the values of all axes."""


def find(folder: str | Path) -> dict[str, Path]:
    """Name (`nbafl/fig2`) -> file of each experiment below a folder, sorted by name.

    Raises ScenarioError where there is none.
    """
    root = Path(folder)
    found = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.yaml")}
    if not found:
        raise ScenarioError("holds no experiment (*.yaml)", root)
    return dict(sorted(found.items(), key=lambda item: _natural(item[0])))


def load(path: str | Path, name: str | None = None, check: bool = True) -> Experiment:
    """The experiment of a file, its cells validated at both scales (`check` false: for files known to be sound).

    `name` is what results are filed under; None: the file's name. Raises ScenarioError with all faults of the file.
    """
    raw = {**_read(Path(path)), "name": name or Path(path).stem}
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
    faults.update(dict.fromkeys(_cell_faults(experiment)))
    if faults:
        raise ScenarioError(faults, path)
    return experiment


def _cell_faults(experiment: Experiment) -> list[Fault]:
    """Faults of the cells that are none of the base scenario."""
    if experiment.scenario is None or _scenario_faults(experiment.scenario):
        return []
    found: dict[Fault, None] = {}
    for scale in SCALES:
        try:
            cells(experiment, scale)
        except ScenarioError as error:
            found.update(dict.fromkeys(error.faults))
    return list(found)


def _without(raw: dict[str, Any], faulty: list[str]) -> Experiment | None:
    """The experiment without its faulty parts; None where others refer to those, or nothing is left."""
    if {"axes", "variants", "scenario", "bounds"} & set(faulty):
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
    for name in set(experiment.axes) & set(experiment.variants):
        yield Fault(f"variants.{name}", "is also an axis; give it another name")
    yield from _quick_faults(experiment)
    yield from _seed_faults(experiment, grid)
    yield from _figure_faults(experiment, grid)
    yield from _claim_faults(experiment, grid)


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


def _figure_faults(experiment: Experiment, grid: dict[str, tuple[Any, ...]]) -> Iterator[Fault]:
    names = [figure.name for figure in experiment.all_figures] + [table.name for table in experiment.tables]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault("figures", f"two figures or tables are named {name!r}; give each its own `name`")
    for number, figure in enumerate(experiment.all_figures):
        place = "figure" if experiment.figure is not None and number == 0 else f"figures.{number}"
        if figure.bound_named is not None:
            if figure.bound_named not in experiment.bounds:
                known = _listed(experiment.bounds)
                yield Fault(f"{place}.bound", f"{figure.bound_named!r} is not among bounds ({known})")
                continue
        elif experiment.scenario is None:
            yield Fault(f"{place}.kind", f"{figure.kind} needs a scenario; without one only kind: bound can be drawn")
            continue
        named, axes = figure.axes_named, figure.axes(grid, experiment.bounds)
        yield from _unknown_axes(place, named, axes)
        for loose in [a for a in axes if a not in {axis for _, axis in named} and len(axes[a]) > 1]:
            yield Fault(place, f"axis {loose} is neither x, hue nor panels; name it, or fix it with where")
    for number, table in enumerate(experiment.tables):
        yield from _unknown_axes(f"tables.{number}", table.axes_named, grid)


def _seed_faults(experiment: Experiment, grid: dict[str, tuple[Any, ...]]) -> Iterator[Fault]:
    for number, exception in enumerate(experiment.seeds.cells):
        place = f"seeds.cells.{number}"
        yield from _unknown_axes(place, [("where", axis) for axis in exception.where], grid)
        for axis, wanted in exception.where.items():
            for value in wanted if isinstance(wanted, list | tuple) else [wanted]:
                if axis in grid and value not in grid[axis]:
                    yield Fault(
                        f"{place}.where", f"{value!r} is not among the values of {axis} ({_listed(grid[axis])})"
                    )


def _claim_faults(experiment: Experiment, grid: dict[str, tuple[Any, ...]]) -> Iterator[Fault]:
    for number, claim in enumerate(experiment.claims):
        place = f"claims.{number}"
        axes: dict[str, tuple[Any, ...]] = grid
        if claim.bound is not None:
            if claim.bound not in experiment.bounds:
                yield Fault(f"{place}.bound", f"{claim.bound!r} is not among bounds ({_listed(experiment.bounds)})")
                continue
            axes = experiment.bounds[claim.bound].grid()
        elif experiment.scenario is None:
            yield Fault(f"{place}.bound", "is required, as the experiment has no scenario")
            continue
        yield from _unknown_axes(place, claim.axes_named, axes)
        for field, axis, value in claim.values_named:
            if axis in axes and value not in axes[axis]:
                yield Fault(f"{place}.{field}", f"{value!r} is not among the values of {axis} ({_listed(axes[axis])})")


def _unknown_axes(place: str, named: list[tuple[str, str]], axes: Any) -> Iterator[Fault]:
    for field, axis in named:
        if axis not in axes:
            yield Fault(f"{place}.{field}", f"there is no axis {axis} (axes: {_listed(axes)})")


def _listed(values: Any) -> str:
    return ", ".join(str(v) for v in values) or "none"


def _natural(name: str) -> tuple[tuple[int, str | int], ...]:
    """Sort key that puts fig10 behind fig9."""
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name))
