import pandas as pd
import pytest

from asyncfl.experiments.table import Table


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


AXES = {"a": (1, 2), "b": ("x", "y")}


def across():
    rows = final(
        (1, "train_loss", 0.5, 0.4, 0.6, 3, 0),
        (2, "train_loss", float("inf"), float("nan"), float("nan"), 0, 3),
        (1, "train_loss", float("inf"), float("nan"), float("nan"), 3, 0),
    )
    return rows.assign(b=["x", "x", "y"])


def test_a_second_axis_becomes_columns_and_missing_cells_dashes():
    assert Table(rows="a", columns="b").markdown(AXES, across()).splitlines() == [
        "| a | x | y |",
        "|---|---|---|",
        "| 1 | 0.50 ± 0.10 | not by all seeds |",
        "| 2 | diverged | – |",
        "",
        "Final training loss: mean ± half of the 95 % t interval over n = 3 seeds.",
    ]
    assert Table(rows="a", columns="b", where={"b": "z"}).markdown(AXES, across()) == "Not run at this scale.\n"
    told = Table(rows="a", columns="b", where={"b": "x", "a": 1}).markdown(AXES, across()).splitlines()
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
        ("time_s", float("-inf"), 0, "not by all seeds"),
        ("train_loss", 1.0, 2, "1.00 ± 0.50 (2 diverged)"),
    ],
)
def test_cells_without_a_number_are_described(metric, mean, diverged, cell):
    rows = final((1, metric, mean, mean - 0.5, mean + 0.5, 3, diverged))
    assert Table(rows="a", value=metric).markdown({"a": (1,)}, rows).splitlines()[2] == f"| 1 | {cell} |"
