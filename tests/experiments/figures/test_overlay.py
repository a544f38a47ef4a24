import pandas as pd
import pytest
from pydantic import ValidationError

from asyncfl.experiments.figures import Bars, Curves, Final
from asyncfl.experiments.figures.base import AXIS, METRIC

GRID = {"privacy.epsilon": (50, 60)}
ALIKE = ("epsilon_rdp_max", "epsilon_exact_max")


def values(metrics, **columns):
    rows = [{"privacy.epsilon": e, "metric": m, "mean": e + i} for e in (50, 60) for i, m in enumerate(metrics)]
    return pd.DataFrame(rows).assign(**columns)


def test_columns_become_an_axis_and_what_their_names_share_stands_at_the_axis():
    figure = Bars(x="privacy.epsilon", ys=ALIKE, overlay=True)
    drawn, grid, tables, said = figure.overlaid(GRID, {"final": values([*ALIKE, "train_loss"])})
    assert grid == {**GRID, AXIS: ("RDP", "exact")}
    assert said == "largest ε of a client"
    assert (drawn.hue, drawn.y, drawn.ys) == (AXIS, METRIC, ())
    assert tables["final"].query(f"`{AXIS}` == 'exact'")["mean"].tolist() == [51, 61]


def test_columns_of_different_kinds_keep_their_names():
    figure = Final(x="privacy.epsilon", ys=("epsilon_exact_max", "epsilon_exact_model"), overlay=True)
    _, grid, _, said = figure.overlaid(GRID, {"final": values(figure.ys)})
    assert grid[AXIS] == ("largest ε of a client, exact", "ε of published models, exact")
    assert said == "ε"
    figure = Curves(ys=("train_loss", "test_loss"), overlay=True)
    assert figure.overlaid(GRID, {"curves": values(figure.ys, round=1)})[3] == ""


def test_an_overlay_needs_columns_and_no_other_colours():
    for fields in ({}, {"ys": ALIKE, "hue": "privacy.epsilon"}):
        with pytest.raises(ValidationError, match="it needs ys, and no hue"):
            Bars(x="privacy.epsilon", overlay=True, **fields)
