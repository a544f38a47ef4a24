"""Which tables a page shows of a run."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from asyncfl.view.packing import Packing
from asyncfl.view.tables import says, tables_shown

ROUNDS = {"seed": [3, 3, 3, 3], "version": [0, 1, 2, 3], "time_s": [0.0, 1.0, 2.0, 3.0]}


def shown(judged: list[int] | None, **summary: Any) -> list[tuple[str, int, list[str]]]:
    rounds = pa.table({**ROUNDS, **({} if judged is None else {"judged": judged, "detector_rank": [1.0] * 4})})
    found = tables_shown({"rounds": rounds}, summary, Packing())
    return [(one["name"], one["rows"], [column["name"] for column in one["columns"]]) for one in found]


def test_a_detector_has_a_row_for_each_judged_version() -> None:
    rounds = ("rounds", 4, ["seed", "version", "time_s"])
    assert shown(None) == [rounds]
    assert shown([0, 0, 0, 0]) == [rounds]
    columns = ["seed", "version", "time_s", "judged", "detector_rank"]
    assert shown([0, 1, 0, 5]) == [rounds, ("detector", 2, columns)]


@pytest.mark.parametrize(
    ("column", "says_something"),
    [
        (pa.chunked_array([[math.nan, math.nan]]), False),
        (pa.chunked_array([[math.nan, 0.0]]), True),
        (pa.chunked_array([["", None]], pa.string()), False),
        (pa.chunked_array([["", "a"]]), True),
        (pa.chunked_array([pa.array(["", ""]).dictionary_encode()]), False),
        (pa.chunked_array([[None, None]], pa.int64()), False),
        (pa.chunked_array([[None, 0]], pa.int64()), True),
        (pa.chunked_array([[None, False]], pa.bool_()), True),
    ],
)
def test_a_column_of_gaps_says_nothing(column: Any, says_something: bool) -> None:
    assert says(column) is says_something
