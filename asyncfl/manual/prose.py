"""A docstring taken apart: its first sentence, what it says beyond, and where it comes from."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_SOURCE = re.compile(r"\bSources?: (.+?)(?:\.(?=\s+[A-Z`])|\.?\s*$)", flags=re.DOTALL)
"""`Source: Blanchard et al. 2017, section 4.`: up to the full stop that ends the sentence (that of `et al. 2017` does
not), or to the end of the paragraph."""


class Prose(NamedTuple):
    """What a docstring says."""

    summary: str
    """Its first paragraph in one line."""
    body: tuple[str, ...]
    """The other paragraphs, each in one line; those that are indented or lists (formulas, tables) as they are."""
    source: str
    """What follows `Source:`; empty where it names none."""

    @property
    def text(self) -> str:
        """All of it but the source, paragraphs apart."""
        return "\n\n".join(filter(None, [self.summary, *self.body]))


def prose_of(docstring: str | None) -> Prose:
    """The parts of a docstring; all empty for none."""
    sources: list[str] = []

    def without_source(paragraph: str) -> str:
        found = _SOURCE.search(paragraph)
        if found is None:
            return paragraph
        sources.append(found[1].strip())
        return " ".join(filter(None, (paragraph[: found.start()].strip(), paragraph[found.end() :].lstrip(". "))))

    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring or ""))
    told = [without_source(joined(paragraph)) for paragraph in paragraphs]
    summary, *body = told
    return Prose(summary, tuple(filter(None, body)), "; ".join(sources))


def joined(paragraph: str) -> str:
    """A paragraph in one line; one with indented lines or list items stays as it is."""
    lines = paragraph.splitlines()
    if any(line.startswith(("    ", "- ", "| ")) for line in lines):
        return paragraph
    return " ".join(line.strip() for line in lines)


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence, without it."""
    return re.split(r"\.(?=\s+[A-Z`]|\s*$)", text, maxsplit=1)[0]
