"""All that is shown of a trace told by hand: Chrome trace, tables, lives of tasks, comparison, against a written text.

`python tests/trace/test_views.py` writes the text anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from asyncfl.trace.compare import compare
from asyncfl.trace.follow import follow
from asyncfl.trace.perfetto import chrome_trace
from asyncfl.trace.requests import requests_of
from asyncfl.trace.spending import Spending
from asyncfl.trace.tabulate import By, tabulate
from asyncfl.trace.tasks import tasks_of

TEXT = Path(__file__).with_name("views.txt")
SPENT = [Spending(seed, "server", np.array([0.0, 5.0]), np.array([0.0, 1.5])) for seed in (3, 9)]
ROUNDS = pa.table({"seed": [3, 3], "version": [0, 1], "test_accuracy": [float("nan"), 0.5]})


def _of_seed(story: pa.Table, seed: int) -> pa.Table:
    return story.set_column(story.column_names.index("seed"), "seed", pa.array([seed] * len(story), pa.int64()))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _said(value: Any) -> str:
    return json.dumps(_plain(value))


def _lines(story: pa.Table) -> Iterator[str]:
    both = pa.concat_tables([story, _of_seed(story, 9)]).cast(story.schema)
    yield "Chrome trace of two seeds"
    yield from chrome_trace(both, "a story", SPENT)
    yield "Chrome trace of clients 0 and 3 alone"
    yield from chrome_trace(story, "a story", clients=[0, 3])
    tasks, requests = tasks_of(both), requests_of(both)
    for by in get_args(By):
        yield f"by {by}"
        yield from (_said(row) for row in tabulate(tasks, by, requests).to_pylist())
    for task in (0, 1, 2, 3, 4, 6, 7):
        life = asdict(follow(both, task, seed=9))
        yield _said(
            {name: value for name, value in life.items() if name != "steps"} | {"said": follow(story, task).headline}
        )
        yield from (f"  {_said(step)}" for step in life["steps"])
    rows = story.to_pylist()
    rows[10] |= {"client": 7, "weight": 0.5}
    rows[-8] |= {"staleness": 3}
    other = pa.Table.from_pylist(rows[:-2], schema=story.schema)
    [seed] = compare(story, other, ROUNDS, ROUNDS.slice(0, 1)).seeds
    yield "a change"
    yield _said([seed.same, seed.changed_fates, asdict(seed.events), asdict(seed.rounds)])
    yield from (_said(asdict(line)) for line in seed.lines)


def test_what_is_shown_is_what_is_written_down(story: pa.Table) -> None:
    written, there = TEXT.read_text(encoding="utf-8").splitlines(), list(_lines(story))
    gone, new = [one for one in written if one not in there], [one for one in there if one not in written]
    assert (gone, new) == ([], []), "if this is meant: python tests/trace/test_views.py"
    assert written == there


if __name__ == "__main__":
    from conftest import told

    TEXT.write_text("".join(f"{line}\n" for line in _lines(told())), encoding="utf-8")
