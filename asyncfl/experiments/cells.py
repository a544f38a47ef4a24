"""Cells of an experiment: the scenarios of its grid, and runs that were recorded instead of computed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from asyncfl.base.component import Described
from asyncfl.base.description import faults_of
from asyncfl.base.errors import AsyncflError, Fault, ScenarioError
from asyncfl.experiments.spec import Experiment, Scale, place_in_variant
from asyncfl.scenario import Scenario

KEPT = ("rounds.parquet", "clients.parquet", "spending.parquet", "summary.json", "scenario.yaml")
"""Files of a recorded run; its events too where a world is fitted to them."""


class Recorded(Described):
    """Where the runs of a label lie that were recorded, and how they were made."""

    folder: str
    """Folder of the recordings, relative to the experiment's file."""
    shape: bool = False
    """Whether clients waited as devices and links of the scenario's world say."""
    speedup: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Seconds of the scenario in a second."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Clients that trained at the same time."""

    def place(self, experiments: Path, values: dict[str, Any]) -> Path:
        """Folder of the run of a cell. experiments: folder of the experiment's file; values: its other axes."""
        name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", str(value)) for value in values.values())
        return Path(os.path.normpath(experiments / self.folder / (name or "run")))


def recording_fault(place: Path, scenario: Scenario) -> str | None:
    """What is wrong with the recording at `place` of a run of this scenario; None: nothing."""
    missing = [name for name in KEPT if not (place / name).is_file()]
    if missing:
        return f"there is no recording {place} ({missing[0]} is missing); `make live` records it"
    try:
        of = Scenario.load(place / "scenario.yaml")
    except AsyncflError as error:
        return f"{place} cannot be read: {error}"
    if of.digest() != scenario.digest():
        return f"{place} was recorded of another scenario; `make live` records it anew"
    return None


@dataclass(frozen=True)
class Cell:
    """One point of the grid: axis (or variant) -> value (or label), and the scenario there."""

    values: dict[str, Any]
    scenario: Scenario
    recording: Path | None = None
    """Folder of its run, where that was recorded; None: it is computed."""

    def folder(self, runs: Path, digest: str) -> Path:
        """Where its run lies. runs: folder of runs that are computed; digest: of its scenario."""
        return runs / digest if self.recording is None else self.recording


def cells(experiment: Experiment, scale: Scale, seeds: int | None = None) -> list[Cell]:
    """Every cell that a scale runs, the last axis running fastest; none for an experiment of bounds alone.

    seeds: how many of the plan's seeds cells have that have no seeds of their own; None: all. A look's number of them.
    Raises ScenarioError with the faults of all cells; a fault that all cells share is listed once.
    """
    if experiment.scenario is None:
        return []
    base = Scenario.read(experiment.scenario)
    lowered = experiment.overrides(scale)
    made: list[Cell] = []
    faults: dict[Fault, None] = {}
    for values, changes in points(experiment, scale):
        if not experiment.runs(values, scale):
            continue
        try:
            own: int | tuple[int, ...] = experiment.seeds.at(scale)[:seeds]
            if scale == "full":
                own = changes.pop("seeds", own)
                for exception in experiment.seeds.cells:
                    own = exception.seeds if exception.fits(values) else own
            recorded = changes.pop("recorded", None)
            scenario = base.override({**lowered, **changes, "seeds": own})
            made.append(Cell(values, scenario, _recording(experiment, values, recorded)))
        except ScenarioError as error:
            faults.update(dict.fromkeys(_placed(error.faults, experiment, scale)))
    if faults:
        raise ScenarioError(faults)
    return made


def _recording(experiment: Experiment, values: dict[str, Any], recorded: Any) -> Path | None:
    if recorded is None:
        return None
    others = {axis: v for axis, v in values.items() if "recorded" not in experiment.changes(axis, v, "full")}
    try:
        return Recorded.model_validate(recorded).place(Path(experiment.folder), others)
    except ValidationError as error:
        raise ScenarioError([one.under("recorded") for one in faults_of(error, Recorded, recorded)]) from None


def points(experiment: Experiment, scale: Scale) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(axis -> value or label, dotted field -> value) of each point of the grid."""
    grid = experiment.grid(scale)
    for combination in product(*grid.values()):
        values = dict(zip(grid, combination, strict=True))
        changes: dict[str, Any] = {}
        for name, value in values.items():
            changes.update(experiment.changes(name, value, scale))
        yield values, changes


def _placed(faults: tuple[Fault, ...], experiment: Experiment, scale: Scale) -> Iterator[Fault]:
    """The faults with the place in the file that the faulty field came from."""
    from_axes = {field: f"axes.{field}" for field in experiment.axes}
    for name, labels in experiment.variants.items():
        for label, changes in labels.items():
            from_axes.update({field: f"variants.{name}.{label}.{field}" for field in changes})
    if scale == "quick":
        for name in experiment.quick:
            place = place_in_variant(name, experiment.variants)
            from_axes.update({} if place is None else {place[2]: f"quick.{name}"})
    from_quick = {field: f"quick.{field}" for field in experiment.overrides(scale)}
    places = {**from_quick, **from_axes}
    for fault in faults:
        found = [field for field in places if fault.field == field or fault.field.startswith(f"{field}.")]
        origin = max(found, key=len, default=None)
        field = f"scenario.{fault.field}" if origin is None else places[origin] + fault.field[len(origin) :]
        yield Fault(field, fault.message)
