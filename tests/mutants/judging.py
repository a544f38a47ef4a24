"""One copy of the package, into which faults are put one at a time and judged by tests."""

from __future__ import annotations

import compileall
import gc
import importlib
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

# Loaded once and inherited by every process that judges; nothing of the package itself.
HEAVY = (
    "torch", "torch.func", "pandas", "scipy.stats", "scipy.optimize", "sklearn.decomposition", "sklearn.cluster",
    "pyarrow.parquet", "matplotlib.pyplot", "typer", "simpy", "yaml", "pydantic", "rich.console", "rich.table",
    "dp_accounting",
)  # fmt: skip
MEMORY = 12 << 30


@dataclass(frozen=True)
class Outcome:
    """`passed`, `failed`, `hung` or `broken` (the tests could not begin or did not end), and the test that said so."""

    word: str
    test: str | None = None


class Watcher:
    """Tells the judge, through a pipe, which test runs and which failed."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def tell(self, word: str, what: str) -> None:
        os.write(self._pipe, f"{word}\t{what}\n".encode())

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            for item in session.items:
                self.tell("there", item.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell("began", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.tell("failed", report.nodeid)


class Judge:
    """A copy of the repository and the tests in it. A test that tells nothing for `seconds` hangs."""

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

    def tests(self) -> list[str]:
        """Names of all tests, from the untouched tree."""
        code, told = self._run(["--collect-only", "-q"])
        if code != 0:
            raise SystemExit(f"the tests cannot be collected: {self.tree.with_suffix('.log').read_text()[-2000:]}")
        return [what for word, what in told if word == "there"]

    def passes(self, test: str) -> bool:
        """Whether a test passes in the untouched tree."""
        if test not in self._sound:
            self._sound[test] = self.try_out([test]).word == "passed"
        return self._sound[test]

    def try_out(self, tests: Sequence[str], fault: Mutant | None = None) -> Outcome:
        """What the first failing one of `tests` says of a fault (of the untouched tree without one)."""
        if fault is None:
            return self._outcome(tests)
        target = self.tree / fault.file
        sound, times = target.read_bytes(), target.stat()
        target.write_bytes(fault.put(sound))
        try:
            return self._outcome(tests)
        finally:
            target.write_bytes(sound)
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _outcome(self, tests: Sequence[str]) -> Outcome:
        code, told = self._run(["-x", *tests])
        if code == 0:
            return Outcome("passed")
        failed = next((what for word, what in told if word == "failed"), None)
        began = next((what for word, what in reversed(told) if word == "began"), None)
        if code is None:
            return Outcome("hung", began)
        return Outcome("failed", failed) if failed else Outcome("broken", began)

    def _run(self, arguments: Sequence[str]) -> tuple[int | None, list[tuple[str, str]]]:
        """Status of pytest (None: hung, -1: died) and what it told, in a process of its own."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with suppress(BaseException):
                self._in_child(writer, arguments)
            os._exit(1)
        os.close(writer)
        text, code = b"", -1
        while True:
            if not select.select([reader], [], [], self._seconds)[0]:
                code = None
                break
            part = os.read(reader, 65536)
            if not part:
                break
            text += part
            if b"\nended\t" in b"\n" + text:
                break
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        told = [tuple(line.split("\t", 1)) for line in text.decode().splitlines()]
        ended = [what for word, what in told if word == "ended"]
        return (int(ended[0]) if ended else code), [one for one in told if one[0] != "ended"]

    def _in_child(self, writer: int, arguments: Sequence[str]) -> None:
        os.setsid()
        os.chdir(self.tree)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.environ["PYTHONPATH"] = str(self.tree)
        sys.path.insert(0, str(self.tree))
        for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "asyncfl")]:
            del sys.modules[name]
        sys.argv = ["pytest"]
        log = os.open(self.tree.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(log, stream)
        gc.freeze()
        shrinking = importlib.import_module("hypothesis.internal.conjecture.engine")
        shrinking.MAX_SHRINKING_SECONDS = 1  # whether a law is broken, not by how little, is asked here
        watcher = Watcher(writer)
        plain = ["-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:cov", "--assert=plain", "--no-header"]
        code = pytest.main([*plain, *arguments], plugins=[watcher])
        watcher.tell("ended", str(int(code)))
        os._exit(0)


def prepare() -> None:
    """Load what every judging process needs, with one thread each, and leave no compiled files behind."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"):
        os.environ[name] = "1"
    sys.dont_write_bytecode = True
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
