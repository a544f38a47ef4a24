"""From runs to claims.md through the same steps that the workflow's jobs take."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from asyncfl.experiments.analysis import make_figures, make_tables, table_files
from asyncfl.experiments.csv_files import read_csv
from asyncfl.experiments.report import write_report
from asyncfl.experiments.verdicts import make_verdicts
from tests.experiments.results_folder import make_experiment


def analyse(experiment, runs, folder, scale="full"):
    make_tables(experiment, scale, runs, folder)
    written = make_figures(experiment, scale, folder)
    make_verdicts(experiment, scale, folder)
    return written


def test_from_runs_to_report(tmp_path, runs):
    experiment = make_experiment()
    folder = tmp_path / "results" / "full" / "nbafl" / "fig2"
    written = analyse(experiment, runs, folder)
    assert [path.name for path in written] == ["figure.svg", "figure.png", "figure.pdf"]
    assert {*table_files(experiment), "claims.csv", "figures.csv"} <= {path.name for path in folder.iterdir()}
    claims = read_csv(folder / "claims.csv")
    assert list(claims["verdict"]) == ["holds"]
    assert (claims["kind"][0], claims["seeds"][0], claims["comparisons"][0]) == ("statistical", 6, 3)
    # the step from 100 to inf: .02 + .003 / .45 * .02 * seed
    assert claims["effect"][0] == pytest.approx(0.02 * (1 + 7.5e-3 / 0.45))
    assert claims["low"][0] < claims["effect"][0] < claims["high"][0]
    assert claims["p"][0] < 1e-9
    assert "| 60 | 0.4575 ± 0.0059 |" in (folder / "table.md").read_text()

    write_report(tmp_path / "results", {"nbafl/fig2": experiment, "nbafl/fig9": experiment})
    page = (tmp_path / "results" / "claims.md").read_text()
    assert "1 claims: 1 hold, 0 do not hold, 0 are not decided" in page
    paper = (tmp_path / "results" / "papers" / "nbafl.html").read_text()
    assert "full/nbafl/fig2/figure.svg" in paper
    assert "ten hand-made samples" in paper


def test_outputs_are_the_same_bytes_each_time(tmp_path, runs):
    for place in ("a", "b"):
        analyse(make_experiment(), runs, tmp_path / place)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("written", "why"), [('"embedded"', "stand-in data"), ('"real", "original": false', "remade data")]
)
def test_absolute_claims_are_judged_on_original_data_only(tmp_path, runs, written, why):
    claim = {"check": "at_least", "value": "final test_accuracy", "threshold": 0.1, "says": "high"}
    for _, folder in runs:
        summary = Path(folder) / "summary.json"
        summary.write_text(summary.read_text().replace('"real"', written))
    experiment = make_experiment(claims=[claim, {**claim, "absolute": True}])
    make_tables(experiment, "full", runs, tmp_path / "out")
    make_verdicts(experiment, "full", tmp_path / "out")
    verdicts = read_csv(tmp_path / "out" / "claims.csv")
    assert list(verdicts["verdict"]) == ["holds", "not decided"]
    assert verdicts["reason"][1] == why


def test_bounds_need_no_runs_and_are_exact(tmp_path):
    bounds = {"rounds": {"theorem": 2, "axes": {"rounds": {"from": 1, "to": 40}, "epsilon": [50, 60, 100]}}}
    best = {"bound": "rounds", "value": "best rounds of final bound", "check": "order", "along": "epsilon"}
    experiment = make_experiment(
        scenario=None,
        axes={},
        quick={},
        tables=[],
        bounds=bounds,
        figure={"kind": "bound", "bound": "rounds", "x": "rounds", "hue": "epsilon"},
        claims=[{**best, "direction": "rises", "says": "T grows"}],
    )
    analyse(experiment, [], tmp_path)
    verdict = read_csv(tmp_path / "claims.csv").iloc[0]
    assert (verdict["verdict"], verdict["kind"], verdict["scale"]) == ("holds", "deterministic", "formula")
    assert np.isnan(verdict["p"])
    assert verdict["measured"] == "epsilon 50: 14, 60: 15, 100: 17"  # golden numbers of the theorem


def test_columns_share_a_figure_and_a_table(tmp_path, runs):
    columns = ["train_loss", "test_accuracy"]
    experiment = make_experiment(
        figure={"kind": "curves", "hue": "privacy.epsilon", "ys": columns, "share_y": False},
        tables=[{"rows": "privacy.epsilon", "values": columns}],
    )
    folder = tmp_path / "results"
    analyse(experiment, runs, folder)
    drawn = (folder / "figure.svg").read_text()
    assert all(drawn.count(f"<!-- {words} -->") == 1 for words in ("training loss", "test accuracy"))
    head, _, *lines = (folder / "table.md").read_text().splitlines()
    assert head == "| epsilon | training loss | test accuracy |"
    assert lines[1].startswith("| 60 | 0.4575 ± 0.0059 | ")
    for wrong in (
        {"figure": {"kind": "curves", "panels": "privacy.epsilon", "ys": columns}},
        {"tables": [{"rows": "privacy.epsilon", "columns": "privacy.epsilon", "values": columns}]},
    ):
        with pytest.raises(ValidationError, match="exclude each other"):
            make_experiment(**wrong)
