"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

LARGEST = 2**63 - 1
"""Largest integer that a table of a run can hold."""

RunFolder: TypeAlias = Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN", show_default=False)]
Seed: TypeAlias = Annotated[
    int | None, typer.Option(help="Use this seed only. Default: all seeds of the run.", min=0, max=LARGEST)
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")]
