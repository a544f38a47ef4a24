"""Seeds that are added to published experiments: which, what stays as it was, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from asyncfl.base.errors import OutputError, RunError, ScenarioError
from asyncfl.experiments.analysis import make_figures, make_tables
from asyncfl.experiments.csv_files import read_csv, write_csv
from asyncfl.experiments.job import CODES
from asyncfl.experiments.plan import all_cells
from asyncfl.experiments.verdicts import make_verdicts
from workflow import more_seeds as adding
from workflow import publish as publishing
from workflow.more_seeds import (
    IN_PART,
    ROOT,
    Addition,
    MoreSeeds,
    compute_run,
    difference,
    first_versions,
    is_made,
    merged,
    parsed,
)
from workflow.publish import Publisher

NAME = "nbafl/one"
AXIS = "data.samples_per_client"
EXPERIMENT: dict[str, Any] = {
    "title": "Loss by number of samples",
    "source": {"paper": "nbafl", "figure": 2},
    "scenario": {
        "data": {"source": "embedded", "clients": 4},
        "protocol": {"kind": "sync", "rounds": 2},
    },
    "axes": {AXIS: [12, 13, 20]},
    "seeds": {"quick": 2, "full": {"looks": [2, 4, 6]}},
    "figure": {"kind": "curves", "hue": AXIS},
    "tables": [{"rows": AXIS}],
    "claims": [
        {
            "check": "best_at",
            "along": AXIS,
            "at": 13,
            "where": {AXIS: [12, 13]},
            "value": f"{when} train_loss",
            "says": f"the {when} loss falls",
        }
        for when in ("final", "mean")
    ],
}


class FirstLook(Publisher):
    """Computes the first look in this process."""

    def compute(self, name: str, core_hours: float) -> None:
        experiment, folder = self.experiments[name], self.results / "full" / name
        runs = []
        for cell in next(all_cells(experiment, "full")):
            compute_run(cell.scenario, self.results / "runs")
            runs.append((cell.values, self.results / "runs" / cell.digest))
        make_tables(experiment, "full", runs, folder)
        make_figures(experiment, "full", folder)
        make_verdicts(experiment, "full", folder)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published first look of all tests here."""
    root = tmp_path_factory.mktemp("first")
    (root / "experiments" / "nbafl").mkdir(parents=True)
    (root / "experiments" / f"{NAME}.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    one = publisher(root)
    one.compute(NAME, 1.0)
    one.publish(NAME)
    return root


@pytest.fixture
def files(first: Path, tmp_path: Path) -> Path:
    for folder in ("experiments", "published"):
        shutil.copytree(first / folder, tmp_path / folder)
    return tmp_path


def publisher(root: Path) -> FirstLook:
    return FirstLook(root / "experiments", root / "results", root / "published", 20.0, 20.0)


def add(root: Path, anew: int = 0, where: dict[str, Any] | None = None, cells: bool = False) -> list[Addition]:
    """Add what is wanted, as the command does, and return it."""
    more = MoreSeeds(publisher(root))
    additions = more.additions(NAME, 1.0, where or {}, anew, cells)
    more.check(NAME, additions)
    for of in additions:
        compute_run(of.scenario, more.runs)
    more.publish(NAME, additions)
    return additions


def published(root: Path, table: str) -> pd.DataFrame:
    return read_csv(root / "published" / "full" / NAME / f"{table}.csv")


def test_cells_of_open_claims_get_the_seeds_of_the_next_look_and_published_seeds_stay(files: Path) -> None:
    before = published(files, "ends")
    additions = add(files)
    assert [(of.cell.values[AXIS], of.seeds) for of in additions] == [(12, (2, 3)), (13, (2, 3))]
    ends = published(files, "ends")
    assert ends.groupby(AXIS)["seed"].agg(tuple).to_dict() == {
        12: (0, 1, 2, 3),
        13: (0, 1, 2, 3),
        20: (0, 1),
    }
    pd.testing.assert_frame_equal(ends[ends["seed"] < 2].reset_index(drop=True), before)
    assert published(files, "claims")["seeds"].tolist() == [4, 4]
    rounds = published(files, "rounds")
    assert set(map(tuple, rounds[[AXIS, "seed"]].to_numpy())) == set(map(tuple, ends[[AXIS, "seed"]].to_numpy()))
    table = (files / "published" / "full" / NAME / "table.md").read_text()
    assert "20" in table


def test_what_is_published_afterwards_is_what_one_call_would_have_published(files: Path) -> None:
    add(files)
    whole = files / "whole"
    one = publisher(files)
    experiment, looks = one.experiments[NAME], list(all_cells(one.experiments[NAME], "full"))
    runs = []
    for cell in (looks[1][0], looks[1][1], looks[0][2]):
        compute_run(cell.scenario, files / "results" / "runs")
        runs.append((cell.values, files / "results" / "runs" / cell.digest))
    make_tables(experiment, "full", runs, whole)
    make_verdicts(experiment, "full", whole)
    for table in ("ends", "cells", "claims", "rounds"):
        made = read_csv(whole / f"{table}.csv")
        pd.testing.assert_frame_equal(published(files, table)[made.columns.to_list()], made)


def told_of(root: Path) -> dict[str, Any]:
    """Return the provenance of what is published."""
    found: dict[str, Any] = json.loads((root / "published" / "full" / NAME / "provenance.json").read_text())
    return found


def test_cells_that_are_published_one_by_one_are_in_the_end_what_one_call_would_have_published(files: Path) -> None:
    whole = {table: published(files, table) for table in ("ends", "cells", "rounds")}
    claims, told = published(files, "claims"), told_of(files)
    shutil.rmtree(files / "published")
    assert [of.seeds for of in add(files, where={AXIS: ["13"]}, cells=True)] == [(0, 1)]
    assert published(files, "claims")["verdict"].tolist() == ["not run"] * 2
    first = told_of(files)
    assert (first["cells"], first["cut"], first["seeds"]) == (1, "2 of 3 cells are not run", "2")
    assert not publisher(files).is_current(NAME)
    add(files, where={AXIS: ["12"]}, cells=True)
    pd.testing.assert_frame_equal(published(files, "claims").drop(columns="commit"), claims.drop(columns="commit"))
    assert told_of(files)["cut"] == "1 of 3 cells are not run"
    assert [of.cell.values[AXIS] for of in add(files, cells=True)] == [20]
    for table, frame in whole.items():
        pd.testing.assert_frame_equal(published(files, table), frame)
    now = told_of(files)
    assert {name for name in told if told[name] != now[name]} <= {"core_hours", "computed", "commits", "cpu"}
    assert publisher(files).is_current(NAME)
    assert MoreSeeds(publisher(files)).additions(NAME, 1.0, {}, 0, cells=True) == []


def test_a_new_cell_stands_beside_published_ones_of_other_code_where_these_come_out_as_before(files: Path) -> None:
    shutil.rmtree(files / "published")
    add(files, where={AXIS: ["13", "20"]}, cells=True)
    folder = files / "published" / "full" / NAME
    (folder / "provenance.json").write_text(json.dumps({**told_of(files), "code": "of before"}))
    more = MoreSeeds(publisher(files))
    new = more.additions(NAME, 1.0, {}, 0, cells=True)
    assert more.check(NAME, new) == "1 of 1 published seeds come out as before, all numbers within 1e-05"
    ends = read_csv(folder / "ends.csv")
    write_csv(ends.assign(train_loss=ends["train_loss"] + 1.0), folder / "ends.csv")
    with pytest.raises(RunError, match="samples per client = 13: seed 0 does not come out as published: train_loss"):
        more.check(NAME, new)


def test_provenance_names_the_new_look_hours_and_seeds(files: Path) -> None:
    file = files / "published" / "full" / NAME / "provenance.json"
    before = json.loads(file.read_text())
    add(files)
    told = json.loads(file.read_text())
    assert (before["seeds"], told["seeds"], told["looks"]) == ("2", "2 to 4", [2, 4, 6])
    assert told["core_hours"] >= before["core_hours"]
    # two of the three cells have four seeds now: known by the digests of their scenarios
    assert published(files, "cells")["run"].nunique() == 3
    assert publisher(files).is_current(NAME)  # the code is the same


def test_a_seed_that_comes_out_otherwise_stops_it_before_anything_changes(files: Path) -> None:
    folder = files / "published" / "full" / NAME
    ends = published(files, "ends")
    ends["train_loss"] *= 1.001
    write_csv(ends, folder / "ends.csv")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(RunError, match=r"seed 0 does not come .*: train_loss was .*make publish"):
        add(files)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_where_another_machine_rounds_otherwise_the_code_that_made_the_seeds_is_asked_for_its_first_versions(
    files: Path,
) -> None:
    folder = files / "published" / "full" / NAME
    ends = published(files, "ends")
    ends["train_loss"] *= 1.001
    write_csv(ends, folder / "ends.csv")
    more = MoreSeeds(publisher(files))
    additions = more.additions(NAME, 1.0, {}, 0)
    with pytest.raises(RunError, match="--checkout"):
        more.check(NAME, additions)
    assert "both codes do the same" in more.check(NAME, additions, ROOT)
    (files / "other").mkdir()
    with pytest.raises(RunError, match=r"--checkout: .*other must hold a commit that made the seeds .*, got no commit"):
        more.check(NAME, additions, files / "other")


def test_a_checkout_whose_code_cannot_run_is_named(files: Path) -> None:
    scenario = next(iter(all_cells(publisher(files).experiments[NAME], "full")))[0].scenario
    (files / "broken" / "asyncfl").mkdir(parents=True)
    (files / "broken" / "asyncfl" / "__init__.py").write_text("raise ImportError('half a checkout')")
    with pytest.raises(RunError, match="broken cannot run the scenario: ImportError: half a checkout"):
        first_versions(scenario, files / "broken", files / "cache")
    (files / "empty").mkdir()
    with pytest.raises(RunError, match="empty cannot run the scenario: AssertionError: there is no asyncfl in it"):
        first_versions(scenario, files / "empty", files / "cache")


def test_nothing_is_added_to_seeds_of_other_data(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = files / "published" / "full" / NAME / "provenance.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"data": {"mnist.npz": "0" * 64}}))
    monkeypatch.setattr(adding, "checksums", lambda cells: {"mnist.npz": "1" * 64})
    with pytest.raises(RunError, match=r"data are others than published: mnist\.npz"):
        add(files)


def test_a_number_that_differs_or_is_gone_is_named() -> None:
    was = pd.DataFrame({"loss": [100.0, np.nan], "time_s": [np.inf, 2.0], "ok": [True, False], "kind": ["a", "b"]})
    now = was.assign(new=[3, 4])
    assert difference(was, was) is None
    assert difference(was, now) is None
    assert difference(was, now.assign(loss=[100.0009, np.nan])) is None
    assert difference(was, now.assign(loss=[100.5, np.nan])) == "loss was 100, now 100.5"
    assert difference(was, now.assign(loss=[100.0, 1.0])) == "loss was nan, now 1"
    assert difference(was, now.assign(ok=[True, True])) == "ok was 0, now 1"
    assert difference(was, now.drop(columns="time_s")) == "there is no time_s any more"
    assert difference(was, now.iloc[:1]) == "2 rows became 1"
    small = pd.DataFrame({"delta": [1e-5]})
    assert difference(small, small * 2) == "delta was 1e-05, now 2e-05"


def test_a_run_by_other_code_is_made_anew(files: Path) -> None:
    more = MoreSeeds(publisher(files))
    additions = more.additions(NAME, 1.0, {}, 0)
    more.check(NAME, additions)
    run = more.runs / additions[0].check.digest()
    assert is_made(run, additions[0].check)
    codes = json.loads((run / CODES).read_text())
    (run / CODES).write_text(json.dumps({**codes, "own": "other code"}))
    assert not is_made(run, additions[0].check)
    compute_run(additions[0].check, more.runs)
    assert is_made(run, additions[0].check)


def test_other_data_than_published_are_refused(files: Path) -> None:
    folder = files / "published" / "full" / NAME
    write_csv(published(files, "cells").assign(source="real"), folder / "cells.csv")
    with pytest.raises(RunError, match="data are others than published: source was 'real', now 'embedded'"):
        add(files)


def test_an_interrupted_call_is_judged_by_the_next_one(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FirstLook, "judge", killed)
        with pytest.raises(KeyboardInterrupt):
            add(files)
    assert published(files, "claims")["seeds"].tolist() == [2, 2]
    assert publisher(files).judge_edited() == [NAME]
    assert published(files, "claims")["seeds"].tolist() == [4, 4]


def test_what_was_published_is_there_after_a_kill_between_two_moves(files: Path) -> None:
    folder = files / "published" / "full" / NAME
    whole = {file.name: file.read_bytes() for file in folder.iterdir()}
    folder.rename(folder.with_name(".one.before"))
    one = publisher(files)
    one.report({})
    with one.replacing(NAME, folder):
        pass
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole
    assert [path.name for path in folder.parent.iterdir()] == ["one"]


def test_rounds_that_become_too_large_leave_their_curves_and_what_claims_read(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adding, "LARGEST_ROUNDS", 0)
    add(files)
    folder = files / "published" / "full" / NAME
    assert not list(folder.glob("rounds.csv*"))
    assert published(files, "claims")["seeds"].tolist() == [4, 4]
    assert set(published(files, IN_PART)["seed"]) == {0, 1, 2, 3}
    curves = published(files, "curves")
    assert curves[(curves["metric"] == "train_loss") & (curves[AXIS] == 12)]["seeds"].unique().tolist() == [4]


def test_hours_bound_what_is_wanted(files: Path) -> None:
    assert MoreSeeds(publisher(files)).additions(NAME, 0.0, {}, 0) == []


def test_claims_over_unpublished_rounds_are_judged_where_all_seeds_were_computed_anew(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "LARGEST_ROUNDS", 0)
    folder = files / "published" / "full" / NAME
    (folder / "rounds.csv.gz").unlink()
    publisher(files).judge(NAME)
    assert published(files, "claims")["seeds"].tolist() == [2, 2]
    add(files)
    assert published(files, "claims")["seeds"].tolist() == [4, 2]
    add(files, anew=4, where={AXIS: ["12", "13"]})
    assert published(files, "claims")["seeds"].tolist() == [4, 4]
    in_part = published(files, IN_PART)
    assert set(in_part) == {AXIS, "seed", "round", "train_loss"}
    assert set(in_part[AXIS]) == {12, 13}


def test_what_cannot_be_added_to_is_refused_with_the_reason(files: Path) -> None:
    more = MoreSeeds(publisher(files))
    with pytest.raises(ScenarioError, match=r"has no axis rule; axes are data\.samples_per_client"):
        more.additions(NAME, 1.0, {"rule": ["mean"]}, 0)
    with pytest.raises(ScenarioError, match="is one of 12, 13, 20, got 14"):
        more.additions(NAME, 1.0, {AXIS: ["12", "14"]}, 0)
    with pytest.raises(ScenarioError, match="must be AXIS=VALUE, got 'epsilon'"):
        parsed(["epsilon"])
    (files / "published" / "full" / NAME / "provenance.json").unlink()
    with pytest.raises(ScenarioError, match="is not published yet: make publish computes it, --cells its cells"):
        more.additions(NAME, 1.0, {}, 0)


def test_a_link_in_place_of_what_is_published_is_left_alone(files: Path, tmp_path: Path) -> None:
    folder = files / "published" / "full" / NAME
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").iterdir())
    with pytest.raises(OutputError, match="was not published by this program"):
        add(files)
    assert sorted((tmp_path / "elsewhere").iterdir()) == before


def test_rows_are_merged_cell_by_cell_in_the_order_of_seeds_and_new_ones_replace_others() -> None:
    was = pd.DataFrame({"axis": [1, 1, 2], "seed": [0, 1, 0], "loss": [0.1, 0.2, 0.3]})
    now = pd.DataFrame({"axis": [2, 1, 1], "seed": [1, 2, 1], "loss": [0.4, 0.5, 0.6], "new": np.nan})
    both = merged(was, now, [{"axis": 1}, {"axis": 2}])
    assert both.to_numpy().tolist() == [[1, 0, 0.1], [1, 1, 0.6], [1, 2, 0.5], [2, 0, 0.3], [2, 1, 0.4]]
