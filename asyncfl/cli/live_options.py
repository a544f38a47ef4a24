"""Options that the servers of `asyncfl live` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Out: TypeAlias = Annotated[
    Path | None, typer.Option(help="folder to write, new or empty; default: results/live/<time>")
]
Assignments: TypeAlias = Annotated[list[str] | None, typer.Option("--set", help="field=value, e.g. protocol.rounds=20")]
Shape: TypeAlias = Annotated[
    bool, typer.Option("--shape", help="clients wait as devices and links of the scenario's world say")
]
Speedup: TypeAlias = Annotated[float, typer.Option(help="seconds of the scenario in a second", min=0.001, max=1e6)]
