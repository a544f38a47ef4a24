"""Reading experiment files: all faults of fields and between them in one error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from asyncfl.base.description import faults_of
from asyncfl.base.errors import Fault, MissingDataError, ScenarioError, hint
from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.base.quantities import is_number
from asyncfl.base.tables import Column
from asyncfl.data import CATALOG
from asyncfl.experiments.bounds import first_fault
from asyncfl.experiments.cells import Cell, cells, recording_fault
from asyncfl.experiments.claims.base import ClaimBase
from asyncfl.experiments.departures import read_papers
from asyncfl.experiments.experiment_columns import NOT_MEASURED, OF_TABLES, TARGETS, is_known, measured_columns
from asyncfl.experiments.figures import Final
from asyncfl.experiments.figures.base import FigureBase
from asyncfl.experiments.grid import AxisValues, ExperimentPart
from asyncfl.experiments.spec import OUTSIDE, SCALES, Experiment, Scale, place_in_variant
from asyncfl.experiments.table import Table
from asyncfl.scenario import Scenario

MOST_CELLS = 10_000
"""Most combinations of the values of all axes."""
OF_CLASSES = ("test_accuracy", "attack_success", "client_accuracy_std", "client_accuracy_worst_decile")
"""Columns that are empty where numbers are predicted."""
Columns = Mapping[str, Mapping[str, Column]]
"""Table (rounds, ends) -> its columns."""


def load(path: str | Path, name: str | None = None, check: bool = True) -> Experiment:
    """Read the experiment of a file, its cells validated at both scales.

    `name` is what results are filed under; None: the file's name. `check` false is for files whose cells the workflow
    has checked before: its jobs do not do so again. Raises ScenarioError with the faults of all fields and those
    between the fields that are sound; and as `check_cells` does.
    """
    fields = read_yaml(Path(path))
    if not isinstance(fields, dict):
        raise ScenarioError(f"must hold fields (title, scenario, ...), got {type(fields).__name__}", path)
    raw = {**fields, "name": name or Path(path).stem, "folder": str(Path(path).parent)}
    try:
        experiment = Experiment.model_validate(raw)
    except ValidationError as error:
        faults = faults_of(error, Experiment, raw)
        raise ScenarioError(dict.fromkeys([*faults, *_further_faults(raw, faults)]), path) from None
    papers = dict.fromkeys((experiment.source.paper, *(claim.paper for claim in experiment.claims if claim.paper)))
    lists = Path(path).absolute().parents[experiment.name.count("/") + 1] / "papers"
    experiment = experiment.model_copy(update={"papers": read_papers(lists, papers)})
    if check:
        check_cells(experiment, path)
    return experiment


def check_cells(experiment: Experiment, path: str | Path, wanted: Scale | None = None) -> None:
    """Check everything that an experiment's cells, figures and claims name; `path` is that of its file.

    wanted: the scale that is to be run; None: both. Raises ScenarioError with all faults, and MissingDataError where
    data of the wanted scale are not on disk; cells of the other scale whose data are missing are not checked.
    """
    if faults := list(_large(experiment)) or _checked(experiment, wanted):
        raise ScenarioError(dict.fromkeys(faults), path)


DEFINING = {"scenario", "axes", "variants", "covered", "quick", "bounds", "targets", "pictures", "membership"}
"""Fields that other fields refer to: where one is faulty, references cannot be judged."""


def _further_faults(raw: dict[str, Any], faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults of a file's scenario and between its sound fields, where pydantic has found `faults`."""
    base = raw.get("scenario")
    of_scenario = [fault.under("scenario") for fault in _scenario_faults(base)] if isinstance(base, dict) else []
    places = {tuple((*fault.field.split("."), "")[:2]) for fault in faults}
    if any(name in DEFINING for name, _ in places):
        return of_scenario
    kept: dict[str, Any] = {"title": "", "source": {"paper": OUTSIDE}}
    numbers: dict[str, list[int]] = {}
    for name in (name for name in Experiment.model_fields if name in raw and (name, "") not in places):
        if isinstance(raw[name], list):
            numbers[name] = [at for at in range(len(raw[name])) if (name, str(at)) not in places]
            kept[name] = [raw[name][at] for at in numbers[name]]
        elif all(name != other for other, _ in places):
            kept[name] = raw[name]
    try:
        experiment = Experiment.model_validate(kept)
        found = list(_large(experiment)) or _checked(experiment, None)
    except (ValidationError, MissingDataError):
        return of_scenario
    return [_renumbered(fault, numbers) for fault in found]


