"""Arguments, options and groups of commands that several commands share."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import typer
from typer.core import TyperGroup

from asyncfl.base.errors import Fault, RunError, ScenarioError, shortened
from asyncfl.base.own_classes import look_for_modules_in

if TYPE_CHECKING:
    from asyncfl.results.storage import Run

LARGEST = 2**63 - 1
"""Largest integer that a table of a run can hold."""

Number = TypeVar("Number", int | None, list[int] | None)


def argument(metavar: str, text: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=text, **more)


def option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, **more)


def integer(text: str, *names: str, least: int = 0, **more: Any) -> Any:
    """Return an option for integers of `least` to 64 bits."""
    return option(text, *names, min=least, callback=at_most_int64, **more)


def at_most_int64(value: Number) -> Number:
    """Return the value of an option unchanged. Raises typer.BadParameter if a table of a run cannot hold it."""
    if any(one > LARGEST for one in (value if isinstance(value, list) else [value or 0])):
        raise typer.BadParameter(f"must be at most {LARGEST}")
    return value


def number(text: str, *names: str, **more: Any) -> Any:
    """Return an option for numbers other than NaN."""
    return option(text, *names, callback=not_nan, **more)


def not_nan(value: float | None) -> float | None:
    """Return the value of an option unchanged. Raises typer.BadParameter for NaN, which passes every other check."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("must be a number, got nan")
    return value


ScenarioFile: TypeAlias = Annotated[Path, argument("SCENARIO", "YAML file of a scenario.")]
RunFolder: TypeAlias = Annotated[Path, argument("RUN", "Folder of a run.", show_default=False)]
Assignments: TypeAlias = Annotated[
    list[str] | None,
    option("Change a field, e.g. training.lr=0.1. May be repeated.", "--set", metavar="FIELD=VALUE"),
]
WorldFile: TypeAlias = Annotated[Path | None, option("World that replaces the scenario's, see asyncfl calibrate.")]
Seed: TypeAlias = Annotated[int | None, integer("Use this seed only. Default: all seeds of the run.")]
OwnCode: TypeAlias = Annotated[
    bool,
    option("Run code that is not part of asyncfl and that the run's scenario names (also from RUN).", "--own-code"),
]
MaxHours: TypeAlias = Annotated[
    float, number("Refuse a run that would surely take longer, in hours on one core.", min=0)
]
MaxGib: TypeAlias = Annotated[float, number("Refuse a run with a larger estimated memory, in GiB.", min=0)]
Threads: TypeAlias = Annotated[int, option("Threads for the training of a run.", min=1)]
Adversary: TypeAlias = Annotated[
    Literal["eavesdropper", "server"], option("Adversary that attacks. The server holds all uploads.")
]
Force: TypeAlias = Annotated[bool, option("Replace existing files.", "--force")]
Json: TypeAlias = Annotated[bool, option("Print JSON.", "--json")]
Quiet: TypeAlias = Annotated[bool, option("Show no progress bar.", "--quiet")]


class CommandGroup(TyperGroup):
    """A group of commands whose help is broken at the width of the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "suggest_commands": False})  # click names the nearest command itself
        for command in self.commands.values():
            command.help = with_whole_paragraphs(command.help)


def with_whole_paragraphs(text: str | None) -> str:
    """Return a help with each paragraph on one line, so that the terminal breaks it at its own width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def limit_threads(threads: int = 1) -> None:
    """Limit BLAS and OpenMP, unless the environment does. Call it before torch is imported, which sizes its pools."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, str(threads))


def read_assignments(assignments: list[str]) -> dict[str, Any]:
    """Return field -> value of `field=value` assignments. Raises ScenarioError."""
    # YAML is a tenth of what `asyncfl --help` would import.
    from asyncfl.base.files.yaml_text import read_text

    changes: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name.strip() and equals):
            raise ScenarioError([Fault("--set", f"must be field=value, got {assignment!r}")])
        changes[name.strip()] = read_text(value, f"--set {shortened(name)}")
    return changes


def check_own_code(run: Run) -> None:
    """Raise RunError where a run cannot be repeated, as its scenario names a removed kind or the user's own code."""
    from asyncfl.results.run_files import is_read_in_part, removed_kind

    if removed := removed_kind(run.scenario):
        raise RunError(f"the run can be read, but not repeated: its scenario names kind {removed}, which was removed")
    if is_read_in_part(run.scenario):
        raise RunError(
            "the scenario of the run names code that is not part of asyncfl, and repeating the run would execute it; "
            "if you trust it, give --own-code"
        )


def load_run(folder: Path, seed: int | None = None, own_code: bool = False) -> Run:
    """Load a run; `own_code` as for `Run.load`. Raises RunError, and ScenarioError if it lacks `seed`."""
    from asyncfl.results.storage import Run

    if own_code:
        look_for_modules_in(folder)
    run = Run.load(folder, own_code)
    seeds = sorted(map(int, run.summary["seeds"]))
    if seed is not None and seed not in seeds:
        raise ScenarioError([Fault("--seed", f"must be one of the run's ({', '.join(map(str, seeds))}), got {seed}")])
    return run
