"""Docstrings of fields, read from the source of a class on demand.

Pydantic would read them when a class is created, which costs a third of the package's import time. Only documentation,
help and editors need them.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema


def text_of(model: type[BaseModel], name: str) -> str:
    """Return the text of a field: its `description`, or the docstring below it in the class that declares it.

    Empty without a docstring or without source. Raises KeyError where the class has no such field.
    """
    if said := model.model_fields[name].description:
        return said
    declaring = next(base for base in model.__mro__ if name in vars(base).get("__annotations__", ()))
    try:
        file = inspect.getsourcefile(declaring)
    except (TypeError, OSError):  # the class has no source file
        return ""
    return _texts_in(file).get(declaring.__qualname__, {}).get(name, "") if file else ""


def schema_with_texts(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class, with the docstrings of its fields as descriptions."""
    return model.model_json_schema(schema_generator=_WithTexts)


class _WithTexts(GenerateJsonSchema):
    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        model = schema["cls"]
        for name, field in made.get("properties", {}).items():
            if name in model.model_fields and (text := text_of(model, name)):
                field["description"] = text
        return made


@cache
def _texts_in(file: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of all fields in a file: qualified class name -> field -> text."""
    return dict(_classes(ast.parse("".join(linecache.getlines(file))).body, ""))


def _classes(body: list[ast.stmt], above: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the classes among statements: qualified name, and field -> docstring. `above`: prefix of the names."""
    for part in body:
        if isinstance(part, ast.ClassDef):
            yield above + part.name, dict(_fields(part.body))
            yield from _classes(part.body, f"{above}{part.name}.")
        elif isinstance(part, ast.FunctionDef):
            yield from _classes(part.body, f"{above}{part.name}.<locals>.")


def _fields(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the annotated fields among the statements of a class, each with the docstring below it."""
    for field, below in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield field.target.id, inspect.cleandoc(below.value.value)
