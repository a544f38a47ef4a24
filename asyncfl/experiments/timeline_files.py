"""What `asyncfl timeline --out` leaves behind: numbers, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.base.files.own_folder import OwnFolder, write_json
from asyncfl.experiments.run_tables import write_csv
from asyncfl.experiments.timeline import Timeline, summary
from asyncfl.experiments.timeline_figures import draw_timeline

SUMMARY = "timeline.json"
"""The numbers; the file without which a folder holds no timeline."""


def write_timeline(timelines: Sequence[Timeline], caption: str, folder: Path, scenario: str) -> list[Path]:
    """Writes `timeline.json`, `versions.csv`, `clients.csv`, `staleness.csv` and the figures into `folder`.

    The folder must be new or empty, or hold a timeline, which is replaced; `scenario` is the digest of the timelines'
    scenario. The same timelines give the same bytes. Raises OutputError where the folder cannot be written.
    """
    written: list[Path] = []

    def write(into: Path) -> None:
        write_json({"seeds": [summary(one) for one in timelines]}, into / SUMMARY)
        written.append(into / SUMMARY)
        for name, columns in _tables(timelines).items():
            written.append(into / f"{name}.csv")
            write_csv(pd.concat([pd.DataFrame(one) for one in columns], ignore_index=True), written[-1])
        written.extend(draw_timeline(timelines, caption, into))

    own = timeline_folder(folder, scenario)
    with own.working(force=True) as area:
        own.replace(area, write, SUMMARY)
    return [folder / path.name for path in written]


def timeline_folder(folder: Path, scenario: str) -> OwnFolder:
    """The folder for the timeline of the scenario with this digest."""
    return OwnFolder(folder, "timeline", scenario)


def _tables(timelines: Sequence[Timeline]) -> dict[str, list[dict[str, Any]]]:
    return {
        "versions": [
            {
                "seed": one.seed,
                "version": np.arange(one.versions + 1),
                "time_s": one.published_s,
                "bytes_up": one.bytes_up,
                "bytes_down": one.bytes_down,
            }
            for one in timelines
        ],
        "clients": [
            {
                "seed": one.seed,
                "client": np.arange(len(one.tasks)),
                "tasks": one.tasks,
                "exposures_up": one.exposures_up,
                "exposures_down": one.exposures_down,
            }
            for one in timelines
        ],
        "staleness": [
            {"seed": one.seed, "staleness": np.arange(len(one.staleness)), "updates": one.staleness}
            for one in timelines
        ],
    }
