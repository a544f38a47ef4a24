"""Columns of an experiment's tables, their labels, and the data in captions."""

from pathlib import Path

import pytest

from asyncfl.experiments.analysis import data_in_words
from asyncfl.experiments.columns import TARGETS, measured_columns
from asyncfl.experiments.labels import COLUMNS, legend_label
from docs.pages import columns_page

ROOT = Path(__file__).parents[2]


def test_the_page_about_columns_is_up_to_date():
    """Write it anew with `python -c "from docs.pages import columns_page; print(columns_page(), end='')"`."""
    assert (ROOT / "docs" / "columns.md").read_text(encoding="utf-8") == columns_page()


def test_the_columns_of_an_experiment_are_those_of_its_domains_and_targets():
    assert "test_accuracy_usps" not in measured_columns("rounds")
    rounds = measured_columns("rounds", domains=["mnist", "usps"], targets=["time_to_70"])
    assert {"test_accuracy_usps", "test_accuracy_domains_min", "epsilon_exact_sum"} <= set(rounds)
    assert not {"test_accuracy_svhn", "versions", "time_to_70", "seed", "version"} & set(rounds)
    ends = measured_columns("ends", domains=["mnist", "usps"], targets=["time_to_70"])
    assert set(ends) - set(rounds) >= {"versions", "time_to_70", "exposures_up_max"}
    assert ends["time_to_70"].unit == TARGETS["time_to_"]


def test_a_label_that_says_nothing_alone_has_its_axis_beside_it():
    assert legend_label("L", "measured") == "$L$ = measured"
    assert legend_label("L", 1) == "$L$ = 1"
    assert [legend_label("epsilon", text) for text in ("100", "1e-3", ".5")] == [
        r"$\epsilon$ = 100",
        r"$\epsilon$ = 1e-3",
        r"$\epsilon$ = .5",
    ]
    assert legend_label("privacy.epsilon", float("inf")) == "no noise"


def test_labels_are_those_of_columns_that_exist():
    known = {*measured_columns("ends", domains=["mnist"]), "round", "bound"}
    assert [name for name in COLUMNS if name not in known and not name.startswith(tuple(TARGETS))] == []


MNIST = "MNIST, complete (60000 + 10000 images)"


@pytest.mark.parametrize(
    ("provenances", "said"),
    [
        ([MNIST, MNIST], MNIST),
        ([MNIST, f"{MNIST}; USPS, complete; MNIST-M"], f"{MNIST}; in some cells also USPS, complete; MNIST-M"),
        (
            [f"{MNIST}; tested on the training split", MNIST],
            f"{MNIST}; in some cells also tested on the training split",
        ),
        ([MNIST, "USPS, complete"], f"{MNIST}; USPS, complete"),
        ([f"{MNIST}; a", f"b; {MNIST}"], f"{MNIST}; in some cells also a; b"),
        (["a; b", "b; c", "c; a"], "a; b; c"),
        ([], ""),
    ],
)
def test_each_data_set_is_named_once(provenances: list[str], said: str) -> None:
    assert data_in_words(provenances) == said
