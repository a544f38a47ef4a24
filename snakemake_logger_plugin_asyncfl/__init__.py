"""Snakemake's messages as one line per experiment; found by its name: `snakemake --logger asyncfl`.

Failed jobs, warnings and dry runs are told as Snakemake tells them.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from asyncfl.experiments.progress import WorkflowProgress, expected

SHOWN = (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR, LogEvent.ERROR)
"""Events that are shown in Snakemake's own words."""


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
            self.progress = WorkflowProgress(expected(), set(record.stats))
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
