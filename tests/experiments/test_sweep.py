import os
import signal
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.loading import load
from asyncfl.experiments.sweep import (
    SHOWN,
    SweepResult,
    _rows_received,
    read_axes,
    run_all,
    sweep_cells,
    sweep_of,
    to_yaml,
)
from asyncfl.scenario import Scenario
from asyncfl.simulation.limits import USUAL, Limits


@pytest.fixture
def file(tmp_path: Path, tiny: dict[str, Any]) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(tiny))
    return path


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{kind: a, b: [1, 2]},{kind: c}", ({"kind": "a", "b": [1, 2]}, {"kind": "c"})),
        ("'a,b',c", ("a,b", "c")),
        ("don't,c", ("don't", "c")),
        (".inf,my_module:MyClass", (float("inf"), "my_module:MyClass")),
    ],
)
def test_values_are_the_items_of_a_list(text: str, values: tuple[Any, ...]) -> None:
    assert read_axes([f"field={text}"])[1] == {"field": values}


def test_one_value_is_set_in_all_runs_and_several_are_an_axis() -> None:
    fixed, axes = read_axes(["training.lr=1e-2,.5", "model.hidden=[4],[8, 4]", "protocol.rounds=7", "seeds=[1,2]"])
    assert axes == {"training.lr": (0.01, 0.5), "model.hidden": ([4], [8, 4])}
    assert fixed == {"protocol.rounds": 7, "seeds": [1, 2]}


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["training.lr"], "--set: must be field=value or field=value,value, got 'training.lr'"),
        (["training.lr=1,2", "training.lr=3"], "--set training.lr: must be given once"),
        (["training.lr=1,2,1.0"], "--set training.lr: must name each value once, got 1,2,1.0"),
        (["training.lr=3"], "must give at least one field several values"),
        (["model.hidden=[4],[8"], "--set model.hidden: is no YAML"),
        (
            [f"training.lr={','.join(map(str, range(1, 102)))}", f"seeding.data={','.join(map(str, range(101)))}"],
            "10201",
        ),
    ],
)
def test_assignments_that_are_no_sweep_are_refused(file: Path, assignments: list[str], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        sweep_of(file, assignments)
    assert message in str(caught.value)


def test_faults_of_all_runs_name_their_assignment(file: Path) -> None:
    experiment = sweep_of(file, ["training.lr=0.1,-1", "protocol.roundz=1,2"])
    with pytest.raises(ScenarioError) as caught:
        sweep_cells(experiment)
    assert "--set training.lr: must be greater than 0, got -1" in str(caught.value)
    assert "--set protocol.roundz: is no field of kind sync; did you mean rounds?" in str(caught.value)


def test_the_file_that_a_sweep_stands_for_has_the_same_runs(file: Path, tmp_path: Path) -> None:
    experiment = sweep_of(file, ["training.lr=0.1,0.2", "model.hidden=[4],[8]", "protocol.rounds=2"], seeds=3)
    (tmp_path / "experiment.yaml").write_text(to_yaml(experiment))
    written = load(tmp_path / "experiment.yaml")
    runs = [cell.scenario.digest() for cell in sweep_cells(experiment)]
    assert [cell.scenario.digest() for cell in sweep_cells(written)] == runs
    assert len(set(runs)) == 4
    [first, *_] = sweep_cells(written)
    assert first.values == {"training.lr": 0.1, "model.hidden": [4]}
    assert (first.scenario.seeds, first.scenario.protocol.rounds) == ((0, 1, 2), 2)


def test_existing_runs_are_reused_and_a_failure_stops_no_other(file: Path, tmp_path: Path) -> None:
    scenarios = [cell.scenario for cell in sweep_cells(sweep_of(file, ["training.lr=0.1,0.2"]))]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / scenarios[0].digest()).write_text("in the way")
    found = dict(run_all([*scenarios, scenarios[1]], tmp_path / "runs", 1, USUAL, tmp_path))
    assert "a file of that name is in the way" in found[0].failed
    assert found[1] == found[2]
    assert (found[1].failed, found[1].was_there) == ("", False)
    assert [0 <= found[place].seconds < 600 for place in (0, 1)] == [True, True]
    again = dict(run_all(scenarios, tmp_path / "runs", 1, USUAL, tmp_path))
    assert again[1].was_there


