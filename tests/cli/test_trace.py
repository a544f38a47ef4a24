"""`asyncfl trace`."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.scenario import Scenario

CHANGES: dict[str, Any] = {
    "protocol": {"kind": "buffered", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
    "world.dropout": 0.2,
    "evaluation.train_every": 0,
    "evaluation.test_every": 0,
    "seeds": 2,
}
_saved: dict[str, Any] = {}


@pytest.fixture
def trace(program: Any) -> Any:
    """Calls `asyncfl trace`; returns status, output, errors."""
    return partial(program, "trace")


def saved(scenario: Scenario, folder: Path, name: str, changes: dict[str, Any]) -> Path:
    """A run on disk, simulated once for all tests."""
    if name not in _saved:
        _saved[name] = simulate(scenario.override(CHANGES | changes))
    path: Path = _saved[name].save(folder / name)
    return path


@pytest.fixture
def run(scenario: Scenario, tmp_path: Path) -> Path:
    return saved(scenario, tmp_path, "one", {})


def test_events_are_filtered_counted_and_limited(trace: Any, run: Path) -> None:
    rows = json.loads(trace("events", run, "--kind", "uploaded", "--client", 1, "--limit", 0, "--json")[1])
    assert {(row["kind"], row["client"]) for row in rows} == {("uploaded", 1)}
    printed = trace("events", run, "--kind", "uploaded", "--client", 1, "--limit", 0)[1]
    assert len(printed.splitlines()) == 1 + len(rows)
    assert "more rows; raise --limit" in trace("events", run, "--limit", 3)[1]
    assert json.loads(trace("events", run, "--version", 4, "--seed", 0, "--json")[1])[-1]["kind"] == "stopped"
    assert json.loads(trace("events", run, "--count", "--json")[1])["aggregated"] == 2 * 4 * 2  # seeds, rounds, buffer
    assert "published" in trace("events", run, "--count")[1]
    assert trace("events", run, "--kind", "banned")[1] == "no matching events or tasks\n"


def test_follow_prints_the_steps_of_a_task(trace: Any, run: Path) -> None:
    status, out, err = trace("follow", run, 0, "--seed", 1)
    assert (status, err) == (0, "")
    assert out.startswith("task 0 of client ")
    assert "dispatched" in out
    assert "took_s" in out
    assert json.loads(trace("follow", run, 0, "--seed", 1, "--json")[1])["task"] == 0


def test_table_prints_a_row_per_group(trace: Any, run: Path) -> None:
    status, out, _ = trace("table", run, "--seed", 0)
    assert status == 0
    assert out.splitlines()[0].split()[:4] == ["seed", "client", "tasks", "aggregated"]
    rows = json.loads(trace("table", run, "--by", "seed", "--json")[1])
    assert [(row["seed"], row["aggregated"]) for row in rows] == [(0, 8), (1, 8)]
    assert "more rows; raise --limit" in trace("table", run, "--by", "version", "--limit", 2)[1]


def test_diff_ends_with_status_1_if_runs_differ(trace: Any, run: Path, scenario: Scenario, tmp_path: Path) -> None:
    status, out, _ = trace("diff", run, run)
    assert (status, "no difference" in out) == (0, True)
    other = saved(scenario, tmp_path, "other", {"world.dropout": 0.5})
    status, out, _ = trace("diff", run, other)
    assert status == 1
    assert "first different event: number" in out
    status, out, _ = trace("diff", run, other, "--seed", 0, "--json")
    assert status == 1
    found = json.loads(out)
    assert (found["same"], [seed["seed"] for seed in found["seeds"]]) == (False, [0])


def test_save_writes_a_trace_for_perfetto_and_says_what_it_lacks(trace: Any, run: Path, tmp_path: Path) -> None:
    status, out, _ = trace("save", run, tmp_path / "trace.json", "--seed", 0)
    assert status == 0
    assert "spent epsilon not available: seed 0, server: unbounded" in out
    assert "ui.perfetto.dev" in out
    document = json.loads((tmp_path / "trace.json").read_text())
    assert "unbounded" in document["otherData"]["notes"]
    assert document["traceEvents"][0]["args"] == {"name": "one, seed 0"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["follow", "RUN", 0], "--seed: must be one of the run's (0, 1), got none"),
        (["follow", "RUN", 999, "--seed", 0], "TASK: must be 0.."),
        (["events", "RUN", "--seed", 7], "--seed: must be one of the run's (0, 1), got 7"),
        (["table", "RUN", "--seed", 7], "--seed: must be one of the run's (0, 1), got 7"),
        (["diff", "RUN", "RUN", "--seed", 7], "--seed: must be one of the run's (0, 1), got 7"),
        (["save", "RUN", "x.json", "--seed", 7], "--seed: must be one of the run's (0, 1), got 7"),
        (["events", "RUN", "--kind", "sneezed"], "got sneezed"),
        (["events", "nowhere"], "nowhere holds no run"),
        (["diff", "RUN", "nowhere"], "nowhere holds no run"),
        (["save", "RUN", "/nowhere/x.json"], "cannot write /nowhere/x.json"),
        (["table", "RUN", "--by", "cleint"], "'cleint' is not one of"),
    ],
)
def test_wrong_arguments_are_one_message_with_status_2(
    trace: Any, run: Path, arguments: list[object], message: str
) -> None:
    status, _, err = trace(*(run if word == "RUN" else word for word in arguments))
    assert status == 2
    assert message in " ".join(err.split())
