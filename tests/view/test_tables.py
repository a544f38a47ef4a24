"""Which tables a page shows of a run."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from asyncfl.view.packing import Packing
from asyncfl.view.tables import tables_shown

ROUNDS = {"seed": [3, 3, 3, 3], "version": [0, 1, 2, 3], "time_s": [0.0, 1.0, 2.0, 3.0]}


def shown(judged: list[int] | None, **summary: Any) -> list[tuple[str, int, list[str]]]:
    rounds = pa.table({**ROUNDS, **({} if judged is None else {"judged": judged, "detector_rank": [1.0] * 4})})
    found = tables_shown({"rounds": rounds}, summary, Packing())
    return [(one["name"], one["rows"], [column["name"] for column in one["columns"]]) for one in found]


def test_a_detector_has_a_row_for_each_version_in_which_it_judged() -> None:
    rounds = ("rounds", 4, ["seed", "version", "time_s"])
    assert shown(None) == [rounds]
    assert shown([0, 0, 0, 0]) == [rounds]
    columns = ["seed", "version", "time_s", "judged", "detector_rank"]
    assert shown([0, 1, 0, 5]) == [rounds, ("detector", 2, columns)]


def test_the_summary_has_a_row_for_each_seed() -> None:
    one = {"stopped": "interrupted", "versions": 3, "virtual_s": 9.0, "fates": {"lost_up": 2, "lost_down": 0}}
    other = {"stopped": "all versions published", "versions": 5, "virtual_s": 9.5, "tasks": {"sent_late": 1}}
    summary = shown(None, seeds={"3": one, "4": other})[0]
    assert summary[:2] == ("summary", 2)
    assert summary[2] == ["seed", "ended because", "versions", "virtual_s", "lost up", "tasks sent late"]
