"""Which fields of scenarios, experiments and questions take infinity, and which must be finite: a written list.

`python tests/test_finite.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

import asyncfl

LIST = Path(__file__).with_name("finite.txt")


def _kinds() -> Iterator[type[BaseModel]]:
    for found in pkgutil.walk_packages(asyncfl.__path__, "asyncfl."):
        if not found.name.endswith("__main__"):
            for _, kind in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
                columns = "Columns" in kind.__name__ or "Table" in kind.__name__  # what is measured, not what is given
                if kind.__module__ == found.name and issubclass(kind, BaseModel) and not columns:
                    yield kind


def _takes(field: Any, value: float) -> bool:
    kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


def _lines() -> Iterator[str]:
    for kind in _kinds():
        for name, field in kind.model_fields.items():
            if "float" in str(field.annotation) and "asyncfl" not in str(field.annotation):
                told = [word for word, value in (("infinity", math.inf), ("NaN", math.nan)) if _takes(field, value)]
                yield f"{kind.__module__}.{kind.__qualname__}.{name}: {' and '.join(told) or 'finite'}"


def test_what_must_be_finite_is_what_was_written_down() -> None:
    assert sorted(set(_lines())) == LIST.read_text().splitlines(), "if this is meant: python tests/test_finite.py"


if __name__ == "__main__":
    LIST.write_text("".join(f"{line}\n" for line in sorted(set(_lines()))))
