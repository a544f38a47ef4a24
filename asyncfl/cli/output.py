"""How commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    # Nothing is cut off for the sake of a width when a file or another program reads.
    console = Console(highlight=False, soft_wrap=True, width=10_000)


def number(value: Any) -> str:
    """A value in a table: seven digits of a float, an em dash for nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table without frame; numbers stand on the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        numeric = all(isinstance(row[place], int | float) or row[place] is None for row in rows) and bool(rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*[number(value) for value in row])
    console.print(table)


def print_json(value: Any) -> None:
    """`value` as JSON; infinities and NaN, which JSON lacks, become null."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
