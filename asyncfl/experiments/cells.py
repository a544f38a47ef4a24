"""Cells of an experiment: the scenarios of its grid, and runs that were recorded instead of computed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from asyncfl.base.component import Described
from asyncfl.base.description import faults_of
from asyncfl.base.errors import AsyncflError, Fault, ScenarioError
from asyncfl.experiments.grid import points
from asyncfl.experiments.spec import Experiment, Scale, place_in_variant
from asyncfl.scenario import Scenario

KEPT = ("rounds.parquet", "clients.parquet", "spending.parquet", "summary.json", "scenario.yaml")
"""Files of a recorded run; its events too where a world is fitted to them."""


class RecordedRuns(Described):
    """Recorded runs of a label: their place, and how they were made."""

    folder: str
    """Folder of the recordings, relative to the experiment's file."""
    shape: bool = False
    """Whether clients waited as devices and links of the scenario's world say."""
    speedup: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Seconds of the scenario in a second."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Clients that trained at the same time."""

    def place(self, experiments: Path, values: dict[str, Any]) -> Path:
        """Return the folder of a cell's run. experiments: folder of the experiment's file; values: its other axes."""
        name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", str(value)) for value in values.values())
        return Path(os.path.normpath(experiments / self.folder / (name or "run")))


def recording_fault(place: Path, scenario: Scenario) -> str | None:
    """Return what is wrong with the recording at `place` of a run of this scenario; None: nothing."""
    missing = [name for name in KEPT if not (place / name).is_file()]
    if missing:
        return f"there is no recording {place} ({missing[0]} is missing); `make live` records it"
    try:
        of = Scenario.load(place / "scenario.yaml", recorded=True)
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
    """Folder of its recorded run; None: its run is computed."""

    @cached_property
    def digest(self) -> str:
        """Digest of its scenario, which names its run."""
        return self.scenario.digest()

    def folder(self, runs: Path) -> Path:
        """Return the folder of its run. runs: folder of runs that are computed."""
        return self.recording or runs / self.digest


def cells(experiment: Experiment, scale: Scale, seeds: int | None = None) -> list[Cell]:
    """Return every cell that a scale runs, the last axis running fastest; none for an experiment of bounds alone.

    seeds: how many of the plan's seeds cells have that have no seeds of their own; None: all. A look's number of them.
    Raises ScenarioError with the faults of all cells; a fault that all cells share is listed once.
    """
    if experiment.scenario is None:
        return []
    base = Scenario.read(experiment.scenario, check=False)  # a cell may mend what is wrong between its fields
    lowered = experiment.overrides(scale)
    made: list[Cell] = []
    faults: dict[Fault, None] = {}
    for values in (values for values in points(experiment.grid(scale)) if experiment.runs(values, scale)):
        changes: dict[str, Any] = {}
        for axis, value in values.items():
            changes.update(experiment.changes(axis, value, scale))
        own: Any = experiment.seeds.at(scale)[:seeds]
        if scale == "full":
            exceptions = [exception.seeds for exception in experiment.seeds.cells if exception.fits(values)]
            own = [changes.pop("seeds", own), *exceptions][-1]
        recorded = changes.pop("recorded", None)
        try:
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
        return RecordedRuns.model_validate(recorded).place(Path(experiment.folder), others)
    except ValidationError as error:
        raise ScenarioError([one.under("recorded") for one in faults_of(error, RecordedRuns, recorded)]) from None


def _placed(faults: tuple[Fault, ...], experiment: Experiment, scale: Scale) -> Iterator[Fault]:
    """Yield the faults with the place in the file that the faulty field came from."""
    places = {field: f"quick.{field}" for field in experiment.overrides(scale)}
    places |= {field: f"axes.{field}" for field in experiment.axes}
    for name, labels in experiment.variants.items():
        for label, changes in labels.items():
            places |= {field: f"variants.{name}.{label}.{field}" for field in changes}
    for name in experiment.quick if scale == "quick" else ():
        if place := place_in_variant(name, experiment.variants):
            places[place[2]] = f"quick.{name}"
    for fault in faults:
        found = [field for field in places if fault.field == field or fault.field.startswith(f"{field}.")]
        origin = max(found, key=len, default="")
        field = places[origin] + fault.field[len(origin) :] if found else f"scenario.{fault.field}"
        yield Fault(field, fault.message)
