"""All that pages of two runs carry, against a written list. What training measured is replaced by numbers of our own.

`python tests/view/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types
import pytest

from asyncfl.api import simulate
from asyncfl.scenario import Scenario
from asyncfl.storage import Run
from asyncfl.trace.tasks import tasks_of
from asyncfl.view import Window, page
from tests.view.conftest import BUSY
from tests.view.test_packing import read_back
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
BASE: dict[str, Any] = {
    "data": {"dataset": "iris", "clients": 6, "samples_per_client": 20},
    "model": {"kind": "linear"},
    "training": {"lr": 0.05, "batch_size": 10},
    "protocol": {"kind": "sync", "rounds": 3},
    "world": {"uplink": {"latency_s": 0.05, "bandwidth_bps": 1e4}},
}
MEASURED = ("rounds", "audit")
"""Tables that hold what training came to."""


def _ours(table: pa.Table) -> pa.Table:
    """A table whose measured columns go up and down by halves."""
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if types.is_floating(column.type) and not name.endswith("_s") and column.null_count == 0:
            made = (np.arange(len(column)) * 7 % 11 + place % 3) / 2
            table = table.set_column(place, name, pa.array(np.where(np.isnan(column.to_numpy()), np.nan, made)))
    return table


@cache
def _run(**changes: Any) -> Run:
    run = simulate(Scenario.read(BASE).override(BUSY | {name.replace("__", "."): one for name, one in changes.items()}))
    tables = {name: _ours(table) if name in MEASURED else table for name, table in run.tables.items()}
    return replace(run, tables=tables)


def _busy() -> Run:
    return _run()


def _other() -> Run:
    return _run(world__dropout=0.5, evaluation__audit=None, seeds=(0, 2))


def _carried(text: str) -> Any:
    """What a page carries, its columns as numbers."""
    header, numbers = read_back(text.split('<script id="data" type="application/octet-stream">')[1].split("</")[0])

    def spelt(value: Any) -> Any:
        if isinstance(value, dict):
            told = {name: spelt(one) for name, one in value.items() if name not in ("t", "o", "n")}
            return told | {"column": [value["t"], np.array(numbers(value))]} if "o" in value else told
        return [spelt(one) for one in value] if isinstance(value, list) else value

    return spelt(header)


def _whole(**how: Any) -> Any:
    found = _carried(page(_busy(), "run", **how))
    del found["fates"], found["kinds"]
    for seed in found["runs"][0]["seeds"]:
        # As long as a run; the order of tasks and what is told of them is seen by their sums.
        seed["events"]["detail"]["texts"] = seed["events"]["detail"]["texts"][:5]
    return found


def _windowed(**how: Any) -> Any:
    """Of a page that shows less than all tasks, what that changes."""
    [run] = _whole(**how)["runs"]
    return {name: run[name] for name in ("window", "asked", "clients", "seeds")}


def _compared(one: Callable[[], Run], other: Callable[[], Run], **how: Any) -> Any:
    found = _carried(page(one(), "one", other=(other(), "other"), **how))
    shown = [[run["window"], [seed.get("density", {}).get("lanes") for seed in run["seeds"]]] for run in found["runs"]]
    return {"compared": found["compared"], "runs": shown}


def _fewest() -> int:
    return min(len(tasks_of(run().tables["events"])) for run in (_busy, _other))


CALLS: dict[str, Callable[[], Any]] = {
    "a whole run": partial(_whole, going="going", reload_s=2.5),
    "a window": partial(_windowed, window=Window(since_s=1.0, until_s=3.0)),
    "a window of a seed": partial(_windowed, window=Window(since_s=1.5, seed=1)),
    "a density": partial(_windowed, most_tasks=12),
    "a density and a window": partial(_windowed, window=Window(since_s=1.0, until_s=2.5), most_tasks=12),
    "two runs": partial(_compared, _busy, _other),
    "two runs, the other way round": partial(_compared, _other, _busy),
    "two runs of which one is dense": lambda: _compared(_busy, _other, most_tasks=2 * _fewest()),
    "a run and itself": partial(_compared, _busy, _busy),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_page_carries_is_what_was_written_down(name: str) -> None:
    compare(LIST, name, CALLS[name])


if __name__ == "__main__":
    write(LIST, CALLS)
