"""A grid of scenarios without an experiment file: what `--set field=1,5,10` stands for, and its runs."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from asyncfl.base.description import override
from asyncfl.base.errors import AsyncflError, Fault, ScenarioError, shortened
from asyncfl.base.files.yaml_text import read_text, read_yaml, write_text
from asyncfl.base.own_classes import describe_user_exception, look_for_modules_in
from asyncfl.experiments.cells import Cell, cells
from asyncfl.experiments.loading import MOST_CELLS
from asyncfl.experiments.spec import Experiment, SeedPlan, Source
from asyncfl.federation.limits import Limits
from asyncfl.scenario import Scenario


def read_axes(assignments: Sequence[str]) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """(field -> value of those that are set in all runs, field -> values of those that differ).

    Raises ScenarioError for what is no `field=value,value`, a field that comes twice, and a value that does.
    """
    fixed: dict[str, Any] = {}
    axes: dict[str, tuple[Any, ...]] = {}
    faults = []
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            faults.append(Fault("--set", f"must be field=value or field=value,value, got {shortened(assignment)!r}"))
            continue
        # the values are the items of a YAML list; nothing stands for null, as in a file
        values = read_text(f"[{text}]", f"--set {shortened(name)}") or [None]
        if name in fixed or name in axes:
            faults.append(Fault(f"--set {name}", "must be given once"))
        elif any(value in values[:place] for place, value in enumerate(values)):
            faults.append(Fault(f"--set {name}", f"must name each value once, got {shortened(text)}"))
        elif len(values) > 1:
            axes[name] = tuple(values)
        else:
            fixed[name] = values[0]
    if faults:
        raise ScenarioError(faults)
    return fixed, axes


def sweep_of(path: Path, assignments: Sequence[str], seeds: int | None = None) -> Experiment:
    """The experiment that a scenario file and its assignments stand for; its cells have not been looked at.

    `seeds`: of each run; None: those of the file. Raises ScenarioError.
    """
    look_for_modules_in(path.parent)
    fixed, axes = read_axes(assignments)
    if not axes:
        raise ScenarioError([Fault("--set", "must give at least one field several values, such as field=1,5,10")])
    base = Scenario.load(path)
    described: dict[str, Any] = dict(read_yaml(path))
    override(described, fixed)
    if "seeds" in fixed and seeds is not None:
        raise ScenarioError([Fault("--set seeds", "must be left out where --seeds is given")])
    if "seeds" in fixed:
        base = base.override({"seeds": fixed["seeds"]})
    described.pop("seeds", None)
    if (combinations := math.prod(map(len, axes.values()))) > MOST_CELLS:
        raise ScenarioError([Fault("--set", f"must stand for at most {MOST_CELLS} runs, got {combinations}")])
    own = base.seeds if seeds is None else seeds
    return Experiment(
        title=f"{path.name} over {', '.join(axes)}",
        source=Source(paper=path.stem),
        scenario=described,
        axes=axes,
        seeds=SeedPlan(quick=own, full=own),
    )


def sweep_cells(experiment: Experiment) -> list[Cell]:
    """The runs of a sweep. Raises ScenarioError with the faults of all of them, named as they were set."""
    try:
        return cells(experiment, "full")
    except ScenarioError as error:
        faults = [
            Fault(re.sub(r"^axes\.", "--set ", fault.field).removeprefix("scenario."), fault.message)
            for fault in error.faults
        ]
        raise ScenarioError(faults) from None


def to_yaml(experiment: Experiment) -> str:
    """The file of an experiment that sweeps, as `asyncfl.experiments.loading` reads it."""
    wanted = ("title", "source", "scenario", "axes", "seeds")
    whole = experiment.model_dump(mode="json", exclude_defaults=True)
    return write_text({name: whole[name] for name in wanted if name in whole})


@dataclass(frozen=True)
class Swept:
    """What became of one run of a sweep."""

    folder: Path
    seconds: float
    failed: str = ""
    """Why there is none; empty where there is."""
    was_there: bool = False


def run_all(
    scenarios: Sequence[Scenario], folder: Path, jobs: int, limits: Limits, modules_in: Path
) -> Iterator[tuple[int, Swept]]:
    """Each run as it is finished, with the place of its scenario; those of equal scenarios come together.

    Run `<digest>` is written to that folder in `folder`, unless it lies there; what fails is told and stops no other.
    `jobs`: processes that work at a time. `modules_in`: where modules of the user's own lie. Raises ScenarioError,
    before anything is computed, where a run passes the limits.
    """
    for scenario in scenarios:
        limits.check(scenario)
    places: dict[str, list[int]] = {}
    for place, scenario in enumerate(scenarios):
        places.setdefault(scenario.digest(), []).append(place)
    work = [(scenarios[of[0]].model_dump(mode="json"), folder / digest, limits) for digest, of in places.items()]
    groups = list(places.values())
    for number, swept in _worked(work, min(jobs, len(work)), modules_in):
        for place in groups[number]:
            yield place, swept


_Work = tuple[dict[str, Any], Path, Limits]


def _worked(work: Sequence[_Work], jobs: int, modules_in: Path) -> Iterator[tuple[int, Swept]]:
    if jobs <= 1:
        yield from ((number, _run(*one)) for number, one in enumerate(work))
        return
    folders = [str(Path.cwd()), str(modules_in)]
    begin: Callable[..., None] = _begin
    with ProcessPoolExecutor(jobs, get_context("spawn"), begin, (folders,)) as pool:
        waiting = {pool.submit(_run, *one): number for number, one in enumerate(work)}
        try:
            for done in as_completed(waiting):
                yield waiting[done], _result(done, work[waiting[done]][1])
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(folders: Sequence[str]) -> None:
    for folder in folders:
        look_for_modules_in(folder)


def _result(done: Future[Swept], folder: Path) -> Swept:
    """What a process made of a run; that it was killed, or had no memory, is a failure of that run alone."""
    try:
        return done.result()
    except Exception as error:
        why = "its process was killed" if isinstance(error, BrokenProcessPool) else str(error)
        return Swept(folder, 0.0, f"{type(error).__name__}: {why}")


def _run(description: dict[str, Any], folder: Path, limits: Limits) -> Swept:
    from asyncfl.api import execute
    from asyncfl.federation.storage import RunFolder

    began, failed, was_there = time.monotonic(), "", False
    try:
        scenario = Scenario.read(description)
        was_there = RunFolder(folder, scenario).is_whole()
        execute(scenario, folder, limits=limits)
    except Exception as error:
        message = str(error) if isinstance(error, AsyncflError) else describe_user_exception(error)
        if message is None:
            raise
        failed, was_there = message, False
    return Swept(folder, time.monotonic() - began, failed, was_there)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
