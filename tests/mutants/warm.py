"""A process that has loaded the package and found its tests once, and judges each fault in a copy of itself."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

OPTIMISED = 0x1
"""Mark of a function's code; that of modules and classes runs once, while they are made."""


class Warm:
    """Serves requests of a judge (a line of JSON: `tests`, and a `file` with its `source` where that is another)."""

    def __init__(self, tree: Path, requests: int, answers: int) -> None:
        self._tree = tree
        self._requests = os.fdopen(requests)
        self._answers = answers
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}

    def _tell(self, word: str, what: object) -> None:
        os.write(self._answers, f"{word}\t{what}\n".encode())

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests once: run those that are asked for, each time in a new copy."""
        self._items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # what was collected is frozen, and not among the objects that are told of
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename.startswith(str(self._tree)):
                self._functions.setdefault(_name_of(one.__code__), []).append(one)
        gc.collect()
        gc.freeze()
        for name in self._items:
            self._tell("there", name)
        self._tell("done", "")
        for line in self._requests:
            child = os.fork()
            if child == 0:
                os.setsid()
                self._tell("began", os.getpid())
                try:
                    self._judge(json.loads(line))
                finally:
                    os._exit(1)
            os.waitpid(child, 0)
            self._tell("done", "")
        return True

    def _judge(self, request: dict[str, Any]) -> None:
        if "source" in request:
            self._change(self._tree / request["file"], request["source"])
        asked = [self._items[name] for name in request["tests"] if name in self._items]
        for item, after in zip(asked, [*asked[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        self._tell("passed", "")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._tell("test", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tell("failed", report.nodeid)
            os._exit(0)

    def _change(self, path: Path, source: str) -> None:
        """Give every function of a file the code that it has in another source."""
        before, after = (compile(text, str(path), "exec", dont_inherit=True) for text in (path.read_text(), source))
        path.write_text(source)  # for processes of their own, and for what is imported only now
        for old, new in _functions_within(before, after):
            for function in self._functions.get(_name_of(old), ()):
                function.__code__ = new


def _name_of(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _functions_within(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Code of functions that differs, outermost functions only, from two sources of one shape."""
    pairs = zip(
        *([one for one in code.co_consts if isinstance(one, CodeType)] for code in (before, after)), strict=True
    )
    for old, new in pairs:
        if not old.co_flags & OPTIMISED:
            yield from _functions_within(old, new)
        elif old != new:
            yield old, new


def serve(tree: Path, requests: int, answers: int, arguments: Sequence[str], enter: Callable[[], None]) -> None:
    """Become that process: `enter` prepares it, `arguments` are pytest's."""
    enter()
    sys.argv = ["pytest"]
    pytest.main([*arguments, f"--basetemp={tree}-tmp"], plugins=[Warm(tree, requests, answers)])
