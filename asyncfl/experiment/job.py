"""Surroundings of a workflow's job: its log, and errors as one message instead of a traceback."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from asyncfl.errors import AsyncflError


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


def publish(cache: Path, folder: Path) -> None:
    """Moves the whole run `cache/run` to `folder`, in place of what is there, and removes the run's cache."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.exists():
        shutil.rmtree(folder)
    (cache / "run").replace(folder)
    shutil.rmtree(cache.parent, ignore_errors=True)
