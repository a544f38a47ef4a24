"""Which tables a page shows of a run."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from asyncfl.privacy.ledger.rows import COLUMNS as LEDGER
from asyncfl.view.packing import Packing
from asyncfl.view.tables import _column, _summary, _table, says, tables_shown

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


def test_rows_of_the_summary_have_numbers_of_all_fates() -> None:
    one = {"stopped": "interrupted", "versions": 3, "virtual_s": 9.0, "fates": {"lost_up": 2, "lost_down": 0}}
    other = {"stopped": "all versions published", "versions": 5, "virtual_s": 9.5, "tasks": {"sent_late": 1}}
    table = _summary({"seeds": {"3": one, "4": other}})
    assert table.to_pylist() == [
        {"seed": 3, "ended because": "interrupted", "versions": 3, "virtual_s": 9.0, "lost up": 2,
         "tasks sent late": 0},
        {"seed": 4, "ended because": "all versions published", "versions": 5, "virtual_s": 9.5, "lost up": 0,
         "tasks sent late": 1},
    ]  # fmt: skip


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


def test_columns_are_told_with_unit_and_meaning_and_truths_in_words() -> None:
    packing = Packing()
    about = _column("time_s", pa.chunked_array([[1.0, None]]), packing)
    assert (about["unit"], about["t"], about["n"]) == ("s", "f8", 2)
    assert about["meaning"]
    truths = _column("own", pa.chunked_array([[True, None, False]]), packing)
    assert [truths["texts"], truths["meaning"], truths["unit"]] == [["yes", "", "no"], "", ""]
    texts = _column("status", pa.chunked_array([["proven", None]]), packing)
    assert (texts["texts"], texts["meaning"]) == (["proven", ""], LEDGER["status"])
    silent = _table("own", pa.table({"a": [1], "b": [None]}), ["first"], packing)
    assert (silent["about"], silent["rows"]) == (["first", "Columns without values are left out: b."], 1)
