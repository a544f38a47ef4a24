"""Instruments: whatever follows a run while it is computed. Each method is called at one moment of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from asyncfl.client import Assignment, Batch
    from asyncfl.defences import Buffer, Verdict
    from asyncfl.privacy import Contribution
    from asyncfl.protocol.messages import BufferVerdict, Publish
    from asyncfl.protocol.model_step import ModelStep
    from asyncfl.results.storage import Run
    from asyncfl.simulation.action_executor import Traffic
    from asyncfl.simulation.prepare import Federation
    from asyncfl.simulation.seed_run import SeedRun

Part = TypeVar("Part")
Row: TypeAlias = dict[str, Any]
"""A row of the table of rounds."""
PartialTables: TypeAlias = "Callable[[], Mapping[str, pa.Table]]"
"""Function that returns the tables `rounds`, `events` and `tasks` of a seed so far."""


class Instrument:
    """Base class of everything that follows a run: progress bars, trackers, audits. Its methods do nothing.

    Override the moments you need. An instrument changes no argument and uses no random stream of the run, so a run
    has the same results with and without it.
    """

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """Begin a run, or the reading of a finished one. `name`: 16 hexadecimal digits; `scenario`: plain values."""

    def begin_seed(self, federation: Federation) -> None:
        """Begin a seed, whose data are drawn. A seed that diverged late begins twice."""

    def trained(self, assignment: Assignment, contribution: Contribution, attacked: bool) -> None:
        """Receive a task that was trained ahead of its collection, because the scheme needs every task."""

    def collected(self, batch: Batch) -> None:
        """Receive the uploads of a buffer, all stages done, before the privacy scheme updates its state."""

    def aggregated(self, buffer: Buffer, tasks: tuple[int, ...], verdict: Verdict, step: ModelStep) -> None:
        """Receive an aggregated buffer. `tasks`: of its updates; `step`: leads to the next model."""

    def judged(self, judged: BufferVerdict) -> None:
        """Receive a verdict of the detector."""

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> str | None:
        """Receive a version when it is published. The recorder of rounds returns a reason to stop a run that diverges;
        what other instruments return is ignored."""

    def row(self, row: Mapping[str, Any]) -> None:
        """Receive a published version as a row of `rounds`, see `docs/columns.md`. NaN: not measured.

        Rows come seed after seed, in order of `version`; they begin again if a seed diverged late.
        """

    def so_far(self, version: int, tables: PartialTables) -> None:
        """Receive the tables of a seed up to an evaluated version. `tables`: computes them when it is called."""

    def progress(self, what: str, done: int, of: int | None) -> None:
        """Receive the progress of a long computation: its name, parts done, parts in all (None: unknown)."""

    def end_seed(self, run: SeedRun) -> None:
        """Receive the results of a seed."""

    def complete(self, result: SeedRun, run: Run) -> None:
        """Receive the run of a seed, all tables made. An audit adds what it found to `run`, which nothing else does."""

    def end(self, summary: Mapping[str, Any]) -> None:
        """Receive the summary of the complete run, the content of `summary.json`."""

    def close(self) -> None:
        """Release resources. Called last, also after an interrupted run."""


NO_INSTRUMENT = Instrument()
"""Instrument that ignores everything."""


class Instruments(Instrument):
    """Several instruments of one run, called one after another."""

    def __init__(self, instruments: Iterable[Instrument]) -> None:
        self._instruments = list(instruments)

    def __bool__(self) -> bool:
        return bool(self._instruments)

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        self._call(lambda one: one.begin(name, scenario))

    def begin_seed(self, federation: Federation) -> None:
        self._call(lambda one: one.begin_seed(federation))

    def trained(self, assignment: Assignment, contribution: Contribution, attacked: bool) -> None:
        self._call(lambda one: one.trained(assignment, contribution, attacked))

    def collected(self, batch: Batch) -> None:
        self._call(lambda one: one.collected(batch))

    def aggregated(self, buffer: Buffer, tasks: tuple[int, ...], verdict: Verdict, step: ModelStep) -> None:
        self._call(lambda one: one.aggregated(buffer, tasks, verdict, step))

    def judged(self, judged: BufferVerdict) -> None:
        self._call(lambda one: one.judged(judged))

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> None:
        self._call(lambda one: one.published(time_s, publish, traffic))

    def row(self, row: Mapping[str, Any]) -> None:
        self._call(lambda one: one.row(row))

    def so_far(self, version: int, tables: PartialTables) -> None:
        self._call(lambda one: one.so_far(version, tables))

    def progress(self, what: str, done: int, of: int | None) -> None:
        self._call(lambda one: one.progress(what, done, of))

    def end_seed(self, run: SeedRun) -> None:
        self._call(lambda one: one.end_seed(run))

    def complete(self, result: SeedRun, run: Run) -> None:
        self._call(lambda one: one.complete(result, run))

    def end(self, summary: Mapping[str, Any]) -> None:
        self._call(lambda one: one.end(summary))

    def close(self) -> None:
        """Close all, also if one of them raises."""
        with ExitStack() as stack:
            for one in reversed(self._instruments):
                stack.callback(one.close)

    def _call(self, call: Callable[[Instrument], object]) -> None:
        for one in self._instruments:
            call(one)


class RowCallback(Instrument):
    """Instrument that calls a function with each row of the table of rounds."""

    def __init__(self, function: Callable[[Row], object]) -> None:
        self._function = function

    def row(self, row: Mapping[str, Any]) -> None:
        self._function(dict(row))


def one_by_one(parts: Sequence[Part], instrument: Instrument, what: str) -> Iterator[Part]:
    """Yield `parts` one after another, reporting progress before the first and after each.

    what: name of the computation, for the report.
    """
    instrument.progress(what, 0, len(parts))
    for done, part in enumerate(parts, start=1):
        yield part
        instrument.progress(what, done, len(parts))