def _renumbered(fault: Fault, numbers: Mapping[str, Sequence[int]]) -> Fault:
    """Return a fault with the place in the file of its list's item. numbers: list -> places of the items kept."""
    name, *rest = fault.field.split(".")
    if name not in numbers or not rest:
        return fault
    return Fault(".".join([name, str(numbers[name][int(rest[0])]), *rest[1:]]), fault.message)


def _large(experiment: Experiment) -> Iterator[Fault]:
    grids = {"axes": experiment.grid("full"), **{f"bounds.{name}": b.grid() for name, b in experiment.bounds.items()}}
    for place, grid in grids.items():
        if (number := math.prod(map(len, grid.values()))) > MOST_CELLS:
            yield Fault(place, f"must span at most {MOST_CELLS} combinations, got {number}")


def _checked(experiment: Experiment, wanted: Scale | None) -> list[Fault]:
    """Return all faults of an experiment whose fields are sound; `wanted` as for `check_cells`."""
    faults = list(_own_faults(experiment))
    if any(fault.field.startswith("quick.") for fault in faults):
        experiment = experiment.model_copy(update={"quick": {}})
    found: list[Cell] = []
    of_cells: list[Fault] = []
    if experiment.scenario is not None:
        of_cells = [fault.under("scenario") for fault in _scenario_faults(experiment.scenario)]
        for scale in () if of_cells else SCALES:
            try:
                found += cells(experiment, scale)
            except ScenarioError as error:
                of_cells += error.faults
            except MissingDataError:
                if wanted in (None, scale):
                    raise
    recorded = [(cell.recording, cell.scenario) for cell in found if cell.recording is not None]
    looks = any(len(experiment.seeds.looks(scale).at) > 1 for scale in SCALES)
    if looks and (experiment.membership or experiment.pictures):
        faults.append(Fault("seeds", "must be listed or counted, as runs are attacked after the last look"))
    if recorded and looks:
        faults.append(Fault("seeds", "must be listed or counted, as recorded runs cannot be given more"))
    else:
        faults += [Fault("recorded", fault) for fault in starmap(recording_fault, recorded) if fault is not None]
    # without all its cells an experiment may have the columns of any domain
    federations = [tuple(CATALOG)] if of_cells or not found else [cell.scenario.data.domains for cell in found]
    domains = dict.fromkeys(domain for federation in federations if len(federation) > 1 for domain in federation)
    rounds = None if of_cells else max((cell.scenario.protocol.rounds for cell in found), default=None)
    regression = bool(found) and not of_cells and not any(cell.scenario.data.classes for cell in found)
    return [*faults, *of_cells, *reference_faults(experiment, domains, rounds, regression)]


def _scenario_faults(raw: dict[str, Any]) -> tuple[Fault, ...]:
    try:
        Scenario.read(raw, check=False)
    except ScenarioError as error:
        return error.faults
    return ()


def _own_faults(experiment: Experiment) -> Iterator[Fault]:
    """Yield faults between the parts of the file: empty or doubled values, names given twice, wrong keys of `quick`."""
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
        if name in {*measured_columns("rounds"), *measured_columns("ends"), *NOT_MEASURED, *OF_TABLES}:
            yield Fault(f"variants.{name}", "is also a column of its tables; give it another name")
    for name, covered in experiment.covered.items():
        if experiment.variants.get(name) != covered.settings():
            yield Fault(f"covered.{name}", "is also a variant; give it another name")
        for field, one, other in covered.doubled():
            yield Fault(f"covered.{name}", f"factors {one} and {other} both change {field}, one would undo the other")
    names = [figure.name for figure in experiment.all_figures] + [table.name for table in experiment.tables]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Fault("figures", f"two figures or tables are named {name!r}; give each its own `name`")
    for name, value in experiment.quick.items():
        group, _, axis = name.partition(".")
        place = f"quick.{name}"
        if place_in_variant(name, experiment.variants) is not None:
            continue
        if group in ("axes", "variants"):
            known = getattr(experiment, group)
            if axis not in known:
                yield Fault(place, f"there is no {axis} among {group} ({_listed(known)})")
            elif not isinstance(value, list) or not value:
                yield Fault(place, f"must be a list of values of the axis, got {value!r}")
            else:
                for absent in [v for v in value if v not in list(known[axis])]:
                    yield Fault(place, f"{absent!r} is not among the axis's values ({_listed(known[axis])})")
        elif name in experiment.axes:
            yield Fault(place, f"is an axis; thin it with axes.{name}")


def _listed(values: Any) -> str:
    return ", ".join(map(str, values)) or "none"


