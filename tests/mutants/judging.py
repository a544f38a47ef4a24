"""One copy of the package, into which faults are put one at a time and judged by tests."""

from __future__ import annotations

import compileall
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutants.faults import Mutant
from tests.mutants.warm import serve

# Loaded once and inherited by every process that judges; nothing of the package itself.
HEAVY = (
    "torch", "torch.func", "pandas", "scipy.stats", "scipy.optimize", "sklearn.decomposition", "sklearn.cluster",
    "pyarrow.parquet", "matplotlib.pyplot", "typer", "simpy", "yaml", "pydantic", "rich.console", "rich.table",
    "dp_accounting",
)  # fmt: skip
MEMORY = 12 << 30
PLAIN = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:cov", "--assert=plain", "--no-header")
Told = list[tuple[str, str]]


@dataclass(frozen=True)
class Outcome:
    """`passed`, `failed`, `hung` or `broken` (the tests could not begin or did not end), and the test that said so."""

    word: str
    test: str | None = None


class Watcher:
    """Tells the judge, through a pipe, which test runs and which failed."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def tell(self, word: str, what: object) -> None:
        os.write(self._pipe, f"{word}\t{what}\n".encode())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell("test", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tell("failed", report.nodeid)


class Judge:
    """A copy of the repository and the tests in it. A test that tells nothing for `seconds` hangs.

    What runs while the package is imported is judged in a fresh process, the rest in copies of a process that has
    imported it and found the tests: that takes a hundredth of a second instead of several.
    """

    def __init__(self, root: Path, tree: Path, seconds: float) -> None:
        self.tree = tree
        self._seconds = seconds
        self._sound: dict[str, bool] = {}
        made = shutil.ignore_patterns(
            ".venv", ".git", "__pycache__", ".*cache", ".hypothesis", ".coverage*", ".snakemake"
        )
        shutil.copytree(
            root,
            tree,
            ignore=lambda folder, names: {*made(folder, names), *(["results"] if folder == str(root) else [])},
        )
        for folder in ("asyncfl", "tests"):
            compileall.compile_dir(tree / folder, quiet=2)
        asked, self._requests = os.pipe()
        self._answers, told = os.pipe()
        if os.fork() == 0:
            os.close(self._requests)
            os.close(self._answers)
            with suppress(BaseException):
                serve(self.tree, asked, told, PLAIN, self._enter)
            os._exit(1)
        os.close(asked)
        os.close(told)
        code, found = self._hear(self._answers, 600.0)
        if code != 0:
            raise SystemExit(f"the tests cannot be collected: {self.tree.with_suffix('.log').read_text()[-2000:]}")
        self._tests = [what for word, what in found if word == "there"]

    def tests(self) -> list[str]:
        """Names of all tests, from the untouched tree."""
        return self._tests

    def passes(self, test: str) -> bool:
        """Whether a test passes in the untouched tree."""
        if test not in self._sound:
            self._sound[test] = self.try_out([test]).word == "passed"
        return self._sound[test]

    def try_out(self, tests: Sequence[str], fault: Mutant | None = None) -> Outcome:
        """What the first failing one of `tests` says of a fault (of the untouched tree without one)."""
        if fault is None:
            return self._outcome(*self._ask({"tests": list(tests)}))
        target = self.tree / fault.file
        sound, times = target.read_bytes(), target.stat()
        faulty = fault.put(sound)
        try:
            if fault.at_import:
                target.write_bytes(faulty)
                return self._outcome(*self._run(["-x", *tests]))
            return self._outcome(*self._ask({"tests": list(tests), "file": fault.file, "source": faulty.decode()}))
        finally:
            target.write_bytes(sound)
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))

    @staticmethod
    def _outcome(code: int | None, told: Told) -> Outcome:
        words = dict(told)
        if code is None:
            return Outcome("hung", words.get("test"))
        if "failed" in words:
            return Outcome("failed", words["failed"])
        return Outcome("passed") if "passed" in words else Outcome("broken", words.get("test"))

    def _ask(self, request: dict[str, object]) -> tuple[int | None, Told]:
        """What a copy of the process that is ready told of its tests."""
        os.write(self._requests, f"{json.dumps(request)}\n".encode())
        return self._hear(self._answers, self._seconds)

    def _run(self, arguments: Sequence[str]) -> tuple[int | None, Told]:
        """What a fresh process told of its tests."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with suppress(BaseException):
                self._in_child(writer, arguments)
            os.write(writer, b"done\t\n")
            os._exit(1)
        os.close(writer)
        heard = self._hear(reader, self._seconds)
        os.waitpid(child, 0)
        os.close(reader)
        return heard

    @staticmethod
    def _hear(reader: int, seconds: float) -> tuple[int | None, Told]:
        """What was told until `done` (0) or until nothing came any more (None: hung, the group is ended)."""
        text, group = b"", 0
        code: int | None = 0
        while not text.endswith(b"done\t\n"):
            if not select.select([reader], [], [], seconds)[0]:
                if code is None or not group:
                    return None, []
                code = None
                _end(group)
                continue
            part = os.read(reader, 65536)
            if not part:
                break
            text += part
            if not group and b"began\t" in text and text.endswith(b"\n"):
                group = int(text.partition(b"began\t")[2].partition(b"\n")[0])
        _end(group)
        lines = [line.partition("\t") for line in text.decode().splitlines()]
        return code, [(word, what) for word, _, what in lines]

    def _enter(self) -> None:
        os.setsid()
        os.chdir(self.tree)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.environ["PYTHONPATH"] = str(self.tree)
        sys.path.insert(0, str(self.tree))
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "asyncfl")]:
            del sys.modules[name]
        log = os.open(self.tree.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        gc.freeze()
        shrinking = importlib.import_module("hypothesis.internal.conjecture.engine")
        shrinking.MAX_SHRINKING_SECONDS = 1  # whether a law is broken, not by how little, is asked here

    def _in_child(self, writer: int, arguments: Sequence[str]) -> None:
        self._enter()
        sys.argv = ["pytest"]
        watcher = Watcher(writer)
        watcher.tell("began", os.getpid())
        if pytest.main([*PLAIN, *arguments], plugins=[watcher]) == 0:
            watcher.tell("passed", "")


def _end(group: int) -> None:
    if group:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def prepare() -> None:
    """Load what every judging process needs, with one thread each, and leave no compiled files behind."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"):
        os.environ[name] = "1"
    sys.dont_write_bytecode = True
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
