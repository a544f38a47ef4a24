"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import typer

LARGEST = 2**63 - 1
"""Largest integer that a table of a run can hold."""

Number = TypeVar("Number", int | None, list[int] | None)


def at_most_int64(value: Number) -> Number:
    """Return the value of an option unchanged. Raises typer.BadParameter if a table of a run cannot hold it."""
    if any(one > LARGEST for one in (value if isinstance(value, list) else [value or 0])):
        raise typer.BadParameter(f"must be at most {LARGEST}")
    return value


ScenarioFile: TypeAlias = Annotated[Path, typer.Argument(help="YAML file of a scenario.", metavar="SCENARIO")]
RunFolder: TypeAlias = Annotated[Path, typer.Argument(help="Folder of a run.", metavar="RUN", show_default=False)]
Assignments: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a field, e.g. privacy.epsilon=60. May be repeated.", metavar="FIELD=VALUE"),
]
Seed: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Use this seed only. Default: all seeds of the run.", min=0, callback=at_most_int64),
]
MaxHours: TypeAlias = Annotated[
    float, typer.Option(help="Refuse a run with a longer estimated duration, in hours on one core.", min=0)
]
MaxGib: TypeAlias = Annotated[float, typer.Option(help="Refuse a run with a larger estimated memory, in GiB.", min=0)]
Threads: TypeAlias = Annotated[int, typer.Option(help="Threads for the training of a run.", min=1)]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")]
