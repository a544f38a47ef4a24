"""The glossary: symbols of papers, and the fields, code and equations that they lead to (`glossary.md` beside this)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

HEADER = "symbol"


@dataclass(frozen=True)
class Symbol:
    """A row of the glossary."""

    paper: str
    """Heading of its table."""
    symbol: str
    """One symbol or several, separated by commas."""
    meaning: str
    field: str
    """Field of a scenario that sets it; empty: none does."""
    code: str
    """Function or class below `asyncfl` that computes it."""
    equation: str

    def in_words(self) -> str:
        """Return the row as one sentence for a terminal."""
        places = (("set by ", self.field), ("computed in asyncfl.", self.code), ("source: ", self.equation))
        told = "; ".join(f"{place}{value}" for place, value in places if value)
        return f"{self.symbol}, {self.paper}: {self.meaning}" + (f"; {told}" if told else "")


def glossary_text() -> str:
    """Return the page of the glossary as Markdown."""
    return files("asyncfl.manual").joinpath("glossary.md").read_text(encoding="utf-8")


@cache
def glossary() -> tuple[Symbol, ...]:
    """Return all rows of the glossary."""
    return tuple(_rows(glossary_text()))


def _rows(text: str) -> Iterator[Symbol]:
    paper = ""
    for line in text.splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ").partition(" (")[0]
        elif line.startswith("|") and not line.startswith(("|--", f"| {HEADER}")):
            cells = (cell.strip().replace("\\|", "|").replace("`", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            yield Symbol(paper, *cells)


def symbols_named(name: str) -> list[Symbol]:
    """Return the rows of a symbol, in its own case: `L`, `sigma_U`. Rows without a symbol have no name."""
    return [] if not name else [row for row in glossary() if name in {one.strip() for one in row.symbol.split(",")}]
