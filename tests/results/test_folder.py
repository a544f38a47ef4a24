"""What a results folder says, of two runs made by hand (`conftest.py`): tables, captions, claims.md, index.md.

Two seeds end at 0.7 and 0.70467 with epsilon 50, at 0.45 and 0.453 with epsilon 60. The interval of two values d apart
is their mean and t(1, .975) = 12.7062 halves of d around it.
"""

from pathlib import Path

import pandas as pd
import pytest

from tests.results.conftest import EVIL

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


def test_values_behind_figures_are_kept_with_their_seeds(folder: Path) -> None:
    final = pd.read_csv(folder / "final.csv").query("metric == 'train_loss'").set_index("privacy.epsilon")
    assert final.loc[60, "mean"] == pytest.approx(0.4515)
    assert final.loc[60, "high"] - final.loc[60, "low"] == pytest.approx(T1 * 0.003, rel=1e-4)
    assert final["seeds"].tolist() == [2, 2]
    curves = pd.read_csv(folder / "curves.csv").query("metric == 'train_loss' and `privacy.epsilon` == 50")
    assert curves["round"].tolist() == [0, 1, 2, 3, 4]
    assert curves["mean"].iloc[0] == pytest.approx(2.3)


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
    assert caption.endswith(f" Ours, where the source is silent: momentum .9; {EVIL}.")
    assert figures["is_run"].to_dict() == {"loss": True, "later": False}


def test_claims_md_has_a_row_for_each_claim_with_source_verdict_and_reason(results: Path) -> None:
    page = (results / "claims.md").read_text()
    head, *rows = rows_of(page)
    assert head == ["experiment", "claim", "verdict", "scale, seeds", "measured", "why"]
    assert [row[0] for row in rows] == ["`nbafl/one` (NbAFL, fig. 2)"] * 4
    assert [row[2] for row in rows] == ["holds", "**does not hold**", "holds", "not run"]
    assert [row[3] for row in rows] == ["quick, 2"] * 3 + ["quick, 0"]
    assert rows[0][4] == "epsilon 50: 0.7023, 60: 0.4515"
    # By seeds the loss falls by 0.25 and 0.25 + 0.00167: 0.2508 ± T1 * 0.00083.
    assert rows[0][5] == "least clear step: from 50 to 60 it falls by [0.24, 0.261]. a & b"
    assert rows[3][5] == "privacy.epsilon = 100 is not run at this scale"


def test_claims_md_ends_with_the_settings_that_are_ours(results: Path) -> None:
    assert (
        (results / "claims.md")
        .read_text()
        .endswith("\n- `nbafl/one`: momentum .9; &lt;script>alert('x')&lt;/script>\n")
    )


def test_claims_md_begins_with_the_score_and_says_that_quick_scale_is_no_evidence(results: Path) -> None:
    page = (results / "claims.md").read_text()
    assert "3 claims: 2 hold, 1 do not hold, 0 are not decided" in page
    assert "1 more are about parts not run at this scale" in page
    assert "fewer than 0.1 can be expected to be wrong" in page
    assert "no evidence" in page


def test_the_index_shows_figures_tables_verdicts_and_files_of_each_experiment(results: Path) -> None:
    page = (results / "index.md").read_text()
    assert "Not run yet: safl/never." in page
    assert "(quick/nbafl/one/loss.svg)" in page
    assert "| 60 | 0.452 ± 0.019 |" in page
    assert "- the loss rises: does not hold. least clear step" in page
    for file in ("final.csv", "curves.csv", "cells.csv"):
        assert f"(quick/nbafl/one/{file})" in page
        assert (results / "quick/nbafl/one" / file).is_file()


def test_cells_name_their_run_data_and_notes(folder: Path) -> None:
    cells = pd.read_csv(folder / "cells.csv")
    assert cells["privacy.epsilon"].tolist() == [50, 60]
    assert set(cells["provenance"]) == {"ten hand-made samples"}
    assert set(cells["notes"]) == {"a note | another"}, "a note that two seeds share stands once"
