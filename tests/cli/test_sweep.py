"""`asyncfl sweep` and `asyncfl compare`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from asyncfl.api import simulate
from asyncfl.experiments.intervals import notes_of, outcomes, run_notes
from asyncfl.experiments.loading import load
from asyncfl.experiments.sweep import SweepResult, read_target
from asyncfl.scenario import Scenario
from asyncfl.simulation.limits import Limits

RATES = ("--set", "training.lr=0.01,0.05,0.2", "--seeds", 2)


@pytest.fixture
def swept(file: Path, program: Any) -> list[Path]:
    """Three runs of two seeds, with three learning rates."""
    status, out, err = program("sweep", file, *RATES, "--out", "runs", "--jobs", 1, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)["runs"]
    assert [one["values"] for one in found] == [{"training.lr": rate} for rate in (0.01, 0.05, 0.2)]
    assert all(one["final"]["test_accuracy"]["seeds"] == 2 for one in found)
    assert [(one["failed"], one["diverged"]) for one in found] == [(None, 0)] * 3
    return [Path(one["folder"]) for one in found]


def test_results_are_tabulated_and_failures_reported(swept: list[Path], file: Path, program: Any) -> None:
    command = ("sweep", file, *RATES, "--out", "runs", "--jobs", 1)
    status, out, _ = program(*command)
    assert (status, out.count("exists already")) == (0, 3)
    assert "training.lr  test_accuracy (share)" in out
    assert "n = 2 seeds" in out
    Path("runs").rename("moved")
    Path("runs").mkdir()
    (Path("runs") / swept[0].name).write_text("")
    status, out, err = program(*command, "--quiet")
    assert status == 2
    assert "1 of 3 runs failed, the first at training.lr=0.01: cannot write" in err
    assert out.startswith("training.lr")


def test_runs_of_unlike_protocols_are_told_apart(file: Path, program: Any) -> None:
    """A third of the uploads are lost: rounds of two are made of fewer updates, buffers of two are not."""
    lossy = ("--set", "world.dropout=0.33", "--set", "protocol.rounds=4")
    in_flight = "dispatch: {kind: constant, in_flight: 3}"
    buffered = f"FedBuff={{protocol: {{kind: fedbuff, rounds: 4, buffer: 2, {in_flight}}}}}"
    synchronous = "sync={protocol.participants: 2}"
    command = ("sweep", file, *lossy, "--variant", synchronous, "--variant", buffered, "--seeds", 3)
    options = ("--target", "train_loss=100", "--target", "test_accuracy=1.1", "--out", "runs", "--jobs", 1)
    status, out, err = program(*command, *options, "--json")
    assert (status, err) == (0, "")
    sync, fedbuff = json.loads(out)["runs"]
    assert [sync["values"], fedbuff["values"]] == [{"variant": "sync"}, {"variant": "FedBuff"}]
    assert fedbuff["final"]["updates_per_version"]["mean"] == 2
    rounds = pd.read_parquet(Path(sync["folder"], "rounds.parquet"))
    assert sync["final"]["updates_per_version"]["mean"] == pytest.approx(rounds["participants"].sum() / 12)
    assert sync["final"]["updates_per_version"]["mean"] < 2
    seeds = json.loads(Path(sync["folder"], "summary.json").read_text())["seeds"].values()
    lost = [one["fates"]["dropped_out"] / sum(one["fates"].values()) for one in seeds]
    assert sync["final"]["interrupted_share"]["mean"] == pytest.approx(sum(lost) / 3)
    assert sum(lost) > 0
    start, never = ({"time_s": cost, "versions": cost, "bytes": cost} for cost in (0, None))
    there, nowhere = (
        start | {"from": start, "reached": 3, "seeds": 3},
        never | {"from": never, "reached": 0, "seeds": 3},
    )
    assert sync["targets"] == {"train_loss=100": there, "test_accuracy=1.1": nowhere}
    status, out, _ = program(*command, *options)
    assert "by 0 of 3 seeds" in out
    words = " ".join(out.split())
    assert all(f"note: {note}" in words for note in set(sync["notes"]) & set(fedbuff["notes"]))
    assert all(f"note of variant=FedBuff: {note}" in words for note in set(fedbuff["notes"]) - set(sync["notes"]))
    assert "note" not in program(*command, *options, "--quiet")[1]
    assert program(*command, "--write", "e.yaml")[1].startswith("e.yaml: 2 runs over variant")
    assert load("e.yaml").variants["variant"]["sync"] == {"protocol.participants": 2}


def test_cost_of_a_target_reached_between_two_evaluations_is_an_interval(file: Path, program: Any) -> None:
    evaluation = ("--set", "evaluation.train_every=4", "--set", "protocol.rounds=8")
    command = ("sweep", file, *evaluation, "--set", "training.epochs=1,2", "--seeds", 1)
    _, out, _ = program(*command, "--json")
    losses = pd.read_parquet(Path(json.loads(out)["runs"][0]["folder"], "rounds.parquet"))["train_loss"].dropna()
    assert losses.index.tolist() == [0, 4, 8]
    # Just reached by version 4; versions 1 to 3 were not evaluated.
    _, out, _ = program(*command, "--target", f"train_loss={float(losses[4]) + 1e-9!r}")
    assert "0 to 4" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--variant", "sync"],
            "--variant: must be NAME={FIELD: VALUE, ...} with a name that is no number, got 'sync'",
        ),
        (["--variant", "1={}", "--variant", "a=3"], "got 'a=3'"),
        (["--variant", "a={}", "--variant", "a={}"], "--variant a: must be given once"),
        (["--variant", "a={}"], "or --variant two variants"),
        (["--variant", "a={}", "--variant", "b={training.rate: 1}"], "--variant b.training.rate: is no field"),
        (["--target", "test_acuracy=.8"], "did you mean test_accuracy?"),
        (["--target", "test_accuracy"], "--target: must be column=number, got 'test_accuracy'"),
    ],
)
def test_faulty_variants_and_targets_are_named(options: list[str], says: str, file: Path, refused: Any) -> None:
    assert says in refused("sweep", file, *options)


def test_losses_fall_towards_their_target() -> None:
    assert (read_target("test_loss=.5").direction, read_target("test_accuracy=.8").direction) == ("falls", "rises")


def test_a_note_names_its_runs_where_others_lack_it() -> None:
    notes = {"a": ["x", "y"], "b": ["y", "z"], "c": ["y", "x"]}
    assert notes_of(notes) == ["note of a; c: x", "note: y", "note of b: z"]


def test_a_seed_that_ended_early_is_noted() -> None:
    ended = {"0": {"stopped": "all versions published", "versions": 9}, "2": {"stopped": "no client", "versions": 3}}
    assert run_notes({"notes": ["x"], "seeds": ended}) == ["x", "seed 2 ended at version 3: no client"]


def test_updates_per_version_and_lost_tasks_are_of_seeds_that_did_not_diverge() -> None:
    rounds = pd.DataFrame({"seed": [0, 0, 0, 1, 1], "version": [0, 1, 2, 0, 1], "participants": [0, 1, 2, 0, 9]})
    rounds["diverged"] = [False, False, False, False, True]
    fates = {"aggregated": 3, "lost_up": 4, "lost_down": 1, "dropped_out": 1, "late": 1}
    found = outcomes(rounds, {"seeds": {"0": {"fates": fates}, "1": {"fates": {"aggregated": 9}}}})
    assert {name: (of.seeds.tolist(), of.values.tolist()) for name, of in found.items()} == {
        "updates_per_version": ([0], [1.5]),
        "interrupted_share": ([0], [0.6]),
    }


def test_parallel_runs_are_the_same(swept: list[Path], file: Path, program: Any) -> None:
    assert program("sweep", file, *RATES, "--quiet", "--out", "parallel", "--jobs", 2)[0] == 0
    for folder in swept:
        for name in ("rounds.parquet", "events.parquet", "summary.json"):
            assert Path("parallel", folder.name, name).read_bytes() == (folder / name).read_bytes()


def test_an_experiment_file_is_written_but_not_replaced(file: Path, program: Any, refused: Any) -> None:
    status, out, _ = program("sweep", file, *RATES, "--write", "e.yaml")
    assert (status, "3 runs over training.lr" in out) == (0, True)
    assert "exists already" in refused("sweep", file, *RATES, "--write", "e.yaml")


def test_compare_lists_fields_and_differences_by_seed(swept: list[Path], program: Any) -> None:
    status, out, _ = program("compare", *swept[:2])
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["training.lr", "0.01", "0.05"] in lines
    assert any(line[:2] == ["test_accuracy", "(share)"] for line in lines)
    assert "differences, paired by seed: mean ± half of the 95 % t interval over n = 2" in out
    found = json.loads(program("compare", *swept, "--json")[1])
    assert found["fields"] == {"training.lr": [0.01, 0.05, 0.2]}
    means, [first, second] = found["final"]["train_loss"]["mean"], found["final"]["train_loss"]["difference"]
    assert first["mean"] == pytest.approx(means[1] - means[0])
    assert second["mean"] == pytest.approx(means[2] - means[0])
    assert second["half_of_95_interval"] > 0
    assert program("compare", swept[0])[0] == 2, "there must be two runs"


def test_an_interrupted_sweep_counts_the_finished_runs(
    file: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def run_all(scenarios: Any, out: Path, jobs: int, limits: Any, beside: Path, progress: object) -> Any:
        given.append((len(scenarios), out, jobs, limits, beside))
        yield 1, SweepResult(out / "b", 1.26, was_there=False, failed="")
        yield 0, SweepResult(out / "a", 0.0, was_there=True, failed="")
        yield 2, SweepResult(out / "c", 0.5, was_there=False, failed="no")
        raise KeyboardInterrupt

    monkeypatch.setattr("asyncfl.experiments.sweep.run_all", run_all)
    monkeypatch.setattr("asyncfl.experiments.sweep.cores", lambda: 3)
    command = ("sweep", file, "--set", "training.lr=1,2,3,4", "--out", "o")
    status, out, _ = program(*command, "--max-hours", 1, "--max-gib", 2)
    assert status == 130
    assert out.splitlines()[:4] == [
        "1 of 4: training.lr=2: o/b written in 1.3 s",
        "2 of 4: training.lr=1: o/a exists already",
        "3 of 4: training.lr=3: o/c failed",
        "interrupted; 2 of 4 runs are finished; repeat the command to continue",
    ]
    assert program(*command, "--json", "--jobs", 2)[1].startswith("interrupted; 2 of 4")
    assert given == [(4, Path("o"), 3, Limits(hours=1, gib=2), file.parent), (4, Path("o"), 2, Limits(), file.parent)]


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_computed(
    file: Path, tmp_path: Path, program: Any
) -> None:
    (tmp_path / "taken").touch()
    status, out, err = program("sweep", file, *RATES, "--out", tmp_path / "taken" / "runs")
    assert (status, out) == (2, "")
    assert f"cannot write --out {tmp_path}/taken/runs: {tmp_path}/taken: Not a directory" in " ".join(err.split())


def test_a_column_that_one_run_lacks_is_not_compared(tiny: dict[str, Any], tmp_path: Path, program: Any) -> None:
    short = Scenario.read({**tiny, "protocol": {"kind": "sync", "rounds": 1}})
    less = simulate(short).save(tmp_path / "less")
    more = simulate(short.override({"evaluation.clients_every": 1})).save(tmp_path / "more")
    column = "client_loss_worst_decile"
    for runs, there in (((less, more), [False, True]), ((more, less), [True, False])):
        status, out, _ = program("compare", *runs, "--json")
        found = json.loads(out)["final"]
        assert status == 0
        assert [one is not None for one in found[column]["mean"]] == there
        assert found[column]["difference"] == [None]
        assert found["train_loss"]["difference"][0]["mean"] == 0
        lines = [line.split() for line in program("compare", *runs)[1].splitlines()]
        (row,) = [line for line in lines if line[:1] == [column]]
        assert row[-1] == "—"
        assert row.count("—") == 2


def test_equal_scenarios_with_other_data_are_noted(tiny: dict[str, Any], tmp_path: Path, program: Any) -> None:
    run = simulate(Scenario.read({**tiny, "protocol": {"kind": "sync", "rounds": 1}})).save(tmp_path / "run")
    same, other = (
        "The scenarios are the same in all fields.\n",
        "Their data, profiles, initial models or own components differ.",
    )
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    out = program("compare", run, copy)[1]
    assert out.startswith(same)
    assert other not in out
    found = json.loads((copy / "summary.json").read_text())
    (copy / ".asyncfl.json").unlink()
    (copy / "summary.json").write_text(json.dumps(found | {"hash": "0" * 16}))
    assert program("compare", run, copy)[1].startswith(f"{same}{other}\n")
