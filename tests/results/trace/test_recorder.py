"""Recording events, keeping them on disk, and choosing among them."""

import math
import tempfile
from inspect import signature
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from asyncfl.base.files.batch_spool import BatchSpool
from asyncfl.base.tables import REQUIRED, columns_of
from asyncfl.protocol import recorder
from asyncfl.protocol.event_query import counts, select
from asyncfl.protocol.events import SCHEMA, EventsTable, Kind
from asyncfl.protocol.recorder import Recorder
from asyncfl.testing.laws import same


@pytest.fixture
def events() -> pa.Table:
    book = Recorder(seed=3)
    book.add(0.0, Kind.PUBLISHED, version=0, detail="initial model")
    for task in range(4):
        book.add(1.0 + task, Kind.DISPATCHED, task=task, client=task % 2, version=0, base_version=0)
    book.add(6.0, Kind.AGGREGATED, task=2, client=0, version=1, staleness=1, weight=0.5)
    return book.table()


def test_events_are_in_order_with_blanks_in_columns_that_were_not_given(events: pa.Table) -> None:
    assert events.schema == SCHEMA
    assert events["seq"].to_pylist() == list(range(6))
    first, last = (SimpleNamespace(**events.to_pylist()[row]) for row in (0, -1))
    assert (first.kind, first.seed, first.client, first.detail) == ("published", 3, -1, "initial model")
    assert {first.task, first.client, first.base_version, first.staleness, first.bytes, first.attempt} == {-1}
    assert math.isnan(first.weight)
    assert (last.task, last.staleness, last.weight) == (2, 1, 0.5)


def test_the_recorder_takes_the_declared_columns_with_their_defaults() -> None:
    declared = {name: column for name, column in columns_of(EventsTable).items() if name not in ("seq", "seed")}
    given = [one for one in signature(Recorder.add).parameters.values() if one.name != "self"]
    assert ["bytes" if one.name == "size" else one.name for one in given] == list(declared) == [*recorder.EVENT_COLUMNS]
    for one, column in zip(given, declared.values(), strict=True):
        assert same(REQUIRED if one.default is one.empty else one.default, column.default)


def test_a_long_trace_is_packed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "FLUSH_AT", 4 * len(recorder.EVENT_COLUMNS))
    book = Recorder(seed=0)
    for number in range(10):
        book.add(float(number), Kind.TRAINED, task=number, detail=f"number {number % 3}")
    table = book.table()
    assert len(book) == table.num_rows == 10
    assert table["task"].to_pylist() == list(range(10))
    assert table["detail"].to_pylist()[:4] == ["number 0", "number 1", "number 2", "number 0"]


@pytest.mark.parametrize(
    ("conditions", "seqs"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"clients": [0]}, [1, 3, 5]),
        ({"kinds": ["aggregated", "published"]}, [0, 5]),
        ({"task": 2}, [3, 5]),
        ({"version": 1}, [5]),
        ({"since_s": 3.0, "until_s": 4.0}, [3, 4]),
        ({"seed": 4}, []),
        ({"clients": [0], "kinds": ["dispatched"], "until_s": 1.0}, [1]),
    ],
)
def test_events_are_chosen_by_every_condition(events: pa.Table, conditions: dict, seqs: list[int]) -> None:
    assert select(events, **conditions)["seq"].to_pylist() == seqs


def test_kinds_are_counted_the_most_frequent_first(events: pa.Table) -> None:
    assert list(counts(events).items()) == [("dispatched", 4), ("aggregated", 1), ("published", 1)]


PACKED = pa.schema([("number", pa.int64()), ("word", pa.dictionary(pa.int32(), pa.string()))])


def batch(*numbers: int) -> pa.RecordBatch:
    words = pa.array([f"word {number % 3}" for number in numbers]).dictionary_encode()
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), words], schema=PACKED)


def read(shelf: BatchSpool) -> list[int]:
    table = pa.Table.from_batches(shelf.batches(), schema=PACKED).unify_dictionaries()
    numbers: list[int] = table["number"].to_pylist()
    assert table["word"].to_pylist() == [f"word {number % 3}" for number in numbers]
    return numbers


def test_batches_are_read_in_order_any_number_of_times_and_after_the_spool_is_gone() -> None:
    shelf = BatchSpool()
    assert shelf.batches() == []
    shelf.put(batch(1, 2))
    assert read(shelf) == read(shelf) == [1, 2]
    shelf.put(batch(3))
    shelf.put(batch(5, 4))
    table = pa.Table.from_batches(shelf.batches(), schema=PACKED)
    before = pa.total_allocated_bytes()
    shelf.batches()
    assert pa.total_allocated_bytes() - before < 1000
    del shelf
    assert table["number"].to_pylist() == [1, 2, 3, 5, 4]


@pytest.mark.parametrize("fails_at", [0, 1])
def test_on_a_full_disk_batches_stay_in_memory(monkeypatch: pytest.MonkeyPatch, fails_at: int) -> None:
    shelf = BatchSpool()

    def full(*_: Any, **__: Any) -> NoReturn:
        raise OSError(28, "No space left on device")

    for number in range(3):
        if number == fails_at:
            if shelf._file is None:
                monkeypatch.setattr(tempfile, "TemporaryFile", full)
            else:
                monkeypatch.setattr(shelf, "_file", Full(shelf._file, full))
        shelf.put(batch(number, 10 + number))
    assert read(shelf) == [0, 10, 1, 11, 2, 12]


class Full:
    """A file that takes no more."""

    def __init__(self, file: Any, full: Any) -> None:
        self.seek, self.fileno, self.close, self.write = file.seek, file.fileno, file.close, full


def test_an_event_that_the_table_cannot_hold_is_set_aside_by_name_and_the_others_stay() -> None:
    book = Recorder(seed=0)
    book.add(1.0, Kind.DISPATCHED, task=1)
    book.add(2.0, Kind.UPLOADED, task=2, attempt=40_000)
    book.add(3.0, Kind.UPLOADED, task=3, size=2**70)
    book.add(4.0, Kind.AGGREGATED, task=4)
    table = book.table()
    assert (table["task"].to_pylist(), table["seq"].to_pylist()) == ([1, 4], [0, 1])
    assert [text[:31] for text in book.set_aside] == [
        "time_s 2.0, kind uploaded, task",
        "time_s 3.0, kind uploaded, task",
    ]
    assert "attempt 40000" in book.set_aside[0]
    book.add(5.0, Kind.PUBLISHED)
    book.flush()
    assert book.table()["time_s"].to_pylist() == [1.0, 4.0, 5.0]
