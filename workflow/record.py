"""Record the live runs of experiments anew: `python workflow/record.py clock/truth`, all that have some without a name.

Each cell whose label says `recorded` is held as a live federation and replaces its recording when it is whole. How long
that takes is what the runs take, over the speedup; several are held at a time, as they mostly sleep.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from asyncfl.experiments.cells import KEPT, Cell, RecordedRuns, cells
from asyncfl.experiments.files import find
from asyncfl.experiments.loading import load
from asyncfl.experiments.spec import Experiment

EXPERIMENTS = Path(__file__).parent / "experiments"


def terms(experiment: Experiment, cell: Cell) -> RecordedRuns:
    """Return the settings of a cell's live run."""
    for axis, label in cell.values.items():
        if "recorded" in (changes := experiment.changes(axis, label, "full")):
            return RecordedRuns.model_validate(changes["recorded"])
    raise ValueError(f"no run of {cell.values} is recorded")


def record(experiment: Experiment, cell: Cell, whole: bool) -> str:
    """Run a cell live, replace its recording (with all files where `whole`), and return the printed text."""
    how = terms(experiment, cell)
    place = cell.recording
    assert place is not None
    with tempfile.TemporaryDirectory() as area:
        scenario, out = Path(area, "scenario.yaml"), Path(area, "run")
        scenario.write_text(cell.scenario.to_yaml(), encoding="utf-8")
        shaped = ["--shape"] if how.shape else []
        command = [sys.executable, "-c", "from asyncfl.cli import main; main()", "live", "here", str(scenario)]
        command += ["--out", str(out), "--quiet"]
        command += [*shaped, "--speedup", str(how.speedup), "--workers", str(how.workers)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{place}: {done.stderr or done.stdout}")
        place.mkdir(parents=True, exist_ok=True)
        for name in sorted(path.name for path in out.iterdir() if path.is_file()) if whole else KEPT:
            shutil.copyfile(out / name, place / name)
    return f"{place}\n{done.stdout}"


def main() -> None:
    """Record what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="experiments, e.g. clock/truth; none: all that have recorded runs")
    parser.add_argument("--at-once", type=int, default=1, help="runs that are held at the same time")
    parser.add_argument("--whole", action="store_true", help="keep events too: a world is fitted to them")
    parser.add_argument("--only", default="", help="cells whose folder's name holds this")
    given = parser.parse_args()
    paths = find(EXPERIMENTS)
    wanted = []
    for name in given.names or paths:
        experiment = load(paths[name], name, check=False)
        found = [cell for cell in cells(experiment, "full") if cell.recording is not None]
        wanted += [(experiment, cell) for cell in found if given.only in str(cell.recording)]
    with ThreadPoolExecutor(given.at_once) as pool:
        for said in pool.map(lambda one: record(*one, given.whole), wanted):
            print(said, flush=True)


if __name__ == "__main__":
    main()
