"""A random sample of small faults put into the package, one at a time: how many of them do the tests notice?

    python -m tests.mutants --count 200 --seed 0 --workers 2 --out mutants.jsonl

A fault is one operator, comparison, constant or returned value that is another. Each is put into a copy of the package
and judged by the tests that reach its line (found once, by coverage; the nearest first); a fault in what runs while a
module is imported is judged by all tests that reach the module. A test that fails or hangs has noticed it. `--out` is
appended to, and faults that are in it already are not tried again.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "asyncfl"

OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*",
    ast.BitAnd: "|", ast.BitOr: "&", ast.MatMult: "*",
}  # fmt: skip
COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One fault: which file, where, what stands there and what is put in its place."""

    file: str
    line: int
    start: int
    """Offset of the replaced text in the file, in bytes."""
    stop: int
    before: str
    after: str
    kind: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All faults that can be put into a file."""
    source = path.read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return lines[line - 1] + column

    def fault(node: ast.expr, start: int, stop: int, after: str, kind: str) -> Mutant:
        name = str(path.relative_to(ROOT))
        return Mutant(name, node.lineno, start, stop, source[start:stop].decode(), after, kind)

    def between(left: ast.expr, right: ast.expr, after: str, kind: str) -> Mutant | None:
        start = offset(left.end_lineno or 0, left.end_col_offset or 0)
        stop = offset(right.lineno, right.col_offset)
        text = source[start:stop].decode()
        if any(mark in text for mark in "()#\\"):
            return None
        return fault(left, start, stop, f" {after} ", kind)

    for node in ast.walk(ast.parse(source)):
        found: Mutant | None = None
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _is_type(node):
            found = between(node.left, node.right, OPERATORS[type(node.op)], "operator")
        elif isinstance(node, ast.BoolOp):
            after = "or" if isinstance(node.op, ast.And) else "and"
            found = between(node.values[0], node.values[1], after, "operator")
        elif isinstance(node, ast.Compare):
            found = between(node.left, node.comparators[0], COMPARISONS[type(node.ops[0])], "comparison")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            start = offset(node.lineno, node.col_offset)
            stop = offset(node.end_lineno or 0, node.end_col_offset or 0)
            value = node.value
            after = repr(not value) if isinstance(value, bool) else repr(value + 1 if value in (0, 1) else 2 * value)
            found = fault(node, start, stop, after, "constant")
        elif isinstance(node, ast.Return) and (given := node.value) is not None and ast.unparse(given) != "None":
            start = offset(given.lineno, given.col_offset)
            stop = offset(given.end_lineno or 0, given.end_col_offset or 0)
            found = fault(given, start, stop, "None", "return")
        if found is not None:
            yield found


def _is_type(node: ast.BinOp) -> bool:
    """Whether `a | b` is a union of types rather than a value."""
    return isinstance(node.op, ast.BitOr)


class Reach:
    """Which tests reach which lines, from a run of all tests with a coverage context per test."""

    def __init__(self, database: Path) -> None:
        self.by_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.by_file: dict[str, set[str]] = defaultdict(set)
        self.breadth: dict[str, int] = defaultdict(int)
        from coverage.numbits import numbits_to_nums

        with sqlite3.connect(database) as connection:
            rows = connection.execute(
                "select file.path, context.context, line_bits.numbits from line_bits "
                "join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
            )
            for path, context, bits in rows:
                if not context:
                    continue
                name = PACKAGE + path.rpartition(f"/{PACKAGE}/")[2].join(["/", ""])
                test = context.partition("|")[0]
                numbers = numbits_to_nums(bits)
                self.breadth[test] += len(numbers)
                self.by_file[name].add(test)
                for number in numbers:
                    self.by_line[name, number].add(test)

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that may notice a fault, those that reach least first."""
        found = self.by_line.get((mutant.file, mutant.line)) or self.by_file.get(mutant.file, set())
        return sorted(found, key=lambda test: (self.breadth[test], test))


def judge(mutant: Mutant, tests: list[str], tree: Path, seconds: float) -> str:
    """`noticed`, `hung` or `survived`; the fault is in `tree` only meanwhile."""
    target = tree / mutant.file
    sound = target.read_bytes()
    target.write_bytes(sound[: mutant.start] + mutant.after.encode() + sound[mutant.stop :])
    environment = os.environ | {
        "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
    try:
        for first in range(0, len(tests), 400):
            part = tests[first : first + 400]
            done = subprocess.run(
                [*command, *part], cwd=tree, env=environment, timeout=seconds, capture_output=True, check=False
            )
            if done.returncode:
                return "noticed"
    except subprocess.TimeoutExpired:
        return "hung"
    finally:
        target.write_bytes(sound)
    return "survived" if tests else "not reached"


def main() -> None:
    """Draw the sample, judge it, print the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tests", type=int, default=1200, help="tests tried for each fault, at most")
    parser.add_argument("--seconds", type=float, default=300.0, help="longest run of 400 tests; longer is hung")
    parser.add_argument("--coverage", type=Path, default=ROOT / ".coverage", help="made with --cov-context=test")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    possible = [one for path in sorted((ROOT / PACKAGE).rglob("*.py")) for one in mutants_of(path)]
    sample = random.Random(given.seed).sample(possible, given.count)
    reach = Reach(given.coverage)
    known: dict[str, str] = {}
    if given.out.exists():
        known = {row["key"]: row["verdict"] for row in map(json.loads, given.out.read_text().splitlines())}

    trees: SimpleQueue[Path] = SimpleQueue()
    home = Path(tempfile.mkdtemp(prefix="mutants-"))
    for number in range(given.workers):
        tree = home / str(number)
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".venv", ".git", "results", "__pycache__", ".*cache"))
        trees.put(tree)

    def one(mutant: Mutant) -> str:
        key = f"{mutant.file}:{mutant.line}:{mutant.start} {mutant.before.strip()!r} -> {mutant.after.strip()!r}"
        if key in known:
            return known[key]
        tree = trees.get()
        try:
            verdict = judge(mutant, reach.tests(mutant)[: given.tests], tree, given.seconds)
        finally:
            trees.put(tree)
        with given.out.open("a") as out:
            out.write(json.dumps({"key": key, "verdict": verdict, **asdict(mutant)}) + "\n")
        print(f"{verdict:12} {key}", flush=True)
        return verdict

    with ThreadPoolExecutor(given.workers) as pool:
        verdicts = list(pool.map(one, sample))
    shutil.rmtree(home)
    noticed = sum(verdict in ("noticed", "hung") for verdict in verdicts)
    print(f"{noticed} of {len(verdicts)} noticed ({noticed / len(verdicts):.1%}); {len(possible)} faults are possible")


if __name__ == "__main__":
    main()
