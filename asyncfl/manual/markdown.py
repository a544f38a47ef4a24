"""Docstrings as Markdown: code stays code, and nothing else is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CODE = re.compile(r"(`[^`]+`)")
_MARKS = {"<": "&lt;", "|": "&#124;"} | {mark: f"\\{mark}" for mark in "*_[]#"}


def escaped(text: str) -> str:
    """`text` with marks of Markdown and HTML as plain characters; what stands between backticks stays."""
    pieces = _CODE.split(text)
    return "".join(piece if number % 2 else _plain(piece) for number, piece in enumerate(pieces))


def _plain(text: str) -> str:
    return "".join(_MARKS.get(letter, letter) for letter in text)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a docstring as blocks of Markdown: formulas (indented) as code, lists as lists."""
    blocks: list[str] = []
    for paragraph in filter(None, re.split(r"\n\s*\n", text.strip("\n"))):
        lines = paragraph.splitlines()
        if all(line.startswith("    ") for line in lines):
            inner = "\n".join(line.removeprefix("    ") for line in lines)
            # Two formulas with an empty line between them are one block.
            if blocks and blocks[-1].endswith("```") and blocks[-1].startswith("```text"):
                blocks[-1] = f"{blocks[-1][: -len('```')]}\n{inner}\n```"
            else:
                blocks.append(f"```text\n{inner}\n```")
        elif lines and lines[0].startswith("- "):
            items = re.split(r"\n(?=- )", paragraph)
            blocks.append("\n".join("- " + escaped(_one_line(item[2:])) for item in items))
        elif any(line.startswith("    ") for line in lines):
            blocks.append(f"```text\n{paragraph}\n```")
        else:
            blocks.append(escaped(_one_line(paragraph)))
    return [block for block in blocks if block]


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; cells are Markdown themselves."""
    lines = [head, ["---" for _ in head], *rows]
    return "\n".join("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |" for line in lines)
