"""What `make publish` copies, says and leaves out; the workflow itself is replaced by runs made by hand."""

import gzip
import hashlib
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from asyncfl import Scenario
from asyncfl.experiments.analysis import make_figures, make_tables
from asyncfl.experiments.cells import Cell
from asyncfl.experiments.csv_files import read_csv
from asyncfl.experiments.job import CODES
from asyncfl.experiments.plan import all_cells
from asyncfl.experiments.site.contents import size_of
from asyncfl.experiments.verdicts import make_verdicts
from tests.experiments.results_folder import write_run
from workflow.published import build

ROOT = Path(__file__).resolve().parents[2]
MODULE = runpy.run_path(str(ROOT / "workflow" / "publish.py"))
EXPERIMENT: dict[str, Any] = {
    "title": "Loss by budget",
    "source": {"paper": "nbafl", "figure": 2},
    "scenario": {
        "data": {"source": "embedded"},
        "protocol": {"kind": "sync", "rounds": 4},
        "privacy": {"kind": "nbafl", "epsilon": 60},
    },
    "axes": {"privacy.epsilon": [50, 60]},
    "seeds": {"quick": 2, "full": 6},
    "figure": {"kind": "curves", "hue": "privacy.epsilon"},
    "tables": [{"rows": "privacy.epsilon"}],
    "claims": [{"check": "order", "along": "privacy.epsilon", "says": "the loss falls"}],
}


class ByHand(MODULE["Publisher"]):  # type: ignore[misc]
    """Publishes runs whose loss is .7 and .4; counts how often it was asked to compute."""

    asked = 0

    def compute(self, name: str, core_hours: float) -> None:
        self.asked += 1
        experiment, folder = self.experiments[name], self.results / "full" / name
        runs = []
        for cell, loss in zip(next(all_cells(experiment, "full")), (0.7, 0.4), strict=True):
            run = cell.folder(self.results / "runs")
            if not run.is_dir():
                write_run(run, loss)
                (run / "timing.json").write_text(json.dumps({"0": {"total": 1800.0}, "1": {"total": 1800.0}}))
                codes = {"own": MODULE["code_of"]([cell]), "job": "", "commit": "765121e0", "cpu": "one with cores"}
                (run / CODES).write_text(json.dumps(codes))
            runs.append((cell.values, run))
        make_tables(experiment, "full", runs, folder)
        make_figures(experiment, "full", folder)
        make_verdicts(experiment, "full", folder)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "experiments" / "nbafl").mkdir(parents=True)
    write(tmp_path, EXPERIMENT)
    return tmp_path


def write(root: Path, experiment: dict[str, Any]) -> None:
    (root / "experiments" / "nbafl" / "one.yaml").write_text(yaml.safe_dump(experiment))


def publisher(root: Path, core_hours: float = 20.0, each: float = 20.0) -> ByHand:
    return ByHand(root / "experiments", root / "results", root / "published", core_hours, each)


def publish(one: ByHand) -> dict[str, tuple[str, str]]:
    """Publish all, write the report, and return what was done and why not, by experiment."""
    one.judge_edited()
    done = {name: (what, why) for name, what, why in MODULE["steps"](one, one.in_order([]))}
    one.report({name: why for name, (_, why) in done.items() if why})
    return done


def test_what_is_published_says_where_it_comes_from(files: Path) -> None:
    publish(publisher(files))
    folder = files / "published" / "full" / "nbafl" / "one"
    told = json.loads((folder / "provenance.json").read_text())
    assert (told["commits"], told["cpu"], told["core_hours"], told["seeds"]) == (
        ["765121e0"],
        ["one with cores"],
        2,
        "6",
    )
    assert read_csv(folder / "claims.csv")["commit"].tolist() == ["765121e0"]
    all_claims = read_csv(files / "published" / "claims.csv")
    assert all_claims[["verdict", "commit", "seeds"]].to_numpy().tolist() == [["holds", "765121e0", 6]]
    assert "the loss falls" in (files / "published" / "claims.md").read_text()


def test_tables_are_published_with_rounds_compressed_and_no_figure_or_page(files: Path) -> None:
    publish(publisher(files))
    folder = files / "published" / "full" / "nbafl" / "one"
    names = {file.name for file in folder.iterdir()}
    assert {"table.md", "ends.csv", "cells.csv", "rounds.csv.gz"} <= names
    assert not {"rounds.csv", "curves.csv", "final.csv", "figures.csv"} & names
    assert not [file for file in files.glob("published/**/*") if file.suffix in (".svg", ".png", ".pdf", ".html")]
    whole = (files / "results" / "full" / "nbafl" / "one" / "rounds.csv").read_bytes()
    assert gzip.decompress((folder / "rounds.csv.gz").read_bytes()) == whole
    assert not (files / "published" / "runs").exists()


