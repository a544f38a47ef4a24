"""A run as a card of HTML, as notebooks show it: what was simulated, the end of each seed, and of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

LAST = 3
"""Rows at the end of each table."""
FIRST_COLUMNS = ("seed", "version", "time_s", "train_loss", "test_accuracy", "test_r2", "epsilon_exact_max")
"""Columns of the table of rounds that are shown of each seed's last version, where it has them."""


def run_card(title: str, tables: Mapping[str, pa.Table], summary: Mapping[str, Any]) -> str:
    """Return the card as HTML. All texts are escaped: names in a run may come from somebody else.

    title: what was simulated. summary: content of `summary.json`; parts that it lacks are left out.
    """
    parts = [f"<b>{escape(title)}</b>"]
    seeds = summary.get("seeds", {})
    ended = "; ".join(dict.fromkeys(str(one["stopped"]) for one in seeds.values() if "stopped" in one))
    parts += [f"<div>{escape(ended)}</div>"] if ended else []
    if "rounds" in tables:
        rounds = tables["rounds"]
        shown = [name for name in FIRST_COLUMNS if name in rounds.column_names]
        last = rounds.select(shown).to_pandas().drop_duplicates("seed", keep="last")
        # epsilon is infinite without privacy
        parts.append(_table(last.loc[:, np.isfinite(last).any()]))
    for name, table in tables.items():
        rows, columns = f"{len(table):,} row{'' if len(table) == 1 else 's'}", len(table.column_names)
        end = table.slice(max(0, len(table) - LAST)).to_pandas()
        about = f"<code>run.{escape(name)}</code>: {rows}, {columns} columns"
        parts.append(f"<details><summary>{about}</summary>{_table(end)}</details>")
    if notes := [*summary.get("privacy", []), *summary.get("notes", [])]:
        items = "".join(f"<li>{escape(str(note))}</li>" for note in notes)
        parts.append(f"<details><summary>privacy and notes: {len(notes)}</summary><ul>{items}</ul></details>")
    return f"<div>{''.join(parts)}</div>"


def _table(frame: pd.DataFrame) -> str:
    rows = frame.to_html(index=False, border=0, na_rep="–", float_format="{:.6g}".format)
    return f'<div style="overflow-x: auto">{rows}</div>'
