from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from asyncfl.audit.finished_run import ATTACKS, read_attacks, write_attacks
from asyncfl.base.errors import OutputError, RunError


def found(method: str, seed: int, value: float) -> pa.Table:
    return pa.table({"seed": [seed], "method": [method], method: [value]})


def test_new_results_replace_those_of_the_same_method_and_seed(tmp_path: Path) -> None:
    assert read_attacks(tmp_path) is None
    for method, seed, value in (("b", 1, 1.0), ("b", 0, 2.0), ("a", 0, 3.0), ("b", 1, 4.0)):
        write_attacks(tmp_path, found(method, seed, value))
    table = read_attacks(tmp_path)
    assert table is not None
    assert table.select(["method", "seed", "a", "b"]).to_pylist() == [
        {"method": "a", "seed": 0, "a": 3.0, "b": None},
        {"method": "b", "seed": 0, "a": None, "b": 2.0},
        {"method": "b", "seed": 1, "a": None, "b": 4.0},
    ]


def test_a_damaged_table_and_a_blocked_folder_are_errors(tmp_path: Path) -> None:
    path = write_attacks(tmp_path, found("a", 0, 1.0))
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(RunError, match="cannot be read as a table"):
        write_attacks(tmp_path, found("a", 0, 1.0))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "audit").write_text("a file")
    with pytest.raises(OutputError, match=r"cannot make .*audit: (File exists|Not a directory)$"):
        write_attacks(tmp_path / "run", found("a", 0, 1.0))


def test_a_table_of_attacks_has_seeds_and_methods(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    path = tmp_path / "audit" / ATTACKS
    pq.write_table(pa.table({"seed": [1], "method": ["a"]}), path)
    table = read_attacks(tmp_path)
    assert table is not None
    assert table.to_pylist() == [{"seed": 1, "method": "a"}]
    pq.write_table(pa.table({"seed": [1], "more": ["a"]}), path)
    with pytest.raises(RunError, match=r"attacks\.parquet is no table of attacks; remove it"):
        read_attacks(tmp_path)
