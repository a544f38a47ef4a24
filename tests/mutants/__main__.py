"""Put small faults into the package, one at a time, and tell which of them the tests do not notice.

    python -m tests.mutants asyncfl/server --count 50 --seed 0
    python -m tests.mutants asyncfl/server/staleness.py --tests tests/server tests/simulation

A fault is one operator, comparison, constant or returned value replaced by another (`faults.py`). Each is put into a
copy of the repository and judged by the tests of its package, or by `--tests`: a test that fails or hangs has noticed
it. A fault that survives marks a line that no test checks, or changes nothing: write a test only where a user would
mind.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.faults import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
PYTEST = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:cov", "--no-header", "--tb=no")
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def copy_repository(to: Path) -> Path:
    """Copy what tests need, without results, caches and environments."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "results-*")
    shutil.copytree(ROOT, to, ignore=lambda folder, names: {*left_out(folder, names), *_results(folder)})
    return to


def _results(folder: str) -> list[str]:
    return ["results"] if Path(folder) == ROOT else []


def room_of(file: str) -> str:
    """Return the folder of tests that mirrors the package of a file, or the test of a module on top of the package."""
    _, *inner = Path(file).parts
    room = Path("tests", inner[0]) if len(inner) > 1 else Path("tests", f"test_{inner[0]}")
    return str(room) if (ROOT / room).exists() else "tests"


def run_tests(tree: Path, tests: list[str], seconds: float) -> str:
    """Return `passed`, `failed` or `hung`."""
    environment = {**os.environ, **THREADS, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", *PYTEST, *tests]
    try:
        ended = subprocess.run(command, cwd=tree, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "hung"
    return "failed" if ended.returncode else "passed"


def judge(mutant: Mutant, trees: SimpleQueue[Path], tests: list[str], seconds: float) -> str:
    """Return what the tests say of a fault: `failed` and `hung` have noticed it, `passed` has not."""
    tree = trees.get()
    target = tree / mutant.file
    sound = target.read_bytes()
    try:
        target.write_bytes(mutant.put(sound))
        return run_tests(tree, tests, seconds)
    finally:
        target.write_bytes(sound)
        trees.put(tree)


def main() -> None:
    """Draw the faults, judge them, print those that survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("within", help="file or folder of the package to draw from")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600.0, help="tests that take longer have hung")
    parser.add_argument("--tests", nargs="*", help="files or folders of tests; left out: those of the fault's package")
    given = parser.parse_args()
    place = ROOT / given.within
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    possible = [one for path in files for one in mutants_of(path, ROOT)]
    sample = random.Random(given.seed).sample(possible, min(given.count, len(possible)))
    asked = {one.file: given.tests or [room_of(one.file)] for one in sample}
    with tempfile.TemporaryDirectory(prefix="mutants-") as home, ThreadPoolExecutor(given.workers) as workers:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(given.workers):
            trees.put(copy_repository(Path(home) / str(number)))
        for tests in sorted({tuple(one) for one in asked.values()}):
            if run_tests(Path(home) / "0", list(tests), given.seconds) != "passed":
                raise SystemExit(f"{' '.join(tests)}: does not pass without any fault")
        found = workers.map(lambda one: judge(one, trees, asked[one.file], given.seconds), sample)
        survived = 0
        for mutant, outcome in zip(sample, found, strict=True):
            survived += outcome == "passed"
            print(f"{'SURVIVED' if outcome == 'passed' else outcome:9} {mutant.key}", flush=True)
    print(f"{survived} of {len(sample)} faults survived; {len(possible)} are possible")


if __name__ == "__main__":
    main()
