from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asyncfl.base.files.reading import read_parquet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name pyarrow would read columns out of."""
    (tmp_path / "a=1").mkdir()
    pq.write_table(pa.table({"seed": [3, 4]}), tmp_path / "a=1" / "rounds.parquet", compression="zstd")
    return tmp_path / "a=1"


def test_the_table_is_what_stands_in_the_file(folder: Path) -> None:
    assert read_parquet(folder / "rounds.parquet").to_pydict() == {"seed": [3, 4]}


def test_no_file_of_pythons_is_left_to_a_thread_of_pyarrows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed = []
    read = pq.read_table
    monkeypatch.setattr(pq, "read_table", lambda file: handed.append(file) or read(file))
    read_parquet(folder / "rounds.parquet")
    assert [type(file) for file in handed] == [pa.OSFile]
    assert handed[0].closed


def test_what_is_not_there_and_what_is_no_table(folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        read_parquet(folder / "events.parquet")
    assert missing.value.filename == str(folder / "events.parquet")
    with pytest.raises(OSError, match="it is a folder"):
        read_parquet(folder)
    (folder / "text.parquet").write_text("no table")
    with pytest.raises(pa.ArrowInvalid):
        read_parquet(folder / "text.parquet")


def test_a_table_that_is_small_on_disk_and_huge_in_memory_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "zeros.parquet"
    numbers = pa.array(np.zeros(1_000_000))
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in "abcdefghij"])) as writer:
        for _ in range(3):
            writer.write_table(pa.table(dict.fromkeys("abcdefghij", numbers)))
    assert path.stat().st_size < 1_000_000
    monkeypatch.setattr("asyncfl.base.files.reading._free_bytes", lambda: 2e8)
    with pytest.raises(OSError, match=r"takes about 0\.2 GiB in memory, more"):
        read_parquet(path)
