"""The table of tasks of runs of an earlier version, and rows that an event corrects after they were put away."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from asyncfl.api import execute, simulate
from asyncfl.base.errors import RunError
from asyncfl.base.files.own_folder import MARK
from asyncfl.base.tables import TasksTable, UploadColumns
from asyncfl.protocol import task_record
from asyncfl.protocol.events import Kind
from asyncfl.protocol.task_record import TaskRecord, TaskRows
from asyncfl.results.earlier_tasks import tasks_of_events
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

LOSSY: dict[str, Any] = {
    "data.clients": 6,
    "protocol": {"kind": "buffered", "rounds": 6, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}},
    "world.device": {"kind": "lognormal", "median_s_per_sample": 0.02, "sigma": 1.0},
    "world.uplink.loss": {"kind": "independent", "probability": 0.05},
    "world.uplink.retransmissions": 1,
    "world.dropout": 0.1,
    "world.failure_detection": {"kind": "lease", "seconds": 0.5},
    "world.tap": {"uplink": True, "downlink": True, "packet_loss": 0.1},
    "world.availability": {
        "kind": "alternating",
        "on_s": {"kind": "exponential", "mean": 5},
        "off_s": {"kind": "exponential", "mean": 1},
    },
    "seeds": 2,
}


def equal(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables of tasks agree in all that their events tell."""
    names = list(TasksTable.model_fields)
    return bool(one.select(names).to_pandas().equals(other.select(names).to_pandas()))


def test_rows_that_follow_from_the_events_are_those_that_the_run_wrote(scenario: Scenario) -> None:
    run = simulate(scenario.override(LOSSY))
    assert len(set(run.tasks["outcome"])) > 2
    assert equal(run.tables["tasks"], tasks_of_events(run.tables["events"]))


def test_a_run_of_an_earlier_version_has_its_tasks_without_what_was_trained(scenario: Scenario, tmp_path: Path) -> None:
    folder = execute(scenario.override(LOSSY), tmp_path / "run")
    now = Run.load(folder)
    (folder / "tasks.parquet").unlink()
    with pytest.raises(RunError, match=r"tasks\.parquet is missing"):
        Run.load(folder)
    mark = json.loads((folder / MARK).read_text())
    mark["files"].remove("tasks.parquet")
    del mark["sha256"]["tasks.parquet"]
    (folder / MARK).write_text(json.dumps(mark))
    earlier = Run.load(folder)
    assert equal(now.tables["tasks"], earlier.tables["tasks"])
    assert now.tasks["noise_std"].notna().any()
    assert earlier.tasks[list(UploadColumns.model_fields)].isna().all(axis=None)


def test_an_event_that_comes_after_a_row_was_put_away_corrects_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_record, "PUT_AWAY_AT", 2)
    rows, tasks = TaskRows(0), [TaskRecord(number, 0, 0) for number in range(4)]
    for task in tasks:
        rows.begin(task)
        task.note(Kind.DROPPED_OUT, 1.0, -1, -1, "offline")
        rows.end(task)
    assert tasks[0].is_put_away
    tasks[0].note(Kind.OVERHEARD, 2.0, -1, -1, "up")
    rows.correct(tasks[0])
    table = rows.table(3.0)
    assert table["task"].to_pylist() == [0, 1, 2, 3]
    assert table["overheard_up_s"].to_pylist()[0] == 2.0
