"""Numbers that nobody gave: defaults of functions and records, constants of modules and classes, in a written list.

What leaves a number out gets the one that stands here, so another one changes results: on purpose or not at all. Fields
of scenarios and options of commands stand in `fields.txt`. `python tests/test_defaults.py` writes the list anew; read
the difference.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import asyncfl

LIST = Path(__file__).with_name("defaults.txt")
ELSEWHERE = "asyncfl.cli."
"""Defaults of commands are those of their options."""


def _numbers(value: Any) -> str | None:
    """A value in words if it is made of numbers, with text between them at most; else None."""
    if type(value) in (bool, int, float):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.size} numbers from {value.min():.6g} to {value.max():.6g}, {value.sum():.6g} together"
    if is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        inside = {key: repr(one) if isinstance(one, str) else _numbers(one) for key, one in value.items()}
        numbers = any(inside[key] is not None for key, one in value.items() if not isinstance(one, str))
        return (
            f"{{{', '.join(f'{key}: {one}' for key, one in inside.items() if one is not None)}}}" if numbers else None
        )
    if isinstance(value, tuple | list) and any(_numbers(one) is not None for one in value):
        return f"({', '.join(repr(one) if isinstance(one, str) else str(_numbers(one)) for one in value)})"
    return None


def _of_function(called: str, function: Any) -> Iterator[str]:
    if hasattr(function, "cache_parameters"):
        yield f"{called} keeps {function.cache_parameters()['maxsize']}"
    for one in inspect.signature(function).parameters.values():
        if one.default is not inspect.Parameter.empty and (said := _numbers(one.default)) is not None:
            yield f"{called}({one.name}) = {said}"


def _of_class(called: str, found: type) -> Iterator[str]:
    if is_dataclass(found):
        yield from _of_function(called, found)
        for one in fields(found):
            left_out = [word for word in ("init", "repr", "compare") if not getattr(one, word)]
            if left_out:
                yield f"{called}.{one.name} is not in {', '.join(left_out)}"
    for name, value in vars(found).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if name.startswith("__") or name == "model_config":
            continue
        if inspect.isfunction(inner) or hasattr(inner, "cache_parameters"):
            yield from _of_function(f"{called}.{name}", inner)
        elif not name.startswith("_") and not is_dataclass(found) and (said := _numbers(value)) is not None:
            yield f"{called}.{name} = {said}"


def _assigned(source: str) -> set[str]:
    """Names that a module gives a value itself."""
    statements = [one for one in ast.parse(source).body if isinstance(one, ast.Assign | ast.AnnAssign)]
    targets = [
        target for one in statements for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
    ]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _lines() -> Iterator[str]:
    for found in pkgutil.walk_packages(asyncfl.__path__, "asyncfl."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        assigned = _assigned(inspect.getsource(module))
        for name, value in sorted(vars(module).items()):
            called, here = f"{module.__name__}.{name}", getattr(value, "__module__", None) == module.__name__
            if inspect.isclass(value) and here:
                yield from _of_class(called, value)
            elif callable(value) and here and not called.startswith(ELSEWHERE):
                yield from _of_function(called, value)
            elif name.isupper() and name in assigned and (said := _numbers(value)) is not None:
                yield f"{called} = {said}"


def test_no_default_or_constant_is_another_than_was_written_down() -> None:
    there = set(_lines())
    changed = [one for one in LIST.read_text(encoding="utf-8").splitlines() if one not in there]
    assert changed == [], "if this is meant: python tests/test_defaults.py"


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in _lines()), encoding="utf-8")
