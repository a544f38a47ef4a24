"""Printing and saving for all commands of `asyncfl live`."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncfl.base.quantities import quantity
from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import print_summary
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from asyncfl.federation.storage import Run


def limit_threads() -> None:
    """Limit BLAS and OpenMP to one thread per client. Call it before torch is imported."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


class _PrintHandler(logging.Handler):
    """Logging handler that prints to standard output."""

    def emit(self, record: logging.LogRecord) -> None:
        print_text(record.getMessage())


def print_log(quiet: bool) -> None:
    """Print the log of a live server: warnings, and unless `quiet` each client that connects or disconnects."""
    log = logging.getLogger("asyncfl.live")
    log.handlers = [_PrintHandler()]
    log.propagate = False
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def save_seeds(scenario: Scenario, parts: Sequence[Run], folder: Path) -> Run:
    """Gather the finished seeds into one run, write it into `folder`, and return it.

    Called after each seed, so that a later seed's failure does not lose the earlier ones.

    Args:
        scenario: Scenario of all seeds.
        parts: One run for each finished seed.
        folder: Folder of the run; an earlier run of fewer seeds in it is replaced.
    """
    from asyncfl.api import gather
    from asyncfl.federation.storage import LIVE

    result = gather(scenario, parts)
    result.save(folder, holds=LIVE)
    return result


def print_result(result: Run, folder: Path) -> None:
    """Print the final values of a run, and its folder."""
    print_summary(result)
    console.print(f"{folder} written")


def print_version(row: dict[str, Any], in_flight: int) -> None:
    """Print one line for a model version; `row` is of the table of rounds."""
    name, label = ("test_r2", "R²") if "test_r2" in row else ("test_accuracy", "accuracy")
    quality, staleness = row[name], row["staleness_mean"]
    print_text(
        f"version {row['version']}  {quantity(row['time_s'], 's')}  "
        f"{label} {'-' if math.isnan(quality) else f'{quality:.3f}'}  "
        f"staleness {'-' if math.isnan(staleness) else f'{staleness:.1f} versions'}  "
        f"{in_flight} in flight  {quantity(row['bytes_up'], 'bytes')} up  {quantity(row['bytes_down'], 'bytes')} down"
    )
