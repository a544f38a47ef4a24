"""Tables, figures, captions, verdicts and claims.md of results folders of runs made by hand (`results_folder.py`).

Two seeds end at 0.7 and 0.70467 with epsilon 50, at 0.45 and 0.453 with epsilon 60. The interval of two values d apart
is their mean and t(1, .975) = 12.7062 halves of d around it.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from asyncfl.experiments.analysis import make_figures, make_tables, table_files
from asyncfl.experiments.csv_files import read_csv
from asyncfl.experiments.report import write_report
from asyncfl.experiments.scores import scores_of
from asyncfl.experiments.verdicts import make_verdicts
from tests.experiments.results_folder import EPSILON, EVIL, make_experiment, marked_up, write_run

T1 = 12.7062


@pytest.fixture(scope="module")
def folder(results: Path) -> Path:
    return results / "quick" / "nbafl" / "one"


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of each row of the first table of a Markdown page, its head first."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if not line.startswith("|--")]


def test_a_table_has_mean_and_interval_of_each_cell_in_the_digits_that_mean_something(folder: Path) -> None:
    page = (folder / "table.md").read_text()
    assert rows_of(page) == [
        ["epsilon", "final training loss"],
        ["50", "0.702 ± 0.030"],  # half of 0.7 * 0.003 / 0.45, times T1: 0.0296
        ["60", "0.452 ± 0.019"],  # half of 0.003, times T1: 0.0191
    ]
    assert page.splitlines()[-1].startswith("Mean ± half of the 95 % t interval over n = 2 seeds")


def test_a_caption_says_what_is_shown_from_which_data_and_what_quick_scale_lowers(folder: Path) -> None:
    figures = pd.read_csv(folder / "figures.csv").set_index("name")
    caption = figures.loc["loss", "caption"]
    for part in (
        "Training loss over communication round; lines by epsilon.",
        "NbAFL, fig. 2, scale quick: mean over n = 2 seeds",
        "Data: ten hand-made samples.",
        "Quick scale lowers: privacy.epsilon at 2 of 3 values; 2 of 6 seeds.",
    ):
        assert part in caption
    assert caption.endswith(f" The source is silent on: {EVIL} = 0.")
    assert figures["is_run"].to_dict() == {"loss": True, "later": False}
    assert figures.loc["later", "caption"] == "Not run at this scale."


def test_a_caption_counts_the_seeds_that_cells_have(tmp_path: Path) -> None:
    experiment = marked_up(seeds={"quick": {"looks": [2, 3, 6]}, "full": 12})
    runs = [({EPSILON: at}, write_run(tmp_path / str(at), 0.5, seeds)) for at, seeds in ((50, 3), (60, 2))]
    make_tables(experiment, "quick", runs, tmp_path)
    make_figures(experiment, "quick", tmp_path)
    caption = pd.read_csv(tmp_path / "figures.csv").set_index("name").loc["loss", "caption"]
    assert "over n = 3 seeds, in some cells 2" in caption
    assert "3 of 12 seeds" in caption


def test_cells_that_are_not_run_leave_figures_and_tables_whole(tmp_path: Path) -> None:
    claim = {"check": "best_at", "along": EPSILON, "at": 50, "where": {"L": "one"}, "says": "best at 50"}
    figures = [
        {"kind": "curves", "hue": EPSILON, "panels": "L", "name": "curves"},
        {"kind": "bars", "x": EPSILON, "hue": "L", "name": "bars"},
        {"kind": "final", "x": EPSILON, "hue": "L", "name": "final"},
        {"kind": "heatmap", "x": EPSILON, "rows": "L", "name": "heatmap"},
    ]
    experiment = marked_up(
        variants={"L": {"one": {}, "two": {}}}, claims=[claim], figures=figures, quick={}, quick_cells="claims",
        tables=[{"rows": EPSILON, "columns": "L"}],
    )  # fmt: skip
    runs = [({EPSILON: at, "L": "one"}, write_run(tmp_path / str(at), 0.5, 2)) for at in (50, 60, 100)]
    make_tables(experiment, "quick", runs, tmp_path)
    make_figures(experiment, "quick", tmp_path)
    assert rows_of((tmp_path / "table.md").read_text())[1] == ["50", "0.502 ± 0.021", "–"]
    for name in ("curves", "bars", "final", "heatmap"):
        assert (tmp_path / f"{name}.svg").is_file()
    assert "two" not in (tmp_path / "bars.svg").read_text(), "a label without a run stands in no legend"


def test_a_heat_map_of_losses_reads_the_cells_that_it_compares_with(tmp_path: Path) -> None:
    """Though `where` leaves these out."""
    lost = {"kind": "heatmap", "x": EPSILON, "rows": EPSILON, "name": "lost", "where": {"L": "two"}}
    experiment = marked_up(
        variants={"L": {"one": {}, "two": {}}}, figures=[{**lost, "against": {"L": "one"}}], quick={}, tables=[]
    )
    runs = [
        ({EPSILON: at, "L": label}, write_run(tmp_path / f"{at} {label}", 0.5, 2))
        for at in (50, 60, 100)
        for label in ("one", "two")
    ]
    make_tables(experiment, "quick", runs, tmp_path)
    make_figures(experiment, "quick", tmp_path)
    assert pd.read_csv(tmp_path / "figures.csv").set_index("name").loc["lost", "is_run"]


def test_claims_of_experiments_on_request_are_not_run_and_name_their_command(tmp_path: Path) -> None:
    done, on_request = marked_up(quick={}), marked_up(name="ours/settings", on_request=True)
    runs = [({EPSILON: at}, write_run(tmp_path / "runs" / str(at), 0.5, 2)) for at in (50, 60, 100)]
    make_tables(done, "quick", runs, tmp_path / "quick" / done.name)
    make_figures(done, "quick", tmp_path / "quick" / done.name)
    make_verdicts(done, "quick", tmp_path / "quick" / done.name)
    scores = scores_of(write_report(tmp_path, {one.name: one for one in (done, on_request)}))
    assert {author: score.not_run for author, score in scores.items()} == {"paper": 0, "ours": 1}
    claims = pd.read_csv(tmp_path / "claims.csv").query("experiment == 'ours/settings'")
    assert list(claims["verdict"]) == ["not run"] * 4
    command = "snakemake --cores 2 --config only=ours/settings"
    assert all(reason.endswith(command) for reason in claims["reason"])
    assert command in (tmp_path / "index.html").read_text()


def test_claims_whose_data_are_missing_are_not_run_and_say_what_they_need(tmp_path: Path) -> None:
    needy = marked_up(name="outside/mnist", on_request=True)
    write_report(tmp_path, {needy.name: needy}, without_data={needy.name: "needs MNIST on disk"})
    claims = pd.read_csv(tmp_path / "claims.csv")
    assert set(claims["verdict"]) == {"not run"}
    assert set(claims["reason"]) == {"needs MNIST on disk"}
    assert "Not run: outside/mnist: needs MNIST on disk." in (tmp_path / "index.html").read_text()


def test_claims_md_has_a_row_for_each_claim_with_source_verdict_and_reason(results: Path) -> None:
    page = (results / "claims.md").read_text()
    head, *rows = rows_of(page)
    assert head == ["experiment", "claim", "verdict", "scale, seeds", "measured", "why"]
    *rows, again, ours = rows
    assert again == head
    anchors = [f'<a id="nbafl-one-{place}"></a>' for place in range(3)]
    assert [row[0] for row in rows[:2]] == [f"{anchor}`nbafl/one` (NbAFL, fig. 2)" for anchor in anchors[:2]]
    assert [row[2] for row in rows] == ["holds", "**does not hold**", "not run"]
    assert [row[3] for row in rows] == ["quick, 2"] * 2 + ["quick, 0"]
    assert (ours[0], ours[2]) == (f"{anchors[2]}`nbafl/one`", "holds")
    assert rows[0][4] == "epsilon 50: 0.7023, 60: 0.4515"
    # By seeds the loss falls by 0.25 and 0.25 + 0.00167: 0.2508 ± T1 * 0.00083.
    assert rows[0][5] == "least clear step: from 50 to 60 it falls by [0.24, 0.261]. a & b"
    assert rows[2][5] == "privacy.epsilon = 100 is not run at this scale"
    assert "<script" not in page, "markup in titles and claims stays text"
    assert "&lt;script>alert('x')" in page


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
    assert "1 statements of ours: 1 hold, 0 do not hold, 0 are not decided" in page
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
