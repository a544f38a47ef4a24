"""Cells whose runs were recorded: live ones, which take hours, and which nobody can repeat to the last bit.

A label of a variant says `recorded: {folder: ..., ...}`. Its cells are not computed: their runs lie in that folder, one
folder for each, and are committed with the experiment. What is in them is what `asyncfl live` wrote.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.errors import AsyncflError
from asyncfl.scenario import Scenario

KEPT = ("rounds.parquet", "clients.parquet", "spending.parquet", "summary.json", "scenario.yaml")
"""Files of a recorded run; its events too where a world is fitted to them."""


class Recorded(Described):
    """Where the runs of a label lie that were recorded, and how they were made."""

    folder: str
    """Folder of the recordings, relative to the experiment's file."""
    shape: bool = False
    """Whether clients waited as devices and links of the scenario's world say."""
    speedup: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Seconds of the scenario in a second."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Clients that trained at the same time."""

    def place(self, experiments: Path, values: dict[str, Any]) -> Path:
        """Folder of the run of a cell. experiments: folder of the experiment's file; values: its other axes."""
        name = "-".join(re.sub(r"[^A-Za-z0-9.]+", "_", str(value)) for value in values.values())
        return Path(os.path.normpath(experiments / self.folder / (name or "run")))


def recording_fault(place: Path, scenario: Scenario) -> str | None:
    """What is wrong with the recording at `place` of a run of this scenario; None: nothing."""
    missing = [name for name in KEPT if not (place / name).is_file()]
    if missing:
        return f"there is no recording {place} ({missing[0]} is missing); `make live` records it"
    try:
        of = Scenario.load(place / "scenario.yaml")
    except AsyncflError as error:
        return f"{place} cannot be read: {error}"
    if of.digest() != scenario.digest():
        return f"{place} was recorded of another scenario; `make live` records it anew"
    return None
