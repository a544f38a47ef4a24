"""Snakemake's messages as one line per experiment: a bar, runs done of all runs, and the time that is left.

Snakemake finds it by its name: `snakemake --logger asyncfl`. Failed jobs, warnings and dry runs keep Snakemake's words.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from asyncfl.base.quantities import quantity
from asyncfl.experiments.files import rule_name
from asyncfl.experiments.plan import WorkflowJob

SHOWN = (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR, LogEvent.ERROR)
"""Events that are shown in Snakemake's own words."""
BAR, WIDTH, NAME = 20, 24, 60
"""Letters of a bar, of the column of names, and of the longest name."""

_EXPECTED: list[WorkflowJob] = []
"""The jobs of this process's workflow."""


def expect(jobs: Iterable[WorkflowJob]) -> None:
    """Store the jobs of this process's workflow before it starts: Snakemake's loggers see no plan."""
    _EXPECTED[:] = jobs


class WorkflowProgress:
    """Count of finished runs. The time left follows from the estimated cost of finished and open jobs."""

    def __init__(
        self, jobs: Collection[WorkflowJob], todo: Collection[str], now: Callable[[], float] = time.monotonic
    ) -> None:
        """jobs: all of the plan. todo: names of the rules that this call will run. now: seconds of a clock."""
        self._now, self._start_s = now, now()
        self._todo = {job.name: job for job in jobs if job.name in todo}
        self._analyses = {rule_name("analysis", job.experiment): job.experiment for job in jobs}
        self._total = Counter(job.experiment for job in jobs for _ in job.digests)
        self._done = Counter(job.experiment for job in jobs for _ in job.digests if job.name not in todo)
        self._cost_s = sum(job.cost_s for job in self._todo.values())
        self._paid_s = 0.0

    @property
    def beginning(self) -> str:
        there, total = self._done.total(), self._total.total()
        return f"{there} of {total} runs are there; {len(self._todo)} jobs compute the others"

    def finished(self, rule: str) -> str | None:
        """Return the line of the experiment that a finished rule belongs to; None where it tells nothing new."""
        if rule in self._analyses:
            return f"{self._analyses[rule][:NAME]:{WIDTH}} tables, figures and verdicts are there"
        job = self._todo.pop(rule, None)
        if job is None:
            return None
        self._paid_s += job.cost_s
        name = job.experiment
        self._done[name] += len(job.digests)
        done, total = self._done[name], self._total[name]
        bar = "#" * (BAR * done // total)
        left = ""
        if self._todo and self._paid_s > 0:
            left_s = (self._now() - self._start_s) / self._paid_s * max(self._cost_s - self._paid_s, 0.0)
            left = f", about {quantity(left_s, 's')} left for all"
        return f"{name[:NAME]:{WIDTH}} [{bar:.<{BAR}}] {done} of {total} runs{left}"


class LogHandler(LogHandlerBase):
    """Writes a line to standard error whenever runs of an experiment, or its figures, are finished."""

    def __post_init__(self) -> None:
        self.progress: WorkflowProgress | None = None
        self.rules: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write the lines of a record; see `logging.Handler`."""
        for line in self.lines(record):
            print(line, file=sys.stderr, flush=True)

    def lines(self, record: Any) -> list[str]:
        """Return the lines that are written for a record."""
        event = getattr(record, "event", None)
        if self.common_settings.dryrun or event in SHOWN or (event is None and record.levelno >= logging.WARNING):
            return [self.format(record)]
        if event == LogEvent.RUN_INFO:
            self.progress = WorkflowProgress(_EXPECTED, set(record.stats))
            return [self.progress.beginning]
        if event == LogEvent.JOB_INFO:
            self.rules[int(record.jobid)] = str(record.rule_name)
        if event == LogEvent.JOB_FINISHED and self.progress is not None:
            line = self.progress.finished(self.rules.get(int(record.job_id), ""))
            return [] if line is None else [line]
        return []

    @property
    def writes_to_stream(self) -> bool:
        """Whether Snakemake's own handler is left out."""
        return True

    def _no(self) -> bool:
        return False

    # Snakemake keeps its own file and formatter, and `--quiet` counts.
    writes_to_file = has_filter = has_formatter = needs_rulegraph = property(_no)
