"""Departures of a scenario from what a paper prints: settings on which it is silent, or which it prints otherwise.

A paper's list of fields (`papers/<paper>.yaml` beside the folder of experiments, and `prints` of an experiment's file)
says of each what is printed, or `silent`. Captions, the table of claims and the score follow from comparing these with
the scenarios of the cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from asyncfl.base.component import Described
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.experiments.labels import axis_label, value_label

SILENT = "silent"
BOUND = "bound."
"""Prefix of arguments of bounds among the fields of a list."""
ABSENT = object()


class PrintedField(Described):
    """What a paper prints of a field of the scenario."""

    prints: Any = Field()
    """`silent`, the printed value, or a list of the printed values."""
    name: str = ""
    """Its name in words; empty: that of the axis."""

    @property
    def values(self) -> tuple[Any, ...] | None:
        """The printed values; None: the paper is silent."""
        if self.prints == SILENT:
            return None
        return tuple(self.prints) if isinstance(self.prints, list | tuple) else (self.prints,)


PrintedFields = dict[str, PrintedField]
"""Dotted field of the scenario, or `bound.<argument>` -> what is printed of it."""


@dataclass(frozen=True)
class Departure:
    """A field whose values the paper does not state, or states otherwise."""

    field: str
    name: str
    values: tuple[Any, ...]
    """Values that the compared cells have, without those that are printed."""
    prints: tuple[Any, ...] | None
    """None: the paper is silent."""

    def __str__(self) -> str:
        if all(isinstance(value, Mapping) and "kind" not in value for value in self.values):
            return self.name  # a whole section of the scenario
        told = f"{self.name} = {', '.join(self._in_words(self.values))}"
        return told if self.prints is None else f"{told} (printed: {' or '.join(self._in_words(self.prints))})"

    def _in_words(self, values: Iterable[Any]) -> list[str]:
        """Return values in words, each once: settings of one kind that differ elsewhere read alike."""
        return list(dict.fromkeys(_in_words(value, self.field) for value in values))


def _in_words(value: Any, field: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_in_words(one, field) for one in value)
    # numbers stay numbers: an infinite epsilon is one, whatever figures call it
    return value_label(value, field if isinstance(value, str) else "").replace("_", " ")


def departures(printed: Mapping[str, PrintedField], settings: Iterable[Mapping[str, Any]]) -> list[Departure]:
    """Compare the settings of some cells with what is printed, in the order of the list.

    settings: nested values of each cell. A field that a cell does not have is no departure of it.
    """
    cells = list(settings)
    found = []
    for field, about in printed.items():
        values: list[Any] = []
        for value in (value_at(cell, field) for cell in cells):
            known = value is ABSENT or value in values or (about.values is not None and value in about.values)
            values += [] if known else [value]
        if values:
            name = about.name or axis_label(field, plain_text=True)
            found.append(Departure(field, name, tuple(values), about.values))
    return found


def value_at(settings: Mapping[str, Any], field: str) -> Any:
    """Return the value of a dotted field; ABSENT where the scenario has none there."""
    value: Any = settings
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ABSENT
        value = value[part]
    return ABSENT if value is None else plain_value(value)


def plain_value(value: Any) -> Any:
    """Return a value as YAML would read it: lists for tuples."""
    if isinstance(value, Mapping):
        return {key: plain_value(one) for key, one in value.items()}
    return [plain_value(one) for one in value] if isinstance(value, list | tuple) else value


def silent_fields(printed: Mapping[str, PrintedField], changes: Iterable[str]) -> bool:
    """Return whether there are changes, all of fields on which the paper is silent, or of parts of such."""
    silent = [field for field, about in printed.items() if about.values is None]
    changed = list(changes)
    return bool(changed) and all(any(f"{one}.".startswith(f"{field}.") for field in silent) for one in changed)


def texts(found: Iterable[Departure]) -> tuple[str, str]:
    """Return in words (settings on which the paper is silent, settings against the print)."""
    silent: list[str] = []
    against: list[str] = []
    for one in found:
        (silent if one.prints is None else against).append(str(one))
    return "; ".join(dict.fromkeys(silent)), "; ".join(dict.fromkeys(against))


def read_papers(folder: Path, papers: Iterable[str]) -> dict[str, PrintedFields]:
    """Read the lists `<paper>.yaml` of a folder, as far as they are there. Raises ScenarioError."""
    return {paper: _read(folder / f"{paper}.yaml") for paper in papers if (folder / f"{paper}.yaml").is_file()}


def _read(path: Path) -> PrintedFields:
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ScenarioError(f"must hold fields, each with what is printed of it, got {type(raw).__name__}", path)
    return dict(_entries(raw, path))


def _entries(raw: Mapping[str, Any], path: Path) -> Iterator[tuple[str, PrintedField]]:
    faults = []
    for field, about in raw.items():
        try:
            yield field, PrintedField.model_validate(about)
        except ValidationError:
            faults.append(
                Fault(str(field), f"must be {{prints: silent | value | list of values, name: ...}}, got {about!r}")
            )
    if faults:
        raise ScenarioError(faults, path)
