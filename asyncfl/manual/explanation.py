"""Find a field, section or component by its name, and explain it with an example, for a terminal and for programs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Any, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticCustomError

from asyncfl.base.component import Component, load_custom
from asyncfl.base.description import fields_of, override
from asyncfl.base.errors import ScenarioError, nearest
from asyncfl.manual.parts import SCENARIO, FieldEntry, Part, all_parts, first_sentence, joined

Entry = FieldEntry | Part


class AmbiguousNameError(ScenarioError):
    """A name that several fields, sections or components end in; the message names them all."""

    def __init__(self, name: str, found: list[Entry]) -> None:
        super().__init__(f"{name} may be {', '.join(sorted(one.path for one in found))}")
        least = min(one.path.count(".") for one in found)
        self.nearest = [one for one in found if one.path.count(".") == least]
        """Those that are least deep: `training.lr` before `defence.rule.lr`."""


def find(name: str) -> list[Entry]:
    """Return the field, section or component of a name; several where components that may stand there differ in it.

    name: a dotted name, with or without the kinds on the way (`defence.rule.krum.byzantine`, `privacy.epsilon`), its
    unambiguous end, a kind or class (`krum`, `Krum`), or the import path of a class of one's own. Raises
    AmbiguousNameError that names all that the name may mean, or ScenarioError that names the nearest.
    """
    if ":" in name:
        return [_own(name)]
    steps = [step for step in name.strip(".").split(".") if not step.isdigit()]
    if found := _distinct(_reached(steps)):
        return found
    found = _distinct(_ending_in(steps))
    if len(found) > 1:
        raise AmbiguousNameError(name, found)
    if not found:
        raise ScenarioError(f"there is no field, section or component {name}; {_near(name)}")
    return found


def known_paths() -> list[str]:
    """Return the name of every section, component and field, those of each class once, sorted."""
    return sorted(entry.path for entry in _all() if entry.path)


def way_to(path: str) -> list[Entry]:
    """Return the scenario, and each field and component on the way to a known path, in order."""
    ways: list[list[Entry]] = [[SCENARIO]]
    for step in path.split(".") if path else []:
        ways = [[*way, one] for way in ways for one in _below(way[-1], step)]
    return ways[0]


def _all() -> Iterator[Entry]:
    for part in all_parts():
        yield part
        yield from part.fields


def _reached(steps: list[str]) -> list[Entry]:
    """Return everything that the steps lead to from the scenario on."""
    reached: list[Entry] = [SCENARIO]
    for step in filter(None, steps):
        reached = [one for entry in reached for one in _below(entry, step)]
    return reached


def _below(entry: Entry, step: str) -> list[Entry]:
    if isinstance(entry, Part):
        return [entry.field(step)] if step in entry.model.model_fields else []
    chosen: list[Entry] = [part for part in entry.choices if part.kind == step]
    return chosen or [part.field(step) for part in entry.holders if step in part.model.model_fields]


def _ending_in(steps: list[str]) -> list[Entry]:
    """Return all entries whose names end in the steps, components before fields; else classes of that name."""
    end = [step.lower() for step in steps]
    found = [entry for entry in _all() if entry.path.lower().split(".")[-len(end) :] == end]
    if not found and len(end) == 1:
        return [part for part in all_parts() if part.model.__name__.lower() == end[0]]
    return [entry for entry in found if isinstance(entry, Part)] or found


def _distinct(found: list[Entry]) -> list[Entry]:
    """Drop entries that say the same as an earlier one, as a field that several components inherit does."""
    kept: dict[object, Entry] = {}
    for one in found:
        key = one.model if isinstance(one, Part) else (one.name, one.text, one.type_words, one.default)
        kept.setdefault(key, one)
    return list(kept.values())


def _near(name: str) -> str:
    """Suggest the nearest name: of the section that was named, else of all."""
    above, _, last = name.rpartition(".")
    if above and (holders := _reached(above.split("."))):
        beside = list(dict.fromkeys(one for holder in holders for one in _names_below(holder)))
        near = nearest(last, beside)
        return f"did you mean {above}.{near}?" if near else f"below {above} there are {', '.join(beside)}"
    paths = known_paths()
    near = nearest(name, [*paths, *(path.rpartition(".")[2] for path in paths)])
    return f"did you mean {near}?" if near else f"sections are {', '.join(_names_below(SCENARIO))}"


def _names_below(entry: Entry) -> list[str]:
    if isinstance(entry, Part):
        return [field.name for field in entry.fields]
    return [part.kind for part in entry.choices] + [field.name for part in entry.parts for field in part.fields]


def _own(path: str) -> Part:
    """Return the user's component of an import path, at the first place of its base class. Raises ScenarioError."""
    try:
        model = load_custom(path, Component)
    except PydanticCustomError as error:
        raise ScenarioError(error.message()) from None
    fields = (field for part in all_parts() for field in part.fields)
    holder = next((field for field in fields if field.base is not None and issubclass(model, field.base)), None)
    if holder is None:
        raise ScenarioError(f"{path} derives from no base class of components ({model.__mro__[1].__name__})")
    return Part(model, holder.place, holder.path, path)


# --- the text --------------------------------------------------------------------------------------------------------

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
        override(description, {name: value for name, value in alongside.items() if name in missing}, SCENARIO.model)
    return yaml.dump(description, sort_keys=False, allow_unicode=True, default_flow_style=None, width=76)


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
