"""Docstrings of fields, read from the source of a class on demand.

Pydantic's `use_attribute_docstrings` reads them when a class is created, which costs a third of the package's import
time. Only documentation, help and editors need them.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue


def text_of(model: type[BaseModel], name: str) -> str:
    """Return the text of a field: its `description`, or the docstring below it in the class that declares it.

    Empty without a docstring or without source. Raises KeyError where the class has no such field.
    """
    if described := model.model_fields[name].description:
        return described
    declaring = next(base for base in model.__mro__ if name in vars(base).get("__annotations__", ()))
    try:
        file = inspect.getsourcefile(declaring)
    except (TypeError, OSError):  # the class has no source file
        return ""
    return _texts_in(file).get(f"{declaring.__qualname__}.{name}", "") if file else ""


def schema_with_texts(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class, with the docstrings of its fields as descriptions."""
    return model.model_json_schema(schema_generator=_WithTexts)


class _WithTexts(GenerateJsonSchema):
    def model_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().model_schema(schema)
        model = schema["cls"]
        for name, field in made.get("properties", {}).items():
            if name in model.model_fields and (text := text_of(model, name)):
                field["description"] = text
        return made

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}  # a field of a user's class that JSON cannot describe takes anything


@cache
def _texts_in(file: str) -> dict[str, str]:
    """Return the docstrings of all fields in a file: `Class.field`, qualified -> text."""
    return dict(_texts(ast.parse("".join(linecache.getlines(file))).body))


def _texts(body: list[ast.stmt], above: str = "") -> Iterator[tuple[str, str]]:
    for part in body:
        if isinstance(part, ast.ClassDef | ast.FunctionDef):
            below = "<locals>." if isinstance(part, ast.FunctionDef) else ""
            yield from _texts(part.body, f"{above}{part.name}.{below}")
    for part, text in pairwise(body):
        match part, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as said)):
                yield above + name, inspect.cleandoc(said)