def test_the_figure_drawn_from_published_tables_is_that_of_the_runs(files: Path) -> None:
    one = publisher(files)
    publish(one)
    drawn = files / "drawn"
    build(one.into, one.experiments, drawn)
    of_runs, of_tables = (
        (folder / "full" / "nbafl" / "one" / "figure.svg").read_text() for folder in (files / "results", drawn)
    )
    assert of_tables == of_runs
    assert "the loss falls" in (drawn / "papers" / "nbafl.html").read_text()


def test_an_experiment_is_drawn_again_only_where_its_tables_changed(files: Path) -> None:
    one = publisher(files)
    publish(one)
    build(one.into, one.experiments, files / "drawn")
    figure = files / "drawn" / "full" / "nbafl" / "one" / "figure.svg"
    figure.write_text("drawn before")
    build(one.into, one.experiments, files / "drawn")
    assert figure.read_text() == "drawn before"
    ends = one.folder("nbafl/one") / "ends.csv"
    ends.write_text(ends.read_text().replace("0.7", "0.8"))
    build(one.into, one.experiments, files / "drawn")
    assert figure.read_text() != "drawn before"


def test_curves_are_published_where_the_rounds_are_too_large(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULE["pack"].__globals__, "LARGEST_ROUNDS", 10)
    one = publisher(files)
    publish(one)
    folder = one.folder("nbafl/one")
    assert not (folder / "rounds.csv.gz").exists()
    assert set(read_csv(folder / "curves.csv")["metric"]) == {"train_loss"}
    build(one.into, one.experiments, files / "drawn")
    of_runs, of_tables = (
        (root / "full" / "nbafl" / "one" / "figure.svg").read_text() for root in (files / "results", files / "drawn")
    )
    assert of_tables == of_runs


def test_a_figure_whose_tables_are_not_published_is_published_packed(files: Path) -> None:
    one = publisher(files)
    one.compute("nbafl/one", 1.0)
    (files / "results" / "full" / "nbafl" / "one" / "curves.csv").unlink()
    (files / "results" / "full" / "nbafl" / "one" / "rounds.csv").unlink()
    one.publish("nbafl/one")
    one.report({})
    folder = one.folder("nbafl/one")
    assert read_csv(folder / "figures.csv")["name"].tolist() == ["figure"]
    packed = gzip.decompress((folder / "figure.svg.gz").read_bytes())
    assert len(packed) < 0.8 * (files / "results" / "full" / "nbafl" / "one" / "figure.svg").stat().st_size
    build(one.into, one.experiments, files / "drawn")
    drawn = files / "drawn" / "full" / "nbafl" / "one" / "figure.svg"
    assert drawn.read_bytes() == packed
    assert size_of(drawn) == pytest.approx(size_of(files / "results/full/nbafl/one/figure.svg"), abs=1e-3)


def test_what_the_same_code_published_is_not_computed_again_on_another_machine(files: Path) -> None:
    publish(publisher(files))
    (files / "results").rename(files / "elsewhere")
    again = publisher(files)
    assert publish(again) == {"nbafl/one": ("is published", "")}
    assert again.asked == 0


def test_other_cells_are_computed_again(files: Path) -> None:
    publish(publisher(files))
    write(files, {**EXPERIMENT, "axes": {"privacy.epsilon": [50, 70]}})
    again = publisher(files)
    publish(again)
    assert again.asked == 1


def test_edited_claims_are_judged_from_the_published_tables(files: Path) -> None:
    publish(publisher(files))
    (files / "results").rename(files / "elsewhere")
    rises = {"check": "order", "along": "privacy.epsilon", "says": "the loss rises", "direction": "rises"}
    write(files, {**EXPERIMENT, "claims": [rises]})
    again = publisher(files)
    publish(again)
    claims = read_csv(files / "published" / "claims.csv")
    assert again.asked == 0
    assert claims[["claim", "verdict", "commit"]].to_numpy().tolist() == [
        ["the loss rises", "does not hold", "765121e0"]
    ]


