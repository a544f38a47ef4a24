"""Surroundings of a workflow's job: its log, and errors as one message instead of a traceback."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from asyncfl.errors import AsyncflError
from asyncfl.experiment.code import code_digest
from asyncfl.scenario import Scenario

CODES = "code.json"
"""File of a run folder that says with what code it was computed."""


@contextlib.contextmanager
def logged(log: str | Path) -> Iterator[None]:
    """Sends what is printed to the job's log; an AsyncflError becomes its message there and on the screen, status 1."""
    path = Path(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        try:
            with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
                yield
        except AsyncflError as error:
            print(error, file=file)
            print(error, file=sys.stderr)
            sys.exit(1)
        except Exception:
            import traceback

            traceback.print_exc(file=file)
            raise


@dataclass(frozen=True)
class Codes:
    """Digests of the code that a run was computed with."""

    own: str
    """Of what this run depends on."""
    job: str
    """Of what all runs of its job depend on; the name of the run's cache."""


def publish(cache: Path, folder: Path) -> None:
    """Moves the whole run `cache/run` to `folder`, in place of what is there, and removes the run's cache.

    With it goes the code that it was computed with, see `read_codes`.
    """
    described = cache / "run" / "scenario.yaml"
    if described.is_file():
        codes = Codes(code_digest(Scenario.load(described)), cache.name)
        (cache / "run" / CODES).write_text(json.dumps(asdict(codes)), encoding="utf-8")
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
    (cache / "run").replace(folder)
    shutil.rmtree(cache.parent, ignore_errors=True)


def read_codes(folder: Path) -> Codes | None:
    """What the run in `folder` was computed with; None where it does not say, as old runs do not."""
    try:
        found = json.loads((folder / CODES).read_text(encoding="utf-8"))
        return Codes(str(found["own"]), str(found["job"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
