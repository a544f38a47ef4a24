"""Tables of an experiment: cells, columns, their labels, and the data in captions."""

from pathlib import Path

import pandas as pd
import pytest

from asyncfl.experiments.analysis import data_in_words
from asyncfl.experiments.experiment_columns import TARGETS, measured_columns, unit_of
from asyncfl.experiments.labels import COLUMNS, end_label, legend_label
from asyncfl.experiments.table import Table
from docs.pages import columns_page


@pytest.mark.parametrize(
    ("mean", "low", "high", "cell"),
    [
        (0.7, 0.7 - 3e-16, 0.7 + 3e-16, "0.7 ± 0"),  # equal values of all seeds, summed up in floating point
        (0.7, 0.69, 0.71, "0.700 ± 0.010"),
        (0.7, float("nan"), float("nan"), "0.7 ± –"),
        (0.0, -0.1, 0.1, "0.00 ± 0.10"),
    ],
)
def test_a_cell_is_a_mean_and_half_its_interval(mean, low, high, cell):
    final = pd.DataFrame([{"a": 1, "metric": "x", "mean": mean, "low": low, "high": high, "seeds": 6, "diverged": 0}])
    assert Table(rows="a", value="x").markdown({"a": (1,)}, final).splitlines()[2] == f"| 1 | {cell} |"


def final(*rows):
    columns = ("a", "metric", "mean", "low", "high", "seeds", "diverged")
    return pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows])


def test_a_table_says_what_its_numbers_mean_and_where_they_are_over_fewer_seeds():
    rows = final((1, "bytes_up", 3.66e7, 3.54e7, 3.78e7, 3, 0), (2, "bytes_up", 5e6, 4e6, 6e6, 2, 1))
    lines = Table(rows="a", value="bytes_up").markdown({"a": (1, 2)}, rows).splitlines()
    assert lines[0] == "| a | uploaded |"
    assert lines[2:4] == ["| 1 | 36.6 ± 1.2 MB |", "| 2 | 5.0 ± 1.0 MB (n = 2, 1 diverged) |"]
    assert lines[-1] == "Mean ± half of the 95 % t interval over n = 3 seeds."


TWO_AXES = {"a": (1, 2), "b": ("x", "y")}


def across():
    rows = final(
        (1, "train_loss", 0.5, 0.4, 0.6, 3, 0),
        (2, "train_loss", float("inf"), float("nan"), float("nan"), 0, 3),
        (1, "train_loss", float("inf"), float("nan"), float("nan"), 3, 0),
    )
    return rows.assign(b=["x", "x", "y"])


def test_a_second_axis_becomes_columns_and_missing_cells_dashes():
    assert Table(rows="a", columns="b").markdown(TWO_AXES, across()).splitlines() == [
        "| a | x | y |",
        "|---|---|---|",
        "| 1 | 0.50 ± 0.10 | ∞ |",
        "| 2 | diverged | – |",
        "",
        "Final training loss: mean ± half of the 95 % t interval over n = 3 seeds.",
    ]
    assert Table(rows="a", columns="b", where={"b": "z"}).markdown(TWO_AXES, across()) == "Not run at this scale.\n"
    told = Table(rows="a", columns="b", where={"b": "x", "a": 1}).markdown(TWO_AXES, across()).splitlines()
    assert told[:3] == ["| a | x |", "|---|---|", "| 1 | 0.50 ± 0.10 |"]
    assert Table(rows="a").markdown({"a": (3,)}, across()).splitlines()[2:] == [
        "| 3 | – |", "", "Value of n = 0 seed, which tells no interval (–).",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "mean", "diverged", "cell"),
    [
        ("epsilon_exact_max", float("inf"), 0, "∞"),
        ("epsilon_exact_max", float("inf"), 1, "diverged"),
        ("train_loss", float("nan"), 0, "–"),
        ("time_s", float("-inf"), 0, "−∞"),
        ("time_to_70", float("inf"), 0, "not by all seeds"),
        ("train_loss", 1.0, 2, "1.00 ± 0.50 (2 diverged)"),
    ],
)
def test_cells_without_a_number_are_described(metric, mean, diverged, cell):
    rows = final((1, metric, mean, mean - 0.5, mean + 0.5, 3, diverged))
    assert Table(rows="a", value=metric).markdown({"a": (1,)}, rows).splitlines()[2] == f"| 1 | {cell} |"


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


def test_columns_of_one_version_are_named_so_in_the_table_of_ends():
    ends = measured_columns("ends")
    assert not {"judged", "recall", "participants", "staleness_mean", "honest_bans", "budget_sum"} & set(ends)
    assert {"judged_total", "recall_total", "staleness_max_total", "malicious_bans_last", "budget_sum_last"} <= set(
        ends
    )
    assert (unit_of("judged"), unit_of("judged_total"), unit_of("malicious_bans_last")) == (
        "updates",
        "updates",
        "clients",
    )
    assert [end_label(name) for name in ("recall_total", "budget_sum_last", "test_accuracy")] == [
        "recall",
        "final sum of a round's budgets",
        "final test accuracy",
    ]


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
    known = {*measured_columns("rounds"), *measured_columns("ends", domains=["mnist"]), "round", "bound"}
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