def reference_faults(
    experiment: Experiment, domains: Iterable[str], rounds: int | None, regression: bool = False
) -> Iterator[Fault]:
    """Yield faults of what figures, tables, targets, claims and `seeds.cells` name.

    domains: those of the federations of its cells, where they have several. rounds: of its longest cell, None where
    that is not known. regression: whether all cells predict numbers.
    """
    grid, domains = experiment.grid("full"), tuple(domains)
    methods = () if experiment.pictures is None else experiment.pictures.methods
    columns = {}
    for table in ("rounds", "ends"):
        found = measured_columns(
            table, domains, experiment.targets, methods, membership=experiment.membership is not None
        )
        columns[table] = {name: about for name, about in found.items() if not (regression and name in OF_CLASSES)}
    for name, target in experiment.targets.items():
        start = next(start for start, unit in TARGETS.items() if unit == target.unit)
        if not (name.startswith(start) and name.isidentifier()):
            message = f"must be named {start}..., as its cost is {target.cost}; figures tell the unit by it"
            yield Fault(f"targets.{name}", message)
        if not is_known(target.column, "rounds", columns["rounds"]):
            near = hint(target.column, columns["rounds"], "columns")
            yield Fault(f"targets.{name}.column", f"there is no column {target.column}; {near}")
    for name, bounds in experiment.bounds.items():
        if message := first_fault(bounds, bounds.grid()) or "":
            yield Fault(f"bounds.{name}", message)
    figures = {"figure": experiment.figure} if experiment.figure else {}
    parts: dict[str, ExperimentPart] = {**figures}
    for place, of in (
        ("figures", experiment.figures),
        ("tables", experiment.tables),
        ("claims", experiment.claims),
        ("seeds.cells", experiment.seeds.cells),
        ("left_out", experiment.left_out),
    ):
        parts |= {f"{place}.{number}": part for number, part in enumerate(of)}
    for place, part in parts.items():
        yield from (fault.under(place) for fault in _part_faults(part, experiment, grid, columns, rounds))


def _part_faults(
    part: ExperimentPart, experiment: Experiment, grid: AxisValues, columns: Columns, rounds: int | None
) -> Iterator[Fault]:
    is_claim, is_figure = isinstance(part, ClaimBase), isinstance(part, FigureBase)
    bound = part.bound if isinstance(part, ClaimBase) else part.bound_named if isinstance(part, FigureBase) else None
    if bound is not None:
        if bound not in experiment.bounds:
            yield Fault("bound", f"{bound!r} is not among bounds; {hint(bound, experiment.bounds, 'bounds')}")
            return
        grid = experiment.bounds[bound].grid()
        if is_claim:
            columns = {table: {"bound": columns["ends"]["train_loss"]} for table in columns}
    elif experiment.scenario is None and isinstance(part, ClaimBase):
        yield Fault("bound", "is required, as the experiment has no scenario")
        return
    elif experiment.scenario is None and isinstance(part, FigureBase):
        yield Fault("kind", f"{part.kind} needs a scenario; without one only kind: bound can be drawn")
        return
    for field, axis in part.axes_named:
        if axis not in grid:
            yield Fault(field, f"there is no axis {axis}; {hint(axis, grid, 'axes')}")
    for field, axis, value in part.values_named:
        if axis in grid and value not in grid[axis]:
            yield Fault(field, f"{value!r} is not among the values of {axis}; {hint(value, grid[axis], 'values')}")
    for field, table, column in part.columns_named:
        if not is_known(column, table, columns[table]):
            yield Fault(field, f"there is no column {column}; {hint(column, columns[table], 'columns')}")
    if isinstance(part, ClaimBase):
        for name in ("paper", "sentence"):
            if getattr(part, name) and not part.printed:
                told = f"is required beside {name}: {getattr(part, name)}; name the figure, table or section"
                yield Fault("printed", told)
        for field, number in part.rounds_named if bound is None else ():
            if rounds is not None and number > rounds:
                yield Fault(field, f"there is no round {number}; the runs end at round {rounds}")
    elif is_figure or isinstance(part, Table):
        yield from _loose_axes(part, grid, "x, hue nor panels" if is_figure else "rows nor columns")
    if isinstance(part, Final) and part.bound and (message := first_fault(part.bound, part.arguments(grid))):
        yield Fault("bound", message)


def _loose_axes(part: ExperimentPart, axes: AxisValues, drawn: str) -> Iterator[Fault]:
    """Yield axes with several values that a figure or table does not show; none where one is misspelt."""
    if any(axis not in axes for _, axis in part.axes_named):
        return
    shown = {axis for field, axis in part.axes_named if field != "where"}
    for axis, values in axes.items():
        kept = sum(axis == of for _, of, _ in part.values_named) or len(values)
        if axis not in shown and kept > 1:
            yield Fault("", f"axis {axis} is neither {drawn}; name it, or fix it to one value with where")
