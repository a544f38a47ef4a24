"""What all of `asyncfl live` has in common: how it ends, what it prints, what it writes."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncfl.cli.output import console, print_text
from asyncfl.cli.run import report
from asyncfl.quantities import quantity
from asyncfl.scenario import Scenario

if TYPE_CHECKING:
    from asyncfl.storage import Run


def limit_threads() -> None:
    """Have those who train beside each other do so on one thread each; before torch is imported."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")


class _Printed(logging.Handler):
    """Prints what is logged, among all else that is printed."""

    def emit(self, record: logging.LogRecord) -> None:
        print_text(record.getMessage())


def print_log(quiet: bool) -> None:
    """Print what a live server logs: who comes and goes unless it is to be `quiet`, and what goes wrong."""
    log = logging.getLogger("asyncfl.live")
    log.handlers = [_Printed()]
    log.propagate = False
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def save_seeds(scenario: Scenario, parts: Sequence[Run], folder: Path) -> Run:
    """The run of these seeds, written: what happened in real time is not lost with a seed that fails later."""
    from asyncfl.api import gather
    from asyncfl.storage import LIVE

    result = gather(scenario, parts)
    result.save(folder, holds=LIVE)
    return result


def print_result(result: Run, folder: Path) -> None:
    """Print what came out, and where it is."""
    report(result)
    console.print(f"{folder} written")


def print_version(row: dict[str, Any], in_flight: int) -> None:
    """A line for a version."""
    name, said = ("test_r2", "R²") if "test_r2" in row else ("test_accuracy", "accuracy")
    quality, staleness = row[name], row["staleness_mean"]
    print_text(
        f"version {row['version']}  {quantity(row['time_s'], 's')}  "
        f"{said} {'-' if math.isnan(quality) else f'{quality:.3f}'}  "
        f"staleness {'-' if math.isnan(staleness) else f'{staleness:.1f} versions'}  "
        f"{in_flight} in flight  {quantity(row['bytes_up'], 'bytes')} up  {quantity(row['bytes_down'], 'bytes')} down"
    )
