"""Which tests reach which lines, from a run of all tests with a coverage context for each."""

from __future__ import annotations

import math
import sqlite3
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from functools import cache
from os.path import commonpath
from pathlib import Path, PurePath

from coverage.numbits import numbits_to_nums

from tests.mutants.faults import Mutant

LISTS = tuple(f"tests/test_{name}.py" for name in ("fields", "defaults", "frozen", "told", "finite"))
OUTCOMES = "tests/simulation/test_outcomes.py"


class Reach:
    """Tests of every line, and how much each test reaches. `whole` are the tests there are.

    `commit`: that of the database, whose lines are found again in the files of `root`; None: these are still the same.
    """

    def __init__(self, root: Path, database: Path, package: str, whole: Iterable[str], commit: str | None) -> None:
        self.whole = frozenset(whole)
        self._root = root
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
                now = self._moved(name, commit) if commit else {}
                for number in numbers:
                    self._by_line[name, now.get(number, 0) if commit else number].add(test)

    @cache  # noqa: B019
    def _text(self, test_file: str) -> str:
        return (self._root / test_file).read_text(encoding="utf-8")

    @cache  # noqa: B019
    def _moved(self, name: str, commit: str) -> Mapping[int, int]:
        """Line of a file in an earlier commit -> the same line today."""
        earlier = subprocess.run(["git", "show", f"{commit}:{name}"], cwd=self._root, capture_output=True, check=False)
        path = self._root / name
        now = path.read_bytes().splitlines() if path.is_file() else []
        blocks = SequenceMatcher(None, earlier.stdout.splitlines(), now, autojunk=False).get_matching_blocks()
        return {a + step + 1: b + step + 1 for a, b, length in blocks for step in range(length)}

    def tests(self, mutant: Mutant) -> list[str]:
        """Tests that may notice a fault, the likeliest and quickest first.

        The mirrored file comes first, then who imports the module, then the folders around, the nearest first, then
        whole small runs, then those that reach least; for what runs at import all tests may be needed, after the
        written lists of what is there. A line that nothing reaches may be one that only other processes run: then those
        of its file are tried. Tests that were written since the map was drawn are tried where they are near.
        """
        found = self._by_line.get((mutant.file, mutant.line), set())
        if not found:
            found = set().union(*(self._by_line.get((mutant.file, line), ()) for line in self._lines(mutant)))
        mirrored = PurePath("tests", *PurePath(mutant.file).parts[1:])
        rooms = {test: PurePath(test.partition("::")[0]).parts[:-1][:2] for test in self.whole - self._breadth.keys()}
        found = found or self._by_file[mutant.file]
        found = found | {test for test, room in rooms.items() if room == mirrored.parts[:-1][:2]}
        if mutant.at_import:
            found = set(self.whole)

        module = mutant.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

        def order(test: str) -> tuple[bool, bool, bool, int, bool, bool, float, str]:
            file = PurePath(test.partition("::")[0])
            listed = mutant.at_import and str(file) in LISTS and not test.endswith("]")
            shared = len(commonpath([file.parent, mirrored.parent]))
            mirror = file == mirrored.with_name(f"test_{mirrored.name}")
            # Where nothing is reached a process of its own does the work, which takes long.
            breadth = self._breadth.get(test) or math.inf
            reaches, whole = test in self._by_file[mutant.file], str(file) == OUTCOMES
            imports = module in self._text(str(file)).split()
            return not listed, not mirror, not imports, -shared, not reaches, not whole, breadth, test

        return sorted(found, key=order)

    @staticmethod
    def _lines(mutant: Mutant) -> range:
        return range(mutant.first, mutant.last + 1)
