"""Which tests reach which lines, from a run of all tests with a coverage context for each."""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from os.path import commonpath
from pathlib import Path, PurePath

from coverage.numbits import numbits_to_nums

from tests.mutants.faults import Mutant

LISTS = tuple(f"tests/test_{name}.py" for name in ("fields", "defaults", "frozen", "told", "finite"))
OUTCOMES = "tests/simulation/test_outcomes.py"


class Reach:
    """Tests of every line, and how much each test reaches. `whole` are the tests there are."""

    def __init__(self, database: Path, package: str, whole: Iterable[str]) -> None:
        self.whole = frozenset(whole)
        self._by_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._by_file: dict[str, set[str]] = defaultdict(set)
        self._breadth: dict[str, int] = defaultdict(int)
        with sqlite3.connect(database) as connection:
            rows = connection.execute(
                "select file.path, context.context, line_bits.numbits from line_bits "
                "join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
            )
            for path, context, bits in rows:
                test = context.rpartition("|")[0]
                if test not in self.whole:
                    continue
                name = f"{package}/" + path.rpartition(f"/{package}/")[2]
                numbers = numbits_to_nums(bits)
                self._breadth[test] += len(numbers)
                self._by_file[name].add(test)
                for number in numbers:
                    self._by_line[name, number].add(test)

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that may notice a fault, the likeliest and quickest first.

        The mirrored file comes first, then the folders around it, the nearest first, then whole small runs, then those
        that reach least; for what runs at import all tests may be needed, after the written lists of what is there. A
        line that nothing reaches may be one that only other processes run: then those of its file are tried. Tests that
        were written since the map was drawn are tried where they are near.
        """
        found = self._by_line.get((mutant.file, mutant.line), set())
        if not found:
            found = set().union(*(self._by_line.get((mutant.file, line), ()) for line in self._lines(mutant)))
        mirrored = PurePath("tests", *PurePath(mutant.file).parts[1:])
        near = {test for test in self.whole if PurePath(test.partition("::")[0]).parent == mirrored.parent}
        found = (found or self._by_file[mutant.file]) | {test for test in near if test not in self._breadth}
        if mutant.at_import:
            found = set(self.whole)

        def order(test: str) -> tuple[bool, bool, int, bool, bool, float, str]:
            file = PurePath(test.partition("::")[0])
            listed = mutant.at_import and str(file) in LISTS and not test.endswith("]")
            shared = len(commonpath([file.parent, mirrored.parent]))
            mirror = file == mirrored.with_name(f"test_{mirrored.name}")
            # Where nothing is reached a process of its own does the work, which takes long.
            breadth = self._breadth.get(test) or math.inf
            reaches, whole = test in self._by_file[mutant.file], str(file) == OUTCOMES
            return not listed, not mirror, -shared, not reaches, not whole, breadth, test

        return sorted(found, key=order)

    @staticmethod
    def _lines(mutant: Mutant) -> range:
        return range(mutant.first, mutant.last + 1)
