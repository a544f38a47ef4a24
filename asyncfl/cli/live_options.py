"""Options that the servers of `asyncfl live` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Out: TypeAlias = Annotated[Path | None, typer.Option(help="Folder to write: new or empty. Default: results/live/TIME.")]
Shape: TypeAlias = Annotated[
    bool, typer.Option("--shape", help="Slow clients down to the devices and links of the scenario's world.")
]
Speedup: TypeAlias = Annotated[float, typer.Option(help="Seconds of the scenario per real second.", min=0.001, max=1e6)]