def test_cells_that_an_edited_experiment_no_longer_has_are_published_no_more(files: Path) -> None:
    publish(publisher(files))
    folder = files / "published" / "full" / "nbafl" / "one"
    before = read_csv(folder / "ends.csv")
    fewer = {**EXPERIMENT, "axes": {"privacy.epsilon": [60, 70]}, "claims": []}
    write(files, fewer)
    one = publisher(files)
    one.judge_edited()
    left = read_csv(folder / "ends.csv")
    pd.testing.assert_frame_equal(left, before[before["privacy.epsilon"] == 60].reset_index(drop=True))
    assert set(read_csv(folder / "rounds.csv")["privacy.epsilon"]) == {60}
    assert [line.split("|")[1].strip() for line in (folder / "table.md").read_text().splitlines()[2:4]] == ["60", "70"]
    assert (one.published()["nbafl/one"].cells, one.published()["nbafl/one"].cut) == (1, "1 of 2 cells are not run")
    build(one.into, one.experiments, files / "drawn")
    assert (files / "drawn" / "full" / "nbafl" / "one" / "figure.svg").is_file()


def test_claims_on_variants_that_were_added_are_not_run_until_they_are_computed(files: Path) -> None:
    publish(publisher(files))
    variants = {"noise": {"of the clients": {}, "of the server": {"privacy.kind": "nbafl"}}}
    claim = {
        "check": "order",
        "along": "privacy.epsilon",
        "says": "the loss falls",
        "where": {"noise": "of the clients"},
    }
    shown = {"where": {"noise": "of the clients"}}
    more = {"figure": EXPERIMENT["figure"] | shown, "tables": [EXPERIMENT["tables"][0] | shown]}
    fewer = {"axes": {"privacy.epsilon": [60, 70]}}
    write(files, {**EXPERIMENT, **fewer, "variants": variants, "claims": [claim], **more})
    one = publisher(files)
    one.judge_edited()
    one.report({})
    assert read_csv(files / "published" / "claims.csv")["verdict"].tolist() == ["not run"]
    build(one.into, one.experiments, files / "drawn")


def test_every_folder_of_experiments_has_its_place_in_the_order() -> None:
    folders = {path.name for path in (ROOT / "workflow" / "experiments").iterdir() if path.is_dir()}
    assert folders <= set(MODULE["ORDER"])


def test_what_exceeds_the_hours_is_listed_as_not_run_with_the_reason(files: Path) -> None:
    one = publisher(files, each=1e-9)
    what, why = publish(one)["nbafl/one"]
    assert what == "is not run"
    assert "core-hours, more than the 1e-09 allowed" in why
    claims = read_csv(files / "published" / "claims.csv")
    assert claims[["verdict", "reason"]].to_numpy().tolist() == [["not run", why]]
    assert pd.read_csv(files / "published" / "experiments.csv")["not_run"].tolist() == [why]
    assert why in (files / "published" / "claims.md").read_text()


def test_an_experiment_that_is_gone_is_published_and_drawn_no_more(files: Path) -> None:
    one = publisher(files)
    publish(one)
    build(one.into, one.experiments, files / "drawn")
    (files / "experiments" / "nbafl" / "one.yaml").rename(files / "experiments" / "nbafl" / "two.yaml")
    again = publisher(files)
    publish(again)
    assert [path.parent.name for path in files.glob("published/full/*/*/claims.csv")] == ["two"]
    build(again.into, again.experiments, files / "drawn")
    assert [path.parent.name for path in files.glob("drawn/full/*/*/claims.csv")] == ["two"]


def test_an_experiment_that_plans_more_looks_is_computed_again(files: Path) -> None:
    publish(publisher(files))
    write(files, {**EXPERIMENT, "seeds": {"quick": 2, "full": {"looks": [6, 12]}}})
    again = publisher(files)
    assert not again.is_current("nbafl/one")
    assert "computed" in publish(again)["nbafl/one"][0]
    assert publisher(files).is_current("nbafl/one")


def scenario(data: dict[str, Any]) -> Scenario:
    return Scenario.read({**EXPERIMENT["scenario"], "data": data})


def test_checksums_are_of_the_files_that_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path))
    for name, shape in (("mnist", (28, 28)), ("svhn", (32, 32, 3)), ("street_digits", (32, 32, 3))):
        images, labels = np.zeros((20, *shape), np.uint8), (np.arange(20) % 10).astype(np.uint8)
        np.savez(tmp_path / f"{name}.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    together = {"domains": ["mnist", "svhn"], "clients": 2, "samples_per_client": 10, "source": "real"}
    cells = [Cell({}, scenario(data)) for data in (together, {"dataset": "mnist", "source": "embedded"})]
    found = MODULE["checksums"](cells)
    assert list(found) == ["mnist.npz", "street_digits.npz"]
    assert found["mnist.npz"] == hashlib.sha256((tmp_path / "mnist.npz").read_bytes()).hexdigest()
    assert MODULE["checksums"]([Cell({}, scenario(together), recording=tmp_path)]) == {}
