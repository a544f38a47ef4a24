"""A grid of scenarios without an experiment file, from assignments such as `field=1,5,10`, and its runs."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

from asyncfl.base.description import override, warn_of_left_out
from asyncfl.base.errors import AsyncflError, Fault, ScenarioError, hint, shortened
from asyncfl.base.files.yaml_text import read_text, read_yaml, write_text
from asyncfl.base.instrument import RowCallback
from asyncfl.base.interrupt_signals import InterruptSignals
from asyncfl.base.lifeline import end_with
from asyncfl.base.own_classes import describe_user_exception, look_for_modules_in
from asyncfl.base.quantities import is_number
from asyncfl.experiments.cells import Cell, cells
from asyncfl.experiments.experiment_columns import is_known, measured_columns
from asyncfl.experiments.loading import MOST_CELLS
from asyncfl.experiments.spec import Experiment, SeedPlan, Source
from asyncfl.experiments.target import Target
from asyncfl.scenario import Scenario
from asyncfl.simulation.limits import Limits

log = logging.getLogger(__name__)


def read_axes(assignments: Sequence[str]) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """Return (field -> value of those that are set in all runs, field -> values of those that differ).

    Raises ScenarioError for text that is no `field=value,value`, and for a field or a value that comes twice.
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


VARIANT = "variant"
"""Name of the axis of named variants."""


