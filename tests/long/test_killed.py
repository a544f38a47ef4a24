"""Runs and workflows killed at random moments: nothing is lost, and what comes out at last is the same bytes."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl.results.storage import COMPLETE, Run

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
KILLS = 30
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


def started(command: list[str], place: Path) -> subprocess.Popen[bytes]:
    """The command at work in `place`, in a group of processes of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ASYNCFL_", "SNAKEMAKE_"))}
    own |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}", "ASYNCFL_EXPERIMENTS": "experiments"}
    with (place / "said").open("ab") as said:
        return subprocess.Popen(command, cwd=place, env=own, stdout=said, stderr=said, start_new_session=True)


def to_the_end(command: list[str], place: Path) -> float:
    """Seconds that the command took, uninterrupted."""
    began = time.monotonic()
    status = started(command, place).wait()
    assert status == 0, (place / "said").read_text()
    return time.monotonic() - began


def killed(command: list[str], place: Path, after_s: float, how: signal.Signals) -> bool:
    """Whether the command was still at work after these seconds, and was killed with all its processes."""
    process = started(command, place)
    try:
        status = process.wait(timeout=after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, how)
        process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return True
    assert status == 0, (place / "said").read_text()
    return False


def contents(folder: Path) -> dict[str, bytes]:
    """Path -> bytes of every file of results, without wall times, logs and what waits in hidden folders."""
    paths = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    left_out = ("timing.json", ".log")
    return {
        name: path.read_bytes()
        for name, path in paths.items()
        if not name.endswith(left_out) and not any(part.startswith(".") for part in Path(name).parts)
    }


def test_a_run_killed_at_random_moments_loses_nothing(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["protocol"]["rounds"] = 40
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump({**tiny, "seeds": 6}))

    def command(out: str) -> list[str]:
        return ["asyncfl", "run", "scenario.yaml", "--quiet", "--out", out]

    took_s = to_the_end(command("straight"), tmp_path)
    expected = contents(tmp_path / "straight")
    moments, kills, place = random.Random(1), 0, tmp_path / "run-0"
    kept: set[str] = set()
    while kills < KILLS:
        still_at_work = killed(command(place.name), tmp_path, moments.uniform(0, took_s), SIGNALS[kills % 3])
        kills += still_at_work
        whole = (place / COMPLETE).exists()
        assert whole or still_at_work
        before, kept = kept, {path.name for path in place.glob(".partial/*/seed-*") if path.suffix == ""}
        assert whole or before <= kept, "a finished seed was lost"
        if whole:
            assert contents(place) == {**expected, **({"thesis.tex": b"x"} if (place / "thesis.tex").exists() else {})}
            place, kept = tmp_path / f"run-{kills}-next", set()
        elif place.exists() and kept:
            (place / "thesis.tex").write_text("x")
    to_the_end(command(place.name), tmp_path)
    assert {name: text for name, text in contents(place).items() if name != "thesis.tex"} == expected
    assert not (place / ".partial").exists()


EXPERIMENT: dict[str, Any] = {
    "title": "A tiny grid",
    "source": {"paper": "nbafl", "figure": 2},
    "scenario": {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 3, "samples_per_client": 10, "test_samples": 20},
        "model": {"kind": "mlp", "hidden": [4]},
        "training": {"epochs": 1},
        "protocol": {"kind": "sync", "rounds": 2},
        "privacy": {"kind": "nbafl", "epsilon": 60},
    },
    "axes": {"privacy.epsilon": [50, 60]},
    "seeds": {"quick": 2, "full": 2},
    "figure": {"kind": "curves", "hue": "privacy.epsilon"},
    "claims": [{"check": "order", "along": "privacy.epsilon", "says": "the loss falls with the budget"}],
}


def clone(place: Path) -> Path:
    """A folder in which `make results` works on a tiny grid, with everything else as it is in this repository."""
    (place / "experiments" / "tiny").mkdir(parents=True)
    (place / "experiments" / "tiny" / "one.yaml").write_text(yaml.safe_dump(EXPERIMENT, sort_keys=False))
    for name in ("Makefile", "Snakefile", "workflow", "profiles", "pyproject.toml", "constraints.txt"):
        (place / name).symlink_to(ROOT / name)
    (place / ".venv").symlink_to(Path(sys.executable).parents[1])
    (place / "results").mkdir()
    (place / "results" / "thesis.tex").write_text("x")
    return place


def test_a_workflow_killed_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    straight, place = clone(tmp_path / "straight"), clone(tmp_path / "killed")
    command = ["make", "results", "CORES=2", "--old-file=.venv/.ready"]
    took_s = to_the_end(command, straight)
    expected = contents(straight / "results")
    assert "claims.md" in expected
    moments, kills = random.Random(2), 0
    while kills < KILLS:
        kills += killed(command, place, moments.uniform(0, took_s), SIGNALS[kills % 3])
        found = contents(place / "results")
        assert found.items() <= expected.items(), {name for name in found if found[name] != expected.get(name)}
        for run in (place / "results").glob(f"runs/*/{COMPLETE}"):
            Run.load(run.parent)
        if len(found) == len(expected):
            shutil.rmtree(place)
            clone(place)
    to_the_end(command, place)
    assert contents(place / "results") == expected
    assert list((place / "results").rglob("*.part")) == []
