"""What is told of a component with fields of every sort, and of experiments with it, against a written list.

`python tests/manual/test_told.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from asyncfl.manual import pages, starter, text
from asyncfl.manual.example import example_of, setting
from asyncfl.manual.lookup import find
from asyncfl.manual.measured import ClaimSaid, Experimented
from asyncfl.manual.parts import FieldEntry, Part, scenario_part
from asyncfl.manual.verdicts import Kept
from tests.manual.own_rule import Everything, Inner
from tests.written import compare, write

LIST = Path(__file__).with_name("told.json")
PART = Part(Everything, "protocol.staleness", "protocol.buffered.staleness", "my_rules:Everything")
SECTION = Part(Inner, "world.tap", "world.tap")
PLACES = ["protocol.staleness", "protocol.other", "defence.staleness"]
CLAIMS = (
    ClaimSaid("Everything is well", "holds", "", "holds", "by [0.4, 0.6] (full scale, 5 seeds)"),
    ClaimSaid("a my rules:Everything falls", "fails", "it | rises", "does not hold", "0.1 (a formula)"),
    ClaimSaid("Everything is open", "holds", "", "not decided", "0 (quick scale, 1 seed)"),
    ClaimSaid("another thing", "holds"),
)
JUDGED = Experimented("own/all", "All_of it", "Somebody [1]", CLAIMS, frozenset({Everything}))
ASKED = Experimented(
    "own/why", "Why", "ours", (ClaimSaid("Everything *", "fails", "as it is"),), frozenset({Everything})
)
PLAIN = Experimented("plain", "Plain", "ours", (ClaimSaid("Everything", "fails"),), frozenset({Everything}))
BARE = Experimented("bare", "Bare", "ours", (), frozenset({Inner}))
OTHER = Experimented("other", "Other", "ours", (ClaimSaid("nothing", "holds"),), frozenset({Inner}))


def _explained(entry: Part | FieldEntry, width: int, *experiments: Experimented) -> list[str]:
    with _with(experiments):
        return text.explained(entry, width).split("\n")


def _measured(*experiments: Experimented) -> list[str]:
    lines = _explained(PART, 80, *experiments)
    return lines[next((place for place, line in enumerate(lines) if line.startswith("Measured")), len(lines)) :]


def _facts(entry: Part | FieldEntry, *experiments: Experimented) -> Any:
    with _with(experiments):
        return text.facts(entry)


def _with(experiments: Any) -> Any:
    return mock.patch.multiple(text, remembered=lambda: list(experiments), kept=lambda: Kept("2020-02-02", {}))


def _with_pages() -> Any:
    return mock.patch.multiple(
        pages, kept=lambda: Kept("2020-02-02", {}), sections=lambda: [SECTION], places_of=lambda model: PLACES
    )


def _page(*experiments: Experimented) -> list[str]:
    with _with_pages():
        return "\n\n".join(pages._component(PART, experiments)).split("\n")


def _end_of_page(*experiments: Experimented) -> list[str]:
    lines = _page(*experiments)
    return lines[lines.index("## What was measured here") :]


def _experiments(*experiments: Experimented) -> Any:
    with _with_pages():
        return {page: told.split("\n") for page, told in pages.experiment_pages(experiments).items()}


def _of_a_kind(kind: str) -> list[str]:
    """Lines of a starter that set something: words of others' classes are left out."""
    return [line for line in starter.starter(kind, "mine.yaml").split("\n") if "#" not in line or "mine" in line]


@cache
def _reference() -> dict[str, str]:
    return pages.reference_pages()


def _shape(file: str) -> list[str]:
    """Headings of sections, links and heads of tables of a page of the reference."""
    lines = _reference()[file].split("\n")
    fields = f"{sum(line.startswith('### ') for line in lines)} fields"
    return [fields] + [
        line.partition(" | ")[0] for line in lines if re.match(r"##? |A section|\| (kind|section|\[)", line)
    ]


def _example(name: str) -> Any:
    (entry,) = find(name)
    return [example_of(entry), setting(entry)]


EXAMPLES = (
    *("world", "training", "defence.rule", "data.partition.dirichlet.alpha", "seeds", "world.power"),
    *("threats.attack", "defence.rule.krum.pre", "world.uplink.latency_s", "world.uplink", "privacy.nbafl.stop_at"),
    *("model.mlp.hidden", "compression", "evaluation.keep"),
)
FIELDS = {field.name: field for field in PART.fields}
CALLS: dict[str, Callable[[], Any]] = {
    "explained": partial(_explained, PART, 60, JUDGED, ASKED, BARE, OTHER, BARE),
    "explained, narrow, of several": partial(_explained, PART, 40, JUDGED, OTHER, ASKED),
    "measured where every one uses it": partial(_measured, JUDGED, PLAIN),
    "measured where half use it": partial(_measured, JUDGED, OTHER),
    "measured without experiments": partial(_measured, BARE),
    "a section": partial(_explained, SECTION, 60, JUDGED),
    **{f"field {name}": partial(_explained, field, 60) for name, field in FIELDS.items()},
    "beginnings": lambda: [text.explained(scenario_part(), 40).split("\n")[0], text.facts(scenario_part())["name"]],
    "facts": partial(_facts, PART, JUDGED, OTHER),
    "page": partial(_page, JUDGED, OTHER),
    "end of a page of which nothing is decided": partial(_end_of_page, ASKED, OTHER, BARE),
    "end of a page of what all use": partial(_end_of_page, JUDGED, ASKED, BARE),
    "end of a page of what none uses": partial(_end_of_page, BARE),
    "end of a page of a plain claim": partial(_end_of_page, PLAIN, BARE),
    "section of a page": lambda: "\n\n".join(pages._section_blocks(SECTION)).split("\n"),
    "experiments": partial(_experiments, JUDGED, BARE, ASKED),
    "experiments without verdicts": partial(_experiments, PLAIN, BARE),
    "set in a starter": lambda: list(
        starter._section(PART, {"wait_s": 2.0, "inner": {"depth": 4}, "names": {"a": 1}}, "  ")
    ),
    "lines of a starter": lambda: [line for kind in ("attack", "own-data") for line in _of_a_kind(kind)],
    "reference of privacy": partial(_shape, "reference/privacy.md"),
    "reference of the world": partial(_shape, "reference/world.md"),
    "reference of a scenario": partial(_shape, "reference/scenario.md"),
    **{f"example of {name}": partial(_example, name) for name in EXAMPLES},
    "title and path": lambda: [[part.title, part.path] for part in (PART, SECTION, scenario_part())],
    "required": lambda: [field.name for field in PART.fields if field.required is True],
    "plain fields": lambda: [[field.name, field.many, field.keyed, len(field.parts)] for field in PART.fields],
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_told_is_what_was_written_down(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    write(LIST, CALLS)
