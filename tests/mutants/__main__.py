"""A random sample of small faults put into the package, one at a time: how many of them do the tests notice?

    OMP_NUM_THREADS=1 pytest -n 2 --cov --cov-context=test
    python -m tests.mutants --count 200 --seed 0 --workers 2 --out mutants.jsonl

A fault is one operator, comparison, constant or returned value that is another. Each is put into a copy of the package
and judged by the tests that reach its line (found by the first command; the nearest first). A test that fails, hangs or
cannot be imported has noticed it; that the same test passes without the fault is checked. `--out` is appended to:
faults that are in it already are not tried again, unless `--tests` asks for more of them than a survivor has seen.
`--within asyncfl/live` draws from that folder alone.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

from tests.mutants.faults import Mutant, mutants_of
from tests.mutants.judging import Judge, prepare
from tests.mutants.reach import Reach

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "asyncfl"
Row = dict[str, Any]


def judged(judge: Judge, mutant: Mutant, tests: Sequence[str], patience_s: float) -> Row:
    """The verdict on a fault: `noticed` (by a test that passes without it), `hung`, `survived` or `not reached`.

    Tests are tried some at a time, and no more of them once `patience_s` has passed: `tried` says how many there were.
    """
    row: Row = {"key": mutant.key, "verdict": "survived" if tests else "not reached", "by": None}
    left, tried, began_s = list(tests), 0, time.monotonic()
    while left and time.monotonic() - began_s < patience_s:
        some = left[: max(20, tried)]
        outcome = judge.try_out(some, mutant)
        if outcome.word == "passed":
            tried += len(some)
            left = left[len(some) :]
            continue
        proof = [outcome.test] if outcome.test else some[:1]
        if judge.passes(proof[0]):
            row |= {"verdict": "hung" if outcome.word == "hung" else "noticed", "by": outcome.test or outcome.word}
            break
        print(f"fails without any fault, and says nothing: {proof[0]}", flush=True)
        left = [test for test in left if test not in proof]
    return row | {"tried": tried, "seconds": round(time.monotonic() - began_s, 1)} | asdict(mutant)


def _work(number: int, home: Path, given: argparse.Namespace, tasks: Queue[Any], rows: Queue[Row]) -> None:
    judge = Judge(ROOT, home / str(number), given.seconds)
    reach = Reach(ROOT, given.coverage, PACKAGE, judge.tests(), given.commit)
    while (mutant := tasks.get()) is not None:
        tests = reach.tests(mutant)
        rows.put(judged(judge, mutant, tests[: given.tests], given.patience) | {"reaching": len(tests)})


def _settled(row: Row | None, given: argparse.Namespace) -> bool:
    if row is None or row["verdict"] != "survived":
        return row is not None
    return bool(row["tried"] >= min(given.tests, row["reaching"]) or row["seconds"] >= given.patience)


def _next(rows: Queue[Row], workers: Sequence[BaseProcess]) -> Row:
    while True:
        try:
            return rows.get(timeout=10)
        except Empty:
            if not any(worker.is_alive() for worker in workers):
                raise SystemExit("nobody judges any more") from None


def main() -> None:
    """Draw the sample, judge it, print the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tests", type=int, default=1200, help="tests tried for each fault, at most")
    parser.add_argument("--seconds", type=float, default=120.0, help="a test that takes longer hangs")
    parser.add_argument("--patience", type=float, default=1e9, help="seconds after which no more tests are tried")
    parser.add_argument("--within", default=PACKAGE, help="file or folder to draw from")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="made with --cov-context=test")
    parser.add_argument("--commit", help="that the coverage was made at, where it is not this one")
    parser.add_argument("--without", type=Path, help="faults in this file are not drawn")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    def read(path: Path | None) -> dict[str, Row]:
        return (
            {row["key"]: row for row in map(json.loads, path.read_text().splitlines())}
            if path and path.exists()
            else {}
        )

    barred, known = read(given.without), read(given.out)
    possible = [one for path in sorted((ROOT / PACKAGE).rglob("*.py")) for one in mutants_of(path, ROOT)]
    possible = [one for one in possible if one.key not in barred and one.file.startswith(given.within)]
    sample = random.Random(given.seed).sample(possible, min(given.count, len(possible)))
    fresh = [one for one in sample if not _settled(known.get(one.key), given)]
    prepare()
    context = get_context("fork")
    tasks, rows = context.Queue(), context.Queue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as home:
        arguments = (Path(home), given, tasks, rows)
        workers = [context.Process(target=_work, args=(number, *arguments)) for number in range(given.workers)]
        for worker in workers:
            worker.start()
        for mutant in [*fresh, *[None] * given.workers]:
            tasks.put(mutant)
        for _ in fresh:
            row = _next(rows, workers)
            known[row["key"]] = row
            with given.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
            print(f"{row['verdict']:12} {row['key']}", flush=True)
        for worker in workers:
            worker.join()
    noticed = sum(known[one.key]["verdict"] in ("noticed", "hung") for one in sample)
    print(f"{noticed} of {len(sample)} noticed ({noticed / len(sample):.1%}); {len(possible)} faults are possible")


if __name__ == "__main__":
    main()
