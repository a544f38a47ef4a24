"""A field's annotation in words: its type, unit, range and default."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from asyncfl.base.component import Component, OwnBranch, kind_of
from asyncfl.base.quantities import MeasuredIn

UNITS = {
    "_s_per_sample": "s per sample",
    "_s_per_number": "s per number",
    "_per_s": "1/s",
    "_s": "s",
    "_h": "h",
    "_w": "W",
    "_bps": "bit/s",
    "_bytes": "bytes",
}
"""End of a field's name -> unit."""


OWN_DEFAULTS = "its own defaults"
"""The default of a section whose fields all have theirs."""


def parts_of(annotation: Any) -> Iterator[Any]:
    """The parts of an annotation at any depth, those in metadata of fields included, from the outside in."""
    if isinstance(annotation, FieldInfo):
        yield from parts_of(_input(annotation))
        for one in annotation.metadata:
            yield from parts_of(one)
        return
    yield annotation
    if get_origin(annotation) is not Literal:
        for one in get_args(annotation):
            yield from parts_of(one)


def models_of(field: FieldInfo) -> list[type[BaseModel]]:
    """The classes that a field may hold, in the order in which they are offered."""
    found = [one for one in parts_of(field) if isinstance(one, type) and issubclass(one, BaseModel)]
    return list(dict.fromkeys(found))


def own_base(field: FieldInfo) -> type[Component] | None:
    """What a class of a user's own in a field derives from; None: there can be none."""
    bases = [one.base for one in parts_of(field) if isinstance(one, OwnBranch)]
    return bases[0] if bases else None


def type_of_field(field: FieldInfo) -> str:
    """What may be written: `whole number or null`, `auto | cpu | cuda`, `list of numbers`."""
    return _type(_input(field))


def _input(field: FieldInfo) -> Any:
    """What a field reads, where a validator takes more than it holds."""
    return _taken(field.metadata, field.annotation)


def _taken(about: Iterable[Any], held: Any) -> Any:
    """What the first validator in `about` that says so takes, else what is `held`."""
    said = (getattr(one, "json_schema_input_type", PydanticUndefined) for one in about)
    return next((one for one in said if one is not PydanticUndefined), held)


def _type(annotation: Any, many: bool = False) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(_taken(arguments[1:], arguments[0]), many)
    if origin is Literal:
        return " | ".join(json.dumps(one) if not isinstance(one, str) else one for one in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_alternatives(arguments, many))
    if origin in (tuple, list):
        inner = [one for one in arguments if one is not Ellipsis]
        if len(inner) > 1:
            return f"list of {len(inner)}: " + ", ".join(_type(one) for one in inner)
        return f"list of {_type(inner[0], many=True)}"
    if origin is dict:
        return f"mapping of names to {_type(arguments[1], many=True)}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "components" if many and "kind" in annotation.model_fields else "mapping"
    plain = {bool: "true or false", int: "whole number", float: "number", str: "text", types.NoneType: "null"}
    word = plain.get(annotation, "anything")
    return f"{word}s" if many and word in ("whole number", "number", "text") else word


def _alternatives(arguments: tuple[Any, ...], many: bool) -> list[str]:
    """The alternatives of a union, a choice of components as one of them, null last."""
    kinds, others = [], []
    for one in arguments:
        first, *about = get_args(one) if get_origin(one) is Annotated else (one,)
        if any(isinstance(part, OwnBranch) for part in about):
            kinds.append("my_module:MyClass")
        elif isinstance(first, type) and issubclass(first, Component):
            kinds.append(str(first.model_fields["kind"].default))
        else:
            others.append(_type(one, many))
    if kinds:
        others.append(f"{'components of kind' if many else 'kind'} {', '.join(kinds)}")
    return [*(word for word in others if word != "null"), *(word for word in others if word == "null")]


def unit_of_field(name: str, field: FieldInfo) -> str:
    """Unit of a field's number; `1` for one without a unit; empty for what is no number."""
    said = [one.name for one in parts_of(field) if isinstance(one, MeasuredIn)]
    if said:
        return said[0]
    return next((unit for end, unit in UNITS.items() if f"_{name}".endswith(end)), "")


def is_number(field: FieldInfo) -> bool:
    """Whether a field holds a number, or several, and no component in their place."""
    return not models_of(field) and any(one in (int, float) for one in parts_of(field))


def range_words(field: FieldInfo) -> str:
    """Limits of a field's numbers: `>= 1, <= 10`, each with its type where several types have their own."""
    limited = list(dict.fromkeys(one for one in _limited(_with_metadata(field)) if one[1]))
    if len(limited) == 1:
        return limited[0][1]
    return "; ".join(f"{word} {limits}" for word, limits in limited)


def _with_metadata(field: FieldInfo) -> Any:
    taken = _input(field)
    return taken if taken is not field.annotation or not field.metadata else Annotated[(taken, *field.metadata)]


def _limited(annotation: Any, around: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(type, limits) of each number in an annotation, outside of components."""
    if get_origin(annotation) is Annotated:
        first, *about = get_args(annotation)
        about = [part for one in about for part in (one.metadata if isinstance(one, FieldInfo) else [one])]
        own = (limit for part in about for limit in _limits(part))
        yield from _limited(first, (*around, *(f"{sign} {_plain(limit)}" for sign, limit in own)))
    elif annotation in (int, float):
        yield _type(annotation), ", ".join(around)
    elif get_origin(annotation) in (Union, types.UnionType, tuple, list):
        for one in get_args(annotation):
            yield from _limited(one, around)


def _plain(limit: float) -> str:
    return f"{limit:,.0f}" if limit == round(limit) else f"{limit:g}"


_SIGNS = ((">=", Ge, "ge"), (">", Gt, "gt"), ("<=", Le, "le"), ("<", Lt, "lt"))


def _limits(part: Any) -> Iterator[tuple[str, float]]:
    for sign, kind, name in _SIGNS:
        if isinstance(part, kind):
            yield sign, float(getattr(part, name))


def default_words(field: FieldInfo) -> str:
    """The default as YAML writes it in a line; empty where the field must be given."""
    if field.is_required():
        return ""
    return as_written(field.get_default(call_default_factory=True))


def _short(value: float) -> str:
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def as_written(value: Any) -> str:
    """A value as YAML writes it in a line, of a component its kind and what differs from that kind's own defaults."""
    if isinstance(value, BaseModel):
        plain = value.model_dump(mode="json")
        if not isinstance(plain, dict):
            return as_written(plain)
        changed = {
            name: plain[name]
            for name, field in type(value).model_fields.items()
            if name != "kind"
            and (field.is_required() or getattr(value, name) != field.get_default(call_default_factory=True))
        }
        kind = {"kind": kind_of(value)} if isinstance(value, Component) and hasattr(value, "kind") else {}
        if kind == {"kind": "fixed"} and list(changed) == ["value"]:
            return as_written(changed["value"])
        if not kind and not changed:
            return OWN_DEFAULTS
        return "{" + ", ".join(f"{name}: {as_written(one)}" for name, one in {**kind, **changed}.items()) + "}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        return f"{value / 1e6:g}e6" if value >= 1e6 and value % 1e6 == 0 else _short(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(as_written(one) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {as_written(one)}" for name, one in value.items()) + "}"
    return str(value)
