import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from asyncfl.api import execute, simulate
from asyncfl.base.instrument import RowCallback
from asyncfl.results import snapshots as under_way
from asyncfl.results.snapshots import Snapshots, snapshot_in
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario


@pytest.fixture
def each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are written of each version, however fast they come."""
    monkeypatch.setattr(under_way, "EVERY_S", -1.0)
    monkeypatch.setattr(under_way, "SHARE", 1e9)


def test_a_run_shows_how_far_it_has_come_and_ends_with_the_same_bytes(
    scenario: Scenario, tmp_path: Path, each_version: None
) -> None:
    two, seen = scenario.override({"seeds": 2}), []

    def look(_: dict[str, Any]) -> None:
        if (found := snapshot_in(tmp_path / "run")) is not None:
            seen.append(found)

    execute(two, tmp_path / "run", [RowCallback(look)])
    assert [(one.seed, one.version) for one in seen] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert all(one.scenario == seen[0].scenario for one in seen)
    last = seen[-1].tables
    assert last["rounds"]["version"].to_pylist() == [0, 1, 2]
    whole = simulate(two)
    events = whole.tables["events"].filter(pc.field("seed") == 1)
    # A table with NaN is like no other.
    found, wanted = (table.drop_columns("weight") for table in (last["events"], events))
    assert found.to_pylist() == wanted.slice(0, len(found)).to_pylist()
    whole.save(tmp_path / "other")
    for name in ("rounds", "events", "clients", "ledger", "spending"):
        files = [(tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("run", "other")]
        assert files[0] == files[1]
    assert not (tmp_path / "run" / ".partial").exists()


def test_nothing_of_it_stays_where_the_run_is_interrupted(
    scenario: Scenario, tmp_path: Path, each_version: None
) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["version"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(scenario, tmp_path / "run", [RowCallback(stop)])
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_where_no_snapshot_can_be_written(
    scenario: Scenario, tmp_path: Path, each_version: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Snapshots, "_write", full)
    assert Run.load(execute(scenario, tmp_path / "run")).summary["versions"]


def test_the_remains_of_a_killed_run_block_no_other(scenario: Scenario, tmp_path: Path, each_version: None) -> None:
    def look(row: dict[str, Any]) -> None:
        if row["version"] == 2:
            shutil.copytree(tmp_path / "run", tmp_path / "killed")

    execute(scenario, tmp_path / "run", [RowCallback(look)])
    found = snapshot_in(tmp_path / "killed")
    assert found is not None
    assert found.version == 1
    other = scenario.override({"protocol.rounds": 2})
    assert Run.load(execute(other, tmp_path / "killed")).scenario == other.settled()
    assert not (tmp_path / "killed" / ".partial").exists()


def test_snapshots_take_a_twentieth_of_the_time_at_most(scenario: Scenario, tmp_path: Path) -> None:
    now, made = [0.0], []

    def tables() -> Mapping[str, pa.Table]:
        made.append(now[0])
        now[0] += 1.0
        return {}

    snapshots = Snapshots(tmp_path, scenario, 0, lambda: now[0])
    for version in range(100):
        now[0] += 1.0
        snapshots.so_far(version, tables)
    assert made == [2.0, 23.0, 44.0, 65.0, 86.0]


def test_a_snapshot_that_fails_halfway_takes_no_room(
    scenario: Scenario, tmp_path: Path, each_version: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(table: pa.Table, file: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(under_way.pq, "write_table", full)
    snapshots = Snapshots(tmp_path, scenario, 0)
    snapshots.so_far(1, lambda: {"rounds": pa.table({})})
    assert list(tmp_path.iterdir()) == []
