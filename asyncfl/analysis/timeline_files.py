"""What `asyncfl timeline --out` leaves behind: numbers, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.analysis.tables import write_csv
from asyncfl.analysis.timeline import Timeline, summary
from asyncfl.analysis.timeline_figures import draw_timeline
from asyncfl.errors import OutputError
from asyncfl.storage import write_json


def write_timeline(timelines: Sequence[Timeline], caption: str, folder: Path) -> list[Path]:
    """Writes `timeline.json`, `versions.csv`, `clients.csv`, `staleness.csv` and the figures into `folder`.

    Files of these names are replaced, others are left alone. The same timelines give the same bytes. Raises OutputError
    where the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "timeline.json", {"seeds": [summary(one) for one in timelines]})
        written = [folder / "timeline.json"]
        for name, columns in _tables(timelines).items():
            written.append(folder / f"{name}.csv")
            write_csv(pd.concat([pd.DataFrame(one) for one in columns], ignore_index=True), written[-1])
        return written + draw_timeline(timelines, caption, folder)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None


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
