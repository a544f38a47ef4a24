"""The notebooks of the documentation run, and are kept without what they came to."""

from pathlib import Path

import nbformat
import pytest

from docs.notebook import NOTEBOOKS, run_notebook

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def test_the_notebooks_are_those_that_are_named_and_hold_no_outputs() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(NOTEBOOKS)
    for name in NOTEBOOKS:
        notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        nbformat.validate(notebook)
        assert [cell.outputs for cell in notebook.cells if cell.get("outputs")] == []


@pytest.mark.long
def test_a_first_run() -> None:
    outputs = run_notebook(FOLDER / "first-run.ipynb")
    fates = next(one.value for one in outputs if isinstance(one.value, dict))
    assert set(fates) == {"aggregated", "lost_up"}
    assert sum(len(one.figures) for one in outputs) == 2
    assert any("mean staleness" in one.printed for one in outputs)


@pytest.mark.long
def test_a_defence_of_ones_own() -> None:
    outputs = run_notebook(FOLDER / "own-defence.ipynb")
    (accuracies,) = [one.value for one in outputs if isinstance(one.value, dict)]
    assert accuracies["ours"] > accuracies["mean"] + 0.3  # what the page says of it


@pytest.mark.long
def test_what_epsilon_is_worth() -> None:
    outputs = run_notebook(FOLDER / "what-epsilon-is-worth.ipynb")
    worth = next(one.value for one in outputs if one.value is not None)
    assert (worth["measured, at least"] <= worth["proven, at most"]).all()
    assert (worth["measured, at least"] > 1).all()
