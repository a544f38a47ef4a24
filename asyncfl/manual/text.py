"""What is known of a field, section or component, as lines for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from asyncfl.manual.example import example_text, setting
from asyncfl.manual.logged import logged_by
from asyncfl.manual.lookup import Entry
from asyncfl.manual.measured import remembered, using
from asyncfl.manual.parts import FieldEntry, Part
from asyncfl.manual.prose import first_sentence, joined
from asyncfl.manual.verdicts import DECIDED, kept

LABELS = 10
"""Characters of the labels on the left: `default   `."""


def explained(entry: Entry, width: int) -> str:
    """All of it in lines of at most `width` characters, but for words and examples that are wider."""
    lines = _of_part(entry, width) if isinstance(entry, Part) else _of_field(entry, width)
    return "\n".join(line.rstrip() for line in lines)


def _of_part(part: Part, width: int) -> Iterator[str]:
    yield part.path if part.path else "scenario"
    yield ""
    for paragraph in (part.prose.summary, *part.prose.body):
        yield from _paragraph(paragraph, width)
        yield ""
    yield from _labelled("source", part.source, width)
    yield from _labelled("class", f"{part.model.__module__}.{part.model.__qualname__}", width)
    yield from _labelled("logged", ", ".join(f"{one.table}.{one.name}" for one in logged_by(part.model)), width)
    for paragraph in filter(None, re.split(r"\n\s*\n", part.theory if part.kind else "")):
        yield ""
        yield from _paragraph(joined(paragraph), width)
    yield from _fields(part, width)
    yield from _measured(part, width)
    yield from _example(part)


def _measured(part: Part, width: int) -> Iterator[str]:
    """Experiments of this repository that use a component, and the claims that name it and were decided."""
    found, uses = using(part, remembered()) if part.kind else ([], 0)
    if not uses:
        return
    yield ""
    yield f"Measured ({kept().date}; at quick scale verdicts tell which way to look)"
    if len(found) < uses:
        yield ""
        yield from _paragraph(f"Part of {uses} experiments; here are those with claims that name it.", width, "  ")
    for one in found:
        yield ""
        yield from _paragraph(f"{one.name}  {one.tally}", width, "  ")
        for claim in one.claims_about(part):
            if claim.verdict in DECIDED:
                yield from _paragraph(f"{claim.verdict}: {claim.says}: {claim.measured}", width, "      ")


def _fields(part: Part, width: int) -> Iterator[str]:
    for field in part.fields:
        yield ""
        yield f"  {field.name}"
        yield from _paragraph(_facts(field), width, "      ")
        yield from _paragraph(first_sentence(field.text), width, "      ")


def _facts(field: FieldEntry) -> str:
    """Type, range, unit and default in a line."""
    unit = "" if field.unit in ("", "1") else field.unit
    default = "must be given" if field.required else f"default {field.default}"
    return "; ".join(filter(None, [field.type_words, field.range, unit, default]))


def _of_field(field: FieldEntry, width: int) -> Iterator[str]:
    yield field.path
    yield ""
    yield from _paragraph(field.text, width)
    yield ""
    yield from _labelled("type", field.type_words, width)
    yield from _labelled("unit", "none" if field.unit == "1" else field.unit, width)
    yield from _labelled("range", field.range, width)
    yield from _labelled("default", field.default or "none, must be given", width)
    yield from _labelled("source", field.source, width)
    if field.base is not None:
        own = f"kind: my_module:MyClass, derived from {field.base.__module__}.{field.base.__qualname__}"
        yield from _labelled("own", own, width)
    for part in field.choices:
        yield ""
        yield f"  {part.kind}"
        yield from _paragraph(part.prose.summary, width, "      ")
    for part in field.parts:
        if not part.kind:
            yield from _fields(part, width)
    yield from _example(field)


def _example(entry: Entry) -> Iterator[str]:
    yield ""
    yield "Example"
    yield ""
    yield from textwrap.indent(example_text(entry), "  ").splitlines()
    if (changes := setting(entry)) is not None:
        yield ""
        yield from (f"  {line}" for line in changes)


def _labelled(label: str, text: str, width: int) -> Iterator[str]:
    if text:
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=label.ljust(LABELS),
            subsequent_indent=" " * LABELS,
            break_long_words=False,
            break_on_hyphens=False,
        )


def _paragraph(text: str, width: int, indent: str = "") -> Iterator[str]:
    """A paragraph within the width; one of several lines, a formula or a list, stays as it is."""
    if "\n" in text:
        yield from textwrap.indent(text, indent).splitlines()
    elif text:
        yield from textwrap.wrap(
            text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )


def facts(entry: Entry) -> dict[str, Any]:
    """The same as plain values, for programs."""
    if isinstance(entry, FieldEntry):
        return {
            "name": entry.path,
            "says": entry.text,
            "type": entry.type_words,
            "unit": entry.unit,
            "range": entry.range,
            "default": entry.default,
            "source": entry.source,
            "kinds": [part.kind for part in entry.choices],
            "example": example_text(entry),
        }
    return {
        "name": entry.path or "scenario",
        "says": entry.prose.text,
        "source": entry.source,
        "class": f"{entry.model.__module__}.{entry.model.__qualname__}",
        "logged": [f"{one.table}.{one.name}" for one in logged_by(entry.model)],
        "theory": entry.theory,
        "fields": [facts(field) for field in entry.fields],
        "measured": [
            {"experiment": one.name, **asdict(claim)}
            for one in (using(entry, remembered())[0] if entry.kind else ())
            for claim in one.claims_about(entry)
        ],
        "example": example_text(entry),
    }
