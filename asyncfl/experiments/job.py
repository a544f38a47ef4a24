"""Surroundings of a workflow's job: its log, and errors as one message instead of a traceback."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from asyncfl.base.errors import AsyncflError
from asyncfl.base.files.own_folder import write_json
from asyncfl.results.storage import COMPLETE, RunFolder

CODES = "code.json"
"""File of a run folder with the code that it was computed with, and where."""
ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def logged(log: str | Path) -> Iterator[None]:
    """Send printed text to the job's log; an AsyncflError becomes its message there and on the screen, status 1."""
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
    """The code that a run was computed with, and where."""

    own: str
    """Digest of the code of this run."""
    job: str
    """Digest of the code of all runs of its job; the name of the run's cache."""
    commit: str = ""
    """Commit of that code, `+` behind it where it was changed since; empty outside of a repository."""
    cpu: str = ""
    """Model of the processor; empty where it is not known."""


def publish(cache: Path, run: RunFolder, code: str) -> None:
    """Copy the whole run `cache/run` to its folder, in place of the run that is there, with the digests of its code.
    Raises OutputError, ScenarioError.

    The run stays in the cache as well: what Snakemake removes with a killed job is not computed again.
    """

    def write(into: Path) -> None:
        shutil.copytree(cache / "run", into, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
        write_json(asdict(Codes(code, cache.name, commit(), cpu())), into / CODES)

    with run.working(force=True) as area:
        run.replace(area, write, COMPLETE)


def read_codes(folder: Path) -> Codes | None:
    """Return the code that the run in `folder` was computed with; None where it does not say."""
    try:
        found = json.loads((folder / CODES).read_text(encoding="utf-8"))
        return Codes(str(found["own"]), str(found["job"]), str(found.get("commit", "")), str(found.get("cpu", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def commit(checkout: Path = ROOT) -> str:
    """Return the commit of the code in a folder, eight digits, `+` behind it where it was changed since; else ''."""
    git = ["git", "-C", str(checkout)]
    try:
        head, changed = (
            subprocess.run([*git, *asked], capture_output=True, text=True, check=True).stdout.strip()
            for asked in (["rev-parse", "--short=8", "HEAD"], ["status", "--porcelain", "--", "asyncfl", "workflow"])
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{head}+" if changed else head


def cpu() -> str:
    """Return the model of this machine's processor; '' where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
