"""The fields of a description that are not at their defaults, by which a run is named.

A field that is added with a default, or removed, leaves the names of all runs at this default alone. A default that
changes must not: the field then declares it, so that a finished run is never taken for one with the new default.

    lr: Annotated[float, Field(gt=0), DefaultSince(2)] = 0.05

Runs that state the first default keep the name that they had while it was the default, if the field declares it
(`DefaultSince(2, first=0.01)`): they are the same runs.

Count on from the number that the field declares today, where it declares none from 1. A number stands for one default,
in a field that follows from others (null: as the protocol says) for one rule: a default that comes back gets a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from asyncfl.base.component import Described
from asyncfl.base.former_names import former_names

PACKAGE = "asyncfl."


@dataclass(frozen=True)
class DefaultSince:
    """Annotation of a field whose default is not its first one: the number of the default, 2, 3, ..."""

    number: int
    first: Any = None
    """The first default as a plain value, which names of runs leave out too; None: they state it. Declare it only
    where the default itself never reaches a name, as `settled` replaces it: else two runs would have one name."""


def default_number(field: FieldInfo) -> int:
    """Return the number of a field's default; 1 for its first one."""
    return max((one.number for one in _marks_of(field)), default=1)


def _marks_of(field: FieldInfo) -> Iterator[DefaultSince]:
    return _marks(Annotated[(field.annotation, *field.metadata, None)])


@cache
def _later_defaults(model: type[BaseModel]) -> dict[str, int]:
    """Return field -> number of its default, for the fields whose default is not their first one."""
    numbers = {name: default_number(field) for name, field in model.model_fields.items()}
    return {name: number for name, number in numbers.items() if number > 1}


def _marks(annotation: Any) -> Iterator[DefaultSince]:
    if isinstance(annotation, DefaultSince):
        yield annotation
    for part in get_args(annotation):
        yield from _marks(part)


def fields_apart(model: BaseModel) -> dict[str, Any]:
    """Return the fields of a model that differ from their defaults, and each `kind`, as plain values.

    A renamed field has its former name, so that its runs keep theirs. Models in it are written alike, at any
    depth. Of a user's own class all fields are written.
    """
    plain = _with_first_as_default(model, model.model_dump(mode="json"))
    found: dict[str, Any] = _apart(model, plain)
    return found


def _apart(value: Any, plain: Any) -> Any:
    """Return the JSON form `plain` of a value without the fields that are at their defaults."""
    if isinstance(value, BaseModel) and isinstance(plain, dict):
        is_built_in = type(value).__module__.startswith(PACKAGE)
        former = former_names(type(value))
        return {
            former.get(name, name): _apart(getattr(value, name), inner)
            for name, inner in plain.items()
            if name == "kind" or not is_built_in or not _at_default(value, name, inner)
        }
    if isinstance(value, list | tuple) and isinstance(plain, list):
        return [_apart(*pair) for pair in zip(value, plain, strict=True)]
    if isinstance(value, dict) and isinstance(plain, dict):
        return {name: _apart(one, inner) for one, (name, inner) in zip(value.values(), plain.items(), strict=True)}
    return plain


def changed_defaults(model: BaseModel) -> dict[str, int]:
    """Return dotted field -> number of its default, for all fields at a default that is not their first one."""
    return dict(_changed(model, model.model_dump(mode="json"), ""))


def _changed(value: Any, plain: Any, at: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, BaseModel) and isinstance(plain, dict):
        for name, number in _later_defaults(type(value)).items():
            if name in plain and _at_default(value, name, plain[name]):
                yield f"{at}{name}", number
        for name, inner in plain.items():
            if isinstance(inner, dict | list):
                yield from _changed(getattr(value, name), inner, f"{at}{name}.")
    elif isinstance(value, list | tuple) and isinstance(plain, list):
        for number, pair in enumerate(zip(value, plain, strict=True)):
            yield from _changed(*pair, f"{at}{number}.")
    elif isinstance(value, dict) and isinstance(plain, dict):
        for one, (name, inner) in zip(value.values(), plain.items(), strict=True):
            yield from _changed(one, inner, f"{at}{name}.")


def _at_default(model: BaseModel, name: str, plain: Any) -> bool:
    """Whether the JSON form of a field's value is that of its default. 1, 1.0 and true differ."""
    # Nearly every field is null by default and null. A default's text costs a model that is built for it.
    if plain is None and getattr(model, name) is None and type(model).model_fields[name].default is None:
        return True
    return _default_texts(type(model)).get(name) == _text(plain)


def _with_first_as_default(value: Any, plain: Any) -> Any:
    """Return the JSON form `plain` of a value with the default in place of each declared first default.

    The models that hold such a field are then at their defaults, too.
    """
    if isinstance(value, BaseModel) and isinstance(plain, dict):
        firsts = _firsts(type(value))
        return {
            name: firsts[name][1]
            if name in firsts and _text(inner) == firsts[name][0]
            else _with_first_as_default(getattr(value, name), inner)
            for name, inner in plain.items()
        }
    if isinstance(value, list | tuple) and isinstance(plain, list):
        return [_with_first_as_default(*pair) for pair in zip(value, plain, strict=True)]
    if isinstance(value, dict) and isinstance(plain, dict):
        return {name: _with_first_as_default(one, plain[name]) for name, one in zip(plain, value.values(), strict=True)}
    return plain


@cache
def _firsts(model: type[BaseModel]) -> dict[str, tuple[str, Any]]:
    """Return field -> (text of its first default, plain default), for the fields that declare a first default."""
    marks = {name: list(_marks_of(field)) for name, field in model.model_fields.items()}
    declared = {name: one.first for name, of in marks.items() for one in of if one.first is not None}
    return {name: (_text(first), _default(model, name)[1]) for name, first in declared.items()}


@cache
def _default_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return field -> text of its default. Without a text: a further argument, which a user's function takes."""
    optional = [name for name, field in model.model_fields.items() if not field.is_required()]
    return {name: _text(plain) for name, (_, plain) in zip(optional, _defaults(model, optional), strict=True)}


def _default(model: type[BaseModel], name: str) -> tuple[Any, Any]:
    """Return the default of a field, validated, and its JSON form."""
    return _defaults(model, [name])[0]


def _defaults(model: type[BaseModel], names: Sequence[str]) -> list[tuple[Any, Any]]:
    """Return the default of each field, validated, and its JSON form."""
    fields: dict[str, Any] = {}
    for number, name in enumerate(names):
        field = model.model_fields[name]
        annotation: Any = Annotated[(field.annotation, *field.metadata, None)]
        fields[f"value_{number}"] = annotation, field.get_default(call_default_factory=True)
    # One model for all of them: each model that pydantic builds costs about a millisecond.
    holder: Any = create_model("Holder", __base__=Described, **fields)()
    return [(getattr(holder, name), plain) for name, plain in holder.model_dump(mode="json").items()]


def described_default(model: type[BaseModel], name: str) -> Any:
    """Return the default of a field that is not required as plain values, written as `fields_apart` does."""
    return _apart(*_default(model, name))


def _text(plain: Any) -> str:
    """Return a text that no other plain value has."""
    # A scalar's own text costs a tenth of its JSON, and every field of every cell of a grid has one.
    return json.dumps(plain, sort_keys=True) if isinstance(plain, dict | list) else repr(plain)
