"""Which tables a page shows of a run."""

from typing import Any

import pyarrow as pa

from asyncfl.view.packing import Packing
from asyncfl.view.tables import pack_tables

ROUNDS = {"seed": [3, 3, 3, 3], "version": [0, 1, 2, 3], "time_s": [0.0, 1.0, 2.0, 3.0]}


def shown(judged: list[int] | None, **summary: Any) -> list[tuple[str, int, list[str]]]:
    rounds = pa.table({**ROUNDS, **({} if judged is None else {"judged": judged, "detector_rank": [1.0] * 4})})
    found = pack_tables({"rounds": rounds}, summary, Packing())
    return [(one["name"], one["rows"], [column["name"] for column in one["columns"]]) for one in found]


def test_a_detector_has_a_row_for_each_judged_version() -> None:
    rounds = ("rounds", 4, ["seed", "version", "time_s"])
    assert shown(None) == [rounds]
    assert shown([0, 0, 0, 0]) == [rounds]
    columns = ["seed", "version", "time_s", "judged", "detector_rank"]
    assert shown([0, 1, 0, 5]) == [rounds, ("detector", 2, columns)]
