"""Experiments whose live runs were recorded."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl.api import simulate
from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.analysis import make_tables
from asyncfl.experiments.cells import RecordedRuns, cells
from asyncfl.experiments.loading import load
from asyncfl.experiments.plan import make_plan, runs_among
from asyncfl.scenario import Scenario


@pytest.fixture
def file(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """An experiment that compares recorded runs with simulated ones."""
    path = tmp_path / "experiments" / "truth.yaml"
    path.parent.mkdir()
    experiment = {
        "title": "RecordedRuns beside simulated",
        "source": {"paper": "live"},
        "scenario": tiny,
        "axes": {"protocol.rounds": [2, 3]},
        "variants": {"clock": {"simulated": {}, "live": {"recorded": {"folder": "../recordings", "shape": True}}}},
        "seeds": {"quick": 1, "full": 1},
        "figure": {"kind": "bars", "x": "clock", "y": "round_s_median", "panels": "protocol.rounds"},
        "claims": [
            {
                "check": "alike",
                "value": "final round_s_median",
                "along": "clock",
                "at": "live",
                "than": "simulated",
                "margin": 0.05,
                "log": True,
                "says": "both take as long",
            }
        ],
    }
    path.write_text(yaml.safe_dump(experiment))
    return path


@pytest.fixture
def recorded(file: Path, tmp_path: Path, tiny: dict[str, Any]) -> Path:
    """The same, with its recordings."""
    for rounds in (2, 3):
        scenario = Scenario.read(tiny).override({"protocol.rounds": rounds})
        simulate(scenario).save(tmp_path / "recordings" / str(rounds))
    return file


def test_cells_say_where_their_run_lies(recorded: Path, tmp_path: Path) -> None:
    found = cells(load(recorded), "full")
    assert [cell.recording for cell in found if cell.values["clock"] == "simulated"] == [None, None]
    live = [cell for cell in found if cell.values["clock"] == "live"]
    assert [cell.recording for cell in live] == [tmp_path / "recordings" / "2", tmp_path / "recordings" / "3"]
    assert "recorded" not in live[0].scenario.resolved()


def test_recorded_runs_are_no_jobs_and_enter_the_tables(recorded: Path, tmp_path: Path) -> None:
    plan = make_plan(recorded.parent, "quick", results=tmp_path / "results")
    digests = [digest for job in plan.jobs for digest in job.digests]
    assert len(digests) == 2
    runs = tmp_path / "results" / "runs"
    experiment = plan.experiments["truth"]
    for cell in runs_among(experiment, "quick", digests):
        if cell.recording is None:
            simulate(cell.scenario).save(runs / cell.digest)
    found = [(cell.values, cell.folder(runs)) for cell in runs_among(experiment, "quick", digests)]
    assert sum(folder.parent.name == "recordings" for _, folder in found) == 2
    make_tables(experiment, "quick", found, tmp_path / "out")
    ends = (tmp_path / "out" / "ends.csv").read_text()
    assert "round_s_median" in ends
    assert ends.count("live") == 2


def test_a_recording_that_is_missing_or_of_another_scenario_is_a_fault(
    recorded: Path, tmp_path: Path, tiny: dict[str, Any]
) -> None:
    (tmp_path / "recordings" / "2" / "rounds.parquet").unlink()
    other = Scenario.read(tiny).override({"protocol.rounds": 3, "training.lr": 0.01})
    simulate(other).save(tmp_path / "recordings" / "3", force=True)
    with pytest.raises(ScenarioError) as raised:
        load(recorded)
    assert [fault.message for fault in raised.value.faults] == [
        f"there is no recording {tmp_path}/recordings/2 (rounds.parquet is missing); `make live` records it",
        f"{tmp_path}/recordings/3 was recorded of another scenario; `make live` records it anew",
    ]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({}, "/x/there/run"),
        ({"a": 0.5, "b": "all at once"}, "/x/there/0.5-all_at_once"),
        ({"kind": {"a": [1]}, "b": None}, "/x/there/_a_1_-None"),
    ],
)
def test_a_recording_is_called_by_the_values_of_its_cell(values: dict[str, Any], place: str) -> None:
    assert RecordedRuns(folder="../there").place(Path("/x/experiments"), values) == Path(place)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"variants": {"clock": {"simulated": {}, "live": {"recorded": {"shape": True}}}}}, "is required"),
        ({"seeds": {"full": {"looks": [3, 6]}}}, "recorded runs cannot be given more"),
    ],
)
def test_impossible_recordings_are_faults(file: Path, change: dict[str, Any], fault: str) -> None:
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **change}))
    with pytest.raises(ScenarioError, match=fault):
        load(file)