def read_variants(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return name -> changed fields of variants such as `FedBuff={protocol.kind: fedbuff, protocol.buffer: 5}`.

    Raises ScenarioError.
    """
    found: dict[str, dict[str, Any]] = {}
    faults = []
    for text in texts:
        name, equals, changes = (part.strip() for part in text.partition("="))
        fields = read_text(changes, f"--variant {shortened(name)}") if equals else None
        if not name or is_number(name) or not isinstance(fields, dict):
            told = "NAME={FIELD: VALUE, ...} with a name that is no number"
            faults.append(Fault("--variant", f"must be {told}, got {shortened(text)!r}"))
        elif name in found:
            faults.append(Fault(f"--variant {shortened(name)}", "must be given once"))
        else:
            found[name] = fields
    if faults:
        raise ScenarioError(faults)
    return found


def read_target(text: str) -> Target:
    """Return the target of `column=value`, such as `test_accuracy=.8`; losses, errors and epsilons fall towards it.

    Raises ScenarioError.
    """
    column, _, value = (part.strip() for part in text.partition("="))
    known = measured_columns("rounds")
    if not is_number(value):
        raise ScenarioError([Fault("--target", f"must be column=number, got {shortened(text)!r}")])
    if not is_known(column, "rounds", known) and not column.startswith("test_accuracy_"):
        message = f"must be a column of the table of rounds, got {shortened(column)}; {hint(column, known, 'columns')}"
        raise ScenarioError([Fault("--target", message)])
    falls = any(word in column for word in ("loss", "error", "mae", "epsilon"))
    return Target(column=column, reaches=float(value), direction="falls" if falls else "rises")


def sweep_of(
    path: Path, assignments: Sequence[str], seeds: int | None = None, variants: Sequence[str] = ()
) -> Experiment:
    """Return the experiment of a scenario file, its assignments and named variants; its cells are not checked.

    `seeds`: of each run; None: those of the file. Raises ScenarioError.
    """
    look_for_modules_in(path.parent)
    fixed, axes = read_axes(assignments)
    named = read_variants(variants)
    if not axes and len(named) < 2:
        told = "must give at least one field several values, such as field=1,5,10, or --variant two variants"
        raise ScenarioError([Fault("--set", told)])
    if "seeds" in fixed and seeds is not None:
        raise ScenarioError([Fault("--set seeds", "must be left out where --seeds is given")])
    described: Any = read_yaml(path)
    if not isinstance(described, dict):
        Scenario.read(described, path)  # says what it must be
    warn_of_left_out(fixed, override(described, fixed, Scenario))
    for name, value in ((name, value) for name, values in axes.items() if name.endswith(".kind") for value in values):
        warn_of_left_out({name: value}, override(deepcopy(described), {name: value}, Scenario))
    # A run of the sweep may mend what is wrong between fields of the file.
    base = Scenario.read(described, path, check=False)
    described.pop("seeds", None)
    if (combinations := math.prod(map(len, axes.values())) * max(1, len(named))) > MOST_CELLS:
        raise ScenarioError([Fault("--set", f"must stand for at most {MOST_CELLS} runs, got {combinations}")])
    own = base.seeds if seeds is None else seeds
    return Experiment(
        title=f"{path.name} over {', '.join([*axes, *([VARIANT] if named else [])])}",
        source=Source(paper=path.stem),
        scenario=described,
        axes=axes,
        variants={VARIANT: named} if named else {},
        seeds=SeedPlan(quick=own, full=own),
    )


_AS_SET, _AS_VARIANT = (r"^axes\.", "--set "), (rf"^variants\.{VARIANT}\.", "--variant ")
"""Pattern of a place in an experiment, and the option that it came from."""


def sweep_cells(experiment: Experiment) -> list[Cell]:
    """Return the runs of a sweep. Raises ScenarioError with the faults of all of them, named as they were set."""
    try:
        return cells(experiment, "full")
    except ScenarioError as error:
        faults = [
            Fault(re.sub(*_AS_SET, re.sub(*_AS_VARIANT, fault.field)).removeprefix("scenario."), fault.message)
            for fault in error.faults
        ]
        raise ScenarioError(faults) from None


def to_yaml(experiment: Experiment) -> str:
    """Return the file of a sweep, as `asyncfl.experiments.loading` reads it."""
    wanted = {"title", "source", "scenario", "axes", "variants", "seeds"}
    return write_text(experiment.model_dump(mode="json", exclude_defaults=True, include=wanted))


@dataclass(frozen=True)
class SweepResult:
    """Outcome of one run of a sweep."""

    folder: Path
    seconds: float
    failed: str = ""
    """Reason of its failure; empty where it is whole."""
    was_there: bool = False


def run_all(
    scenarios: Sequence[Scenario],
    folder: Path,
    jobs: int,
    limits: Limits,
    modules_in: Path,
    progress: RunProgress | None = None,
) -> Iterator[tuple[int, SweepResult]]:
    """Yield each run as it is finished, with the place of its scenario; those of equal scenarios come together.

    A run is written to `folder/<digest>`, unless it lies there; one that fails stops no other. `jobs`: processes that
    work at a time. `modules_in`: folder of the user's own modules. `progress`: called, in a thread of its own where
    there are several processes, with a run's folder and rows of its table of rounds. Raises ScenarioError, before
    anything is computed, where a run passes the limits.
    """
    for scenario in scenarios:
        limits.check(scenario)
    places: dict[str, list[int]] = {}
    for place, scenario in enumerate(scenarios):
        places.setdefault(scenario.digest(), []).append(place)
    work = {
        digest: (scenarios[of[0]].model_dump(mode="json"), folder / digest, limits) for digest, of in places.items()
    }
    for digest, swept in _worked(work, min(jobs, len(work)), modules_in, progress):
        yield from ((place, swept) for place in places[digest])


RunProgress = Callable[[Path, dict[str, Any]], None]
_Work = tuple[dict[str, Any], Path, Limits]


def _worked(
    work: Mapping[str, _Work], jobs: int, modules_in: Path, progress: RunProgress | None
) -> Iterator[tuple[str, SweepResult]]:
    if jobs <= 1:
        yield from ((digest, _run(*one, progress=progress)) for digest, one in work.items())
        return
    with _rows_received(progress) as rows, InterruptSignals():
        given = (str(Path.cwd()), str(modules_in), rows)
        lost = yield from _in_pool(work, jobs, given)
        # A process that is killed, perhaps for its memory, takes its pool with it: now each run has one of its own.
        for digest in lost:
            if (yield from _in_pool({digest: work[digest]}, 1, given)):
                yield digest, SweepResult(work[digest][1], 0.0, f"{BrokenProcessPool.__name__}: its process was killed")


def _in_pool(
    work: Mapping[str, _Work], jobs: int, given: tuple[Any, ...]
) -> Generator[tuple[str, SweepResult], None, list[str]]:
    """Yield runs as processes finish them; return those that were not finished, as a process was killed."""
    begin: Callable[..., None] = _begin
    lost, context = [], get_context("spawn")
    reader, lifeline = context.Pipe(duplex=False)
    with lifeline, reader, ProcessPoolExecutor(jobs, context, begin, (reader, *given)) as pool:
        waiting = {pool.submit(_run_in_worker, *one): digest for digest, one in work.items()}
        try:
            for done in as_completed(waiting):
                digest = waiting[done]
                try:
                    swept = done.result()
                except BrokenProcessPool:
                    lost.append(digest)
                    continue
                except Exception as error:  # it had no memory, for one: a failure of that run alone
                    swept = SweepResult(work[digest][1], 0.0, f"{type(error).__name__}: {error}")
                yield digest, swept
        except (KeyboardInterrupt, GeneratorExit):  # the second: it came where the runs are taken
            for process in active_children():
                with suppress(OSError):  # ended meanwhile
                    os.kill(process.pid or 0, signal.SIGINT)
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return sorted(lost, key=list(work).index)


SHOWN = ("seed", "version", "time_s", "train_loss", "test_loss")
"""Columns of the rows that a worker sends: few, so that a message is one atomic write to the pipe of all workers."""
EVERY_S = 0.1
"""Seconds between rows that a worker sends, at least."""


@contextmanager
def _rows_received(progress: RunProgress | None) -> Iterator[Connection | None]:
    """Yield the end of a pipe to which workers send (folder, row), each of which `progress` is called with."""
    if progress is None:
        yield None
        return
    received, sent = get_context("spawn").Pipe(duplex=False)
    ended = Event()

    def receive() -> None:
        shown = True
        while received.poll(EVERY_S) or not ended.is_set():
            if received.poll():
                row = received.recv()
                try:
                    if shown:
                        progress(*row)
                except Exception as error:  # rows that nobody received would hold up the workers
                    shown = False
                    log.warning("progress is no longer shown: %s: %s", type(error).__name__, error)

    thread = Thread(target=receive, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join()


_rows: Connection | None = None
"""Where this worker sends rows; None: nowhere."""


def _begin(lifeline: Connection, *received: Any) -> None:
    global _rows
    end_with(lifeline)
    *folders, _rows = received
    for folder in folders:
        look_for_modules_in(folder)


def _send_rows(rows: Connection) -> RunProgress:
    last = -math.inf

    def send(folder: Path, row: dict[str, Any]) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY_S:
            last = time.monotonic()
            with suppress(OSError):  # nobody reads any more
                rows.send((folder, {name: row[name] for name in SHOWN}))

    return send


_interrupted = False
"""Whether this worker was interrupted: it begins no further run."""


def _run_in_worker(description: dict[str, Any], folder: Path, limits: Limits) -> SweepResult:
    global _interrupted
    if not _interrupted:
        try:
            return _run(description, folder, limits, None if _rows is None else _send_rows(_rows))
        except KeyboardInterrupt:
            _interrupted = True
    return SweepResult(folder, 0.0, "interrupted")


def _run(description: dict[str, Any], folder: Path, limits: Limits, progress: RunProgress | None = None) -> SweepResult:
    from asyncfl.api import execute
    from asyncfl.results.storage import RunFolder

    began, failed, was_there = time.monotonic(), "", False
    try:
        scenario = Scenario.read(description)
        was_there = RunFolder(folder, scenario).is_whole()
        execute(scenario, folder, [] if progress is None else [RowCallback(partial(progress, folder))], limits=limits)
    except Exception as error:
        message = str(error) if isinstance(error, AsyncflError) else describe_user_exception(error)
        if message is None:
            raise
        failed, was_there = message, False
    return SweepResult(folder, time.monotonic() - began, failed, was_there)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
