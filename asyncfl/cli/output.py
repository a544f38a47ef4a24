"""Printing for all commands: tables and sentences for people, JSON for programs."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from asyncfl.base.errors import printable
from asyncfl.base.plain_json import plain_json

_NO_TERMINAL = 10_000  # width of a console that is no terminal
_GAP = 2  # characters between two columns
_DIGITS = 7  # significant digits of a float in a table
_TEXT = 80  # characters in a line of text outside a terminal


class _PlainConsole(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def plain_console(**options: Any) -> Console:
    """Return a new console that prints text as it is, control characters escaped: no markup, no emoji."""
    return _PlainConsole(highlight=False, soft_wrap=True, markup=False, emoji=False, **options)


console = plain_console()
if not console.is_terminal:
    # A file or another program has no width: tables stay whole.
    console = plain_console(width=_NO_TERMINAL)


def format_number(value: Any) -> str:
    """Return the text of a value in a table: seven digits of a float, an em dash for None and NaN."""
    if value is None or value != value:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)


def rounded_difference(one: float, other: float) -> float:
    """Compute `other - one` of the numbers as `format_number` prints them."""
    if isinstance(other - one, int):
        return other - one
    return float(f"{other:.{_DIGITS}g}") - float(f"{one:.{_DIGITS}g}")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], to: Console | None = None, keys: int = 1
) -> None:
    """Print a table without a frame; numbers are right-aligned.

    A table that is wider than the terminal is split into several tables below each other. Each begins with the first
    `keys` columns, which identify a row. A cell that is still too wide continues on the next line.
    """
    to = to or console
    cells = [[format_number(value) for value in row] for row in rows]
    widths = [max(map(cell_len, [name, *(row[place] for row in cells)])) for place, name in enumerate(columns)]
    for order, places in enumerate(_blocks(widths, to.width, keys)):
        if order:
            to.print()
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for place in places:
            numeric = rows and all(isinstance(row[place], int | float | None) for row in rows)
            table.add_column(columns[place], justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            table.add_row(*[row[place] for place in places])
        to.print(table)


def print_rows(rows: Sequence[dict[str, Any]], keys: int = 1) -> None:
    """Print a table of rows with the same columns, at least one."""
    print_table(list(rows[0]), [list(row.values()) for row in rows], keys=keys)


def _blocks(widths: Sequence[int], width: int, keys: int) -> list[list[int]]:
    """Split columns into blocks that fit into `width`, and return the indices of the columns of each block."""
    keys = min(keys, len(widths))
    while keys > 1 and sum(widths[:keys]) + keys * _GAP > width // 2:
        keys -= 1
    blocks = [list(range(keys))]
    used = key_width = sum(widths[:keys]) + (keys - 1) * _GAP
    for place in range(keys, len(widths)):
        if used + _GAP + widths[place] > width and len(blocks[-1]) > keys:
            blocks.append(list(range(keys)))
            used = key_width
        blocks[-1].append(place)
        used += _GAP + widths[place]
    return blocks


def print_text(*sentences: str, to: Console | None = None) -> None:
    """Print each sentence, broken between words at the width of the terminal; further lines are indented."""
    to = to or console
    for text in sentences:
        broken = textwrap.fill(
            text, text_width(to), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        to.print(broken)


def text_width(to: Console | None = None) -> int:
    """Return the number of characters in a line of text."""
    width = (to or console).width
    return _TEXT if width == _NO_TERMINAL else width


def print_json(value: Any) -> None:
    """Print `value` as JSON; infinities and NaN, which JSON lacks, become null."""
    whole = "utf" in (sys.stdout.encoding or "utf-8").lower()
    print(json.dumps(plain_json(value), indent=2, ensure_ascii=not whole))
