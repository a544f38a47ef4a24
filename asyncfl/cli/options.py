"""Arguments and options that several commands share, and how these are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer

from asyncfl.base.errors import Fault, ScenarioError

if TYPE_CHECKING:
    from asyncfl.federation.storage import Run

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
WorldFile: TypeAlias = Annotated[
    Path | None, typer.Option(help="File of a world that replaces the scenario's, e.g. from asyncfl calibrate.")
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


def limit_threads(threads: int = 1) -> None:
    """Limit BLAS and OpenMP, unless the environment does. Call it before torch is imported, which sizes its pools."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, str(threads))


def load_run(folder: Path, seed: int | None = None, own_code: bool = False) -> Run:
    """Load a run; `own_code` as for `Run.load`. Raises RunError, and ScenarioError if it lacks `seed`."""
    from asyncfl.federation.storage import Run

    run = Run.load(folder, own_code)
    seeds = sorted(map(int, run.summary["seeds"]))
    if seed is not None and seed not in seeds:
        known = ", ".join(map(str, seeds))
        raise ScenarioError([Fault("--seed", f"must be one of the run's ({known}), got {seed}")])
    return run