def test_runs_past_the_limits_are_refused_before_anything_is_computed(file: Path, tmp_path: Path) -> None:
    scenarios = [cell.scenario for cell in sweep_cells(sweep_of(file, ["protocol.rounds=2,900000"]))]
    with pytest.raises(ScenarioError, match="must take at most"):
        list(run_all(scenarios, tmp_path / "runs", 1, Limits(hours=0.001), tmp_path))
    assert not (tmp_path / "runs").exists()


def test_seeds_may_be_set_as_any_field_and_only_once(file: Path) -> None:
    assert sweep_of(file, ["seeds=[4,5]", "training.lr=.1,.2"]).seeds.full == (4, 5)
    assert sweep_of(file, ["training.lr=.1,.2"], 3).seeds.full == 3
    with pytest.raises(ScenarioError, match="--set seeds: must be left out where --seeds is given"):
        sweep_of(file, ["seeds=[4,5]", "training.lr=.1,.2"], 3)


def test_a_run_whose_process_dies_or_breaks_is_a_failure_of_that_run_alone(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pool:
        def __init__(self, *of: Any) -> None:
            self.errors = [BrokenProcessPool("pool"), MemoryError("no room")]

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *of: object) -> None: ...

        def submit(self, *of: Any) -> Future[SweepResult]:
            done: Future[SweepResult] = Future()
            done.set_exception(self.errors.pop(0))
            return done

        def shutdown(self, **of: Any) -> None: ...

    monkeypatch.setattr("asyncfl.experiments.sweep.ProcessPoolExecutor", Pool)
    scenarios = [cell.scenario for cell in sweep_cells(sweep_of(file, ["training.lr=.1,.2"]))]
    told = sorted(swept.failed for _, swept in run_all(scenarios, tmp_path, 2, USUAL, tmp_path))
    assert told == ["BrokenProcessPool: its process was killed", "MemoryError: no room"]


def killed_at_first(description: dict[str, Any], folder: Path, limits: Limits) -> SweepResult:
    """Stands for a run whose process is killed where its file is not there yet."""
    if not (marker := folder / "was_killed").exists():
        folder.mkdir(exist_ok=True)
        marker.touch()
        if description["seeds"] == [1]:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3)  # goes down with its pool, or is done in vain
    return SweepResult(folder, 1.0)


@pytest.mark.long
def test_a_killed_process_costs_its_neighbours_no_result(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncfl.experiments.sweep._run_in_worker", killed_at_first)
    scenarios = [Scenario.read(tiny | {"seeds": [seed]}) for seed in (1, 2, 3)]
    found = list(run_all(scenarios, tmp_path, 2, Limits(), tmp_path))
    assert sorted(place for place, _ in found) == [0, 1, 2]
    assert [swept.failed for _, swept in found] == ["", "", ""]


@pytest.mark.parametrize("jobs", [1, 2])
def test_rows_of_runs_are_told_while_they_are_computed(tiny: dict[str, Any], tmp_path: Path, jobs: int) -> None:
    scenarios = [Scenario.read(tiny | {"seeds": [seed]}) for seed in (3, 8)]
    told: list[tuple[Path, int, int]] = []
    runs = run_all(
        scenarios,
        tmp_path,
        jobs,
        Limits(),
        tmp_path,
        lambda folder, row: told.append((folder, row["seed"], row["version"])),
    )
    assert {place for place, _ in runs} == {0, 1}
    for scenario in scenarios:
        of_run = [
            version for folder, seed, version in told if (folder.name, seed) == (scenario.digest(), *scenario.seeds)
        ]
        assert of_run[0] == 0
        assert of_run == sorted(of_run)
    assert {folder.name for folder, *_ in told} == {scenario.digest() for scenario in scenarios}


def test_progress_that_cannot_be_shown_does_not_hold_up_the_runs(caplog: pytest.LogCaptureFixture) -> None:
    """The pipe of all workers holds a few hundred rows: a worker that sends one more would wait for ever."""
    calls = []

    def show(folder: Path, row: dict[str, Any]) -> None:
        calls.append(row)
        raise OSError("the terminal is gone")

    row = dict.fromkeys(SHOWN, 0)
    with _rows_received(show) as rows:
        assert rows is not None
        for _ in range(5000):
            rows.send((Path("run"), row))
    assert len(calls) == 1
    assert "progress is no longer shown: OSError: the terminal is gone" in caplog.text
