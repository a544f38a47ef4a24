"""A few lines of YAML that use a field, section or component, at its place in a scenario."""

from __future__ import annotations

import shlex
from typing import Any

import yaml
from pydantic import BaseModel

from asyncfl.base.description import fields_of
from asyncfl.base.files.yaml_text import read_text
from asyncfl.manual.lookup import Entry, steps_to
from asyncfl.manual.parts import FieldEntry, Part

SHOWN = 3
"""Fields of a section that its example shows where none must be given."""


def example_of(entry: Entry) -> dict[str, Any]:
    """What a scenario says to use it, as nested mappings from the scenario on, with all that must be given on the way.

    A component is given with the other fields of the scenario that its class names in `alongside`.
    """
    value = _value(entry)
    for one in reversed(_way(entry)):
        if isinstance(one, FieldEntry):
            inner = [value] if one.many and isinstance(value, dict) else value
            inner = {"mine": value} if one.keyed else inner
            value = {**(minimal(one.owner) if one.owner.path else {}), one.name: inner}
    return value if isinstance(value, dict) else {}


def with_alongside(entry: Entry) -> dict[str, Any]:
    """Dotted field -> value that the scenario has to say as well for a component of the example to work."""
    found: dict[str, Any] = {}
    for one in _way(entry):
        if isinstance(one, Part):
            found |= getattr(one.model, "alongside", {})
    return found


def example_text(entry: Entry) -> str:
    """`example_of`, and what belongs beside it, as YAML."""
    description = example_of(entry)
    for name, value in with_alongside(entry).items():
        place = description
        *above, last = name.split(".")
        for step in above:
            place = place.setdefault(step, {})
        place.setdefault(last, value)
    return yaml_text(description)


def minimal(part: Part) -> dict[str, Any]:
    """What a section or component needs: its kind, what must be given, and what its class names in `in_examples`."""
    given = getattr(part.model, "in_examples", ())
    needed = {field.name: _written(field) for field in part.fields if field.required or field.name in given}
    return ({"kind": part.kind} if part.kind else {}) | needed


def yaml_text(value: Any) -> str:
    """YAML of nested mappings, the innermost each in one line."""
    return yaml.dump(value, sort_keys=False, allow_unicode=True, default_flow_style=None, width=76)


def _way(entry: Entry) -> list[Entry]:
    """The entry, and all that it stands in, from the outside in."""
    part = entry if isinstance(entry, Part) else entry.owner
    if ":" in part.kind:  # a class of the user's own
        return [*steps_to(part.holder), part, *([] if entry is part else [entry])]
    return steps_to(entry.path)


def _value(entry: Entry) -> Any:
    """What the example writes for the entry itself."""
    if isinstance(entry, FieldEntry):
        return _written(entry)
    value = minimal(entry)
    if entry.kind or value:
        return value
    return {field.name: _written(field) for field in entry.fields[:SHOWN]}


def _written(field: FieldEntry) -> Any:
    """A value of a field: its example, else its default; where that is null or empty, the first it may hold."""
    value = field.example
    if isinstance(value, BaseModel):
        named = [part for part in field.parts if part.model is type(value)]
        return _value(named[0]) if named and not _is_plain(value) else value.model_dump(mode="json")
    if not value and field.parts and not isinstance(value, str | bool):
        return [_value(field.parts[0])] if field.many else _value(field.parts[0])
    return list(value) if isinstance(value, tuple) else value


def _is_plain(value: BaseModel) -> bool:
    """Whether a component stands for a number or a list of them."""
    return not isinstance(value.model_dump(mode="json"), dict)


def setting(entry: Entry) -> list[str] | None:
    """The command that runs it, line by line: a scenario with the fields of the example set; None where a list or
    mapping would have to be set, which a file does better."""
    fields = fields_of(read_text(example_text(entry)))
    if not fields or any(isinstance(value, list | dict) for value in fields.values()):
        return None
    return [
        "asyncfl run scenario.yaml \\",
        *_joined([f"--set {name}={_word(value)}" for name, value in fields.items()]),
    ]


def _word(value: Any) -> str:
    text = yaml.safe_dump(value).removesuffix("...\n").strip()
    return shlex.quote(text)


def _joined(options: list[str]) -> list[str]:
    return [f"  {option} \\" for option in options[:-1]] + [f"  {options[-1]}"]
