"""Explanation of a field, section or component for a terminal and for programs, with an example in YAML."""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import Any, get_origin

import yaml
from pydantic import BaseModel

from asyncfl.base.description import fields_of, override
from asyncfl.base.files.yaml_text import read_text
from asyncfl.manual.lookup import Entry, way_to
from asyncfl.manual.parts import FieldEntry, Part, first_sentence, joined

LABELS = ("type", "unit", "range", "default", "source", "class", "logged", "own")
"""Facts with a label on the left, in order."""
INDENT = 10
"""Width of the labels: `default   `."""
SHOWN = 3
"""Fields that the example of a section without required fields sets."""


def explained(entry: Entry, width: int) -> str:
    """Return the explanation in lines of at most `width` characters, except for longer words and examples."""
    about = facts(entry)
    lines = [about["name"]]
    for paragraph in about["says"].split("\n\n"):
        lines += ["", *_paragraph(paragraph, width)]
    lines.append("")
    shown: dict[str, dict[Any, str]] = {"unit": {"1": "none"}, "default": {"": "none, must be given"}}
    for label in LABELS:
        text = about.get(label)
        text = ", ".join(text) if isinstance(text, list) else shown.get(label, {}).get(text, text)
        lines += _wrapped(text, width, label.ljust(INDENT), " " * INDENT) if text else []
    theory = about["theory"] if isinstance(entry, Part) and entry.kind else ""
    for paragraph in filter(None, re.split(r"\n\s*\n", theory)):
        lines += ["", *_paragraph(joined(paragraph), width)]
    for part in [entry] if isinstance(entry, Part) else entry.parts:
        if part.kind and part is not entry:
            lines += ["", f"  {part.kind}", *_paragraph(part.prose.summary, width, "      ")]
            continue
        for field in part.fields:
            unit = "" if field.unit == "1" else field.unit
            default = "must be given" if field.required else f"default {field.default}"
            limits = "; ".join(filter(None, [field.type_words, field.range, unit, default]))
            lines += ["", f"  {field.name}", *_paragraph(limits, width, "      ")]
            lines += _paragraph(first_sentence(field.text), width, "      ")
    lines += ["", "Example", "", *textwrap.indent(about["example"], "  ").splitlines()]
    if (changes := setting(entry)) is not None:
        lines += ["", *(f"  {line}" for line in changes)]
    return "\n".join(line.rstrip() for line in lines)


def _paragraph(text: str, width: int, indent: str = "") -> list[str]:
    """Wrap a paragraph, or each item of a list; other text of several lines, such as a formula, stays as it is."""
    lines = []
    for item in re.split(r"\n(?=- )", text):
        if item.startswith("- "):
            lines += _wrapped(" ".join(item.split()), width, indent, f"{indent}  ")
        else:
            lines += (
                textwrap.indent(item, indent).splitlines() if "\n" in item else _wrapped(item, width, indent, indent)
            )
    return lines


def _wrapped(text: str, width: int, first: str, further: str) -> list[str]:
    wrapper = textwrap.TextWrapper(width, initial_indent=first, subsequent_indent=further, break_long_words=False)
    wrapper.break_on_hyphens = False
    return wrapper.wrap(text)


def facts(entry: Entry) -> dict[str, Any]:
    """Return the explanation as plain values."""
    if isinstance(entry, Part):
        return {
            "name": entry.path or "scenario",
            "says": entry.prose.text,
            "source": entry.source,
            "class": entry.import_path,
            "logged": entry.logged,
            "theory": entry.theory,
            "fields": [facts(field) for field in entry.fields],
            "example": example_text(entry),
        }
    base = entry.base
    return {
        "name": entry.path,
        "says": entry.text,
        "type": entry.type_words,
        "unit": entry.unit,
        "range": entry.range,
        "default": entry.default,
        "source": entry.source,
        "kinds": [part.kind for part in entry.choices],
        "own": base and f"kind: my_module:MyClass, derived from {base.__module__}.{base.__qualname__}",
        "example": example_text(entry),
    }


# --- examples --------------------------------------------------------------------------------------------------------


def example_of(entry: Entry) -> dict[str, Any]:
    """Return nested mappings, from the scenario on, that use the entry, with all required fields on the way."""
    value = _value(entry)
    for one in reversed(_way(entry)):
        if isinstance(one, FieldEntry):
            kind = get_origin(one.info.annotation)
            value = [value] if kind in (tuple, list) and isinstance(value, dict) else value
            value = {"mine": value} if kind is dict else value
            value = {**(_minimal(one.owner) if one.owner.path else {}), one.name: value}
    return value if isinstance(value, dict) else {}


def example_text(entry: Entry) -> str:
    """Return `example_of` as YAML, with the settings that classes on the way name in `alongside`."""
    description = example_of(entry)
    for part in _way(entry):
        alongside = getattr(part.model, "alongside", {}) if isinstance(part, Part) else {}
        missing = alongside.keys() - fields_of(description).keys()
        override(description, {name: value for name, value in alongside.items() if name in missing})
    return yaml.dump(description, sort_keys=False, allow_unicode=True, default_flow_style=None, width=76)


def setting(entry: Entry) -> list[str] | None:
    """Return the lines of a command that sets the fields of the example; None where it sets a list or mapping."""
    fields = fields_of(read_text(example_text(entry)))
    if not fields or any(isinstance(value, list | dict) for value in fields.values()):
        return None
    words = {name: yaml.safe_dump(value).removesuffix("...\n").strip() for name, value in fields.items()}
    options = [f"  --set {name}={shlex.quote(word)}" for name, word in words.items()]
    return " \\\n".join(["asyncfl run scenario.yaml", *options]).splitlines()


def _way(entry: Entry) -> list[Entry]:
    """Return the entry and everything that contains it, from the outside in."""
    part = entry if isinstance(entry, Part) else entry.owner
    if ":" in part.kind:  # a class of the user's own
        return [*way_to(part.holder), part, *([] if entry is part else [entry])]
    return way_to(entry.path)


def _minimal(part: Part) -> dict[str, Any]:
    """Return the kind, the required fields, and those that the class names in `in_examples`."""
    given = getattr(part.model, "in_examples", ())
    needed = {field.name: _example_value(field) for field in part.fields if field.required or field.name in given}
    return ({"kind": part.kind} if part.kind else {}) | needed


def _value(entry: Entry) -> Any:
    if isinstance(entry, FieldEntry):
        return _example_value(entry)
    return _minimal(entry) or {field.name: _example_value(field) for field in entry.fields[:SHOWN]}


def _example_value(field: FieldEntry) -> Any:
    """Return a value of a field: its example, else its default; where that is empty, the first part that it takes."""
    value = field.example
    if isinstance(value, BaseModel):
        plain = value.model_dump(mode="json")
        named = [part for part in field.parts if part.model is type(value)]
        return _value(named[0]) if named and isinstance(plain, dict) else plain
    if not value and field.parts and not isinstance(value, str | bool):
        first = _value(field.parts[0])
        return [first] if get_origin(field.info.annotation) in (tuple, list) else first
    return list(value) if isinstance(value, tuple) else value
