import tempfile
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from asyncfl.trace.batch_spool import BatchSpool

SCHEMA = pa.schema([("number", pa.int64()), ("word", pa.dictionary(pa.int32(), pa.string()))])


def batch(*numbers: int) -> pa.RecordBatch:
    words = pa.array([f"word {number % 3}" for number in numbers]).dictionary_encode()
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64()), words], schema=SCHEMA)


def read(shelf: BatchSpool) -> list[int]:
    table = pa.Table.from_batches(shelf.batches(), schema=SCHEMA).unify_dictionaries()
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
    table = pa.Table.from_batches(shelf.batches(), schema=SCHEMA)
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
