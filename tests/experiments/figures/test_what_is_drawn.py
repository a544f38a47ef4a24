"""Lines, bars, intervals, names and legends of each kind of figure, against a table made by hand.

Fonts, colours, sizes and places of legends are free: no test names them.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from PIL import Image
from pydantic import ValidationError

from asyncfl.data.class_counts import ClassCounts
from asyncfl.experiments.analysis import seeds_drawn
from asyncfl.experiments.bounds import Bound, bound_value
from asyncfl.experiments.class_counts_figure import holdings_figure
from asyncfl.experiments.figures import Bars, BoundCurves, Curves, Final, Heatmap
from asyncfl.experiments.figures.base import AXIS, METRIC, FigureBase
from asyncfl.experiments.figures.drawing import OWN
from asyncfl.experiments.intervals import over_seeds
from asyncfl.results.figure_style import styled

RULES = {"rule": ("mean", "krum")}
HALF = 0.05


def table(metric: str, rows: list[dict[str, Any]], half: float = HALF) -> pd.DataFrame:
    """Means with an interval of this half width over three seeds."""
    frame = pd.DataFrame(rows).assign(metric=metric, seeds=3, diverged=0)
    return frame.assign(low=frame["mean"] - half, high=frame["mean"] + half)


CURVES = table(
    "train_loss",
    [{"rule": "mean", "round": r, "mean": 2.0 - 0.5 * r} for r in range(4)]
    + [{"rule": "krum", "round": r, "mean": 2.0 - 0.25 * r} for r in range(4)],
)
TIMES = table("time_s", [{"rule": rule, "round": r, "mean": 60.0 * r} for rule in RULES["rule"] for r in range(4)], 0.0)
ACCURACIES = table("test_accuracy", [{"rule": "mean", "mean": 0.7}, {"rule": "krum", "mean": 0.9}])


def axes_of(figure: FigureBase, grid: dict[str, Any], tables: dict[str, pd.DataFrame], folder: Path) -> list[Any]:
    """Draw the figure and return its axes."""
    pages: list[Any] = []
    with mock.patch("matplotlib.pyplot.close", pages.append):
        figure.draw(grid, tables, "The caption.", "The title", folder / "figure")
    [page] = pages
    plt.close(page)
    written = " ".join(text.get_text() for text in page.texts)
    assert "The title" in written
    assert "The caption." in written
    return list(page.axes)


def lines_of(axes: Any) -> dict[str, list[list[float]]]:
    """Return label -> [x, y] of each line that has a name in the legend."""
    named = [line for line in axes.lines if not line.get_label().startswith("_")]
    return {line.get_label(): [np.asarray(part, float).tolist() for part in line.get_data()] for line in named}


def legend_of(axes: Any) -> list[str]:
    return [" ".join(text.get_text().split()) for text in axes.get_legend().get_texts()]


def bands_of(axes: Any) -> list[tuple[float, float]]:
    """Return the lowest and the highest value of each shaded interval."""
    drawn = [one for one in axes.collections if len(one.get_facecolor())]
    paths = [path.vertices[:, 1] for one in drawn for path in one.get_paths()]
    return [(float(path.min()), float(path.max())) for path in paths]


def test_curves_are_the_means_of_each_round_with_their_intervals(tmp_path: Path) -> None:
    [axes] = axes_of(Curves(hue="rule"), RULES, {"curves": CURVES}, tmp_path)
    assert lines_of(axes) == {
        "mean": [[1.0, 2.0, 3.0], [1.5, 1.0, 0.5]],  # the initial model, round 0, is not drawn
        "krum": [[1.0, 2.0, 3.0], [1.75, 1.5, 1.25]],
    }
    assert bands_of(axes) == [pytest.approx((0.5 - HALF, 1.5 + HALF)), pytest.approx((1.25 - HALF, 1.75 + HALF))]
    assert legend_of(axes) == ["mean", "krum"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("communication round", "training loss")


def test_curves_over_time_stand_at_the_times_of_their_rounds_in_minutes(tmp_path: Path) -> None:
    figure = Curves(x="time_s", hue="rule", start=0, log=True)
    [axes] = axes_of(figure, RULES, {"curves": pd.concat([CURVES, TIMES])}, tmp_path)
    assert lines_of(axes)["mean"] == [[0.0, 1.0, 2.0, 3.0], [2.0, 1.5, 1.0, 0.5]]
    assert (axes.get_xlabel(), axes.get_yscale()) == ("virtual time (min)", "log")


def test_a_legend_says_how_many_seeds_of_a_line_diverged(tmp_path: Path) -> None:
    lost = CURVES.assign(diverged=np.where(CURVES["rule"] == "krum", 2, 0))
    [axes] = axes_of(Curves(hue="rule"), RULES, {"curves": lost}, tmp_path)
    assert legend_of(axes) == ["mean", "krum (2 diverged)"]


def test_final_values_stand_over_the_values_of_their_axis(tmp_path: Path) -> None:
    grid = {"privacy.epsilon": (10, 50), "rule": ("mean",)}
    rows = [{"privacy.epsilon": e, "rule": "mean", "mean": m} for e, m in ((10, 0.8), (50, 0.4))]
    limits = [{"privacy.epsilon": e, "rule": "mean", "mean": 0.9} for e in (10, 50)]
    final = pd.concat([table("train_loss", rows), table("test_loss", limits)])
    figure = Final(x="privacy.epsilon", hue="rule", limit="test_loss")
    [axes] = axes_of(figure, grid, {"final": final}, tmp_path)
    assert lines_of(axes) == {"mean": [[10.0, 50.0], [0.8, 0.4]], "final test loss": [[10.0, 50.0], [0.9, 0.9]]}
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "50"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"$\epsilon$", "final training loss")


def test_bars_are_as_high_as_their_means_with_an_interval_each(tmp_path: Path) -> None:
    [axes] = axes_of(Bars(x="rule"), RULES, {"final": ACCURACIES}, tmp_path)
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.7, 0.9])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["mean", "krum"]
    [intervals] = [one for one in axes.collections if not len(one.get_facecolor())]
    ends = [path.vertices[:, 1] for path in intervals.get_paths()]
    np.testing.assert_allclose(np.sort(ends), [[0.65, 0.75], [0.85, 0.95]])
    assert axes.get_ylabel() == "final test accuracy"
    assert axes.get_ylim()[0] == 0


NAMES = ("SAFL 6", "adaptive 12", "DP-FedAvg, z = 1.1", "DP-SGD, z = 1.1")


@pytest.mark.parametrize(("names", "slanted"), [(NAMES, True), (NAMES[:2], False), (tuple("abcdefghijkl"), False)])
@pytest.mark.parametrize("kind", [Bars, Final])
def test_names_at_the_axis_do_not_run_into_each_other(
    tmp_path: Path, kind: Any, names: tuple[str, ...], slanted: bool
) -> None:
    rows = table("test_accuracy", [{"scheme": name, "mean": 0.5} for name in names])
    [axes] = axes_of(kind(x="scheme", y="test_accuracy"), {"scheme": names}, {"final": rows}, tmp_path)
    labels = axes.get_xticklabels()
    assert [text.get_rotation() == 40 for text in labels] == [slanted] * len(labels)
    boxes = [text.get_window_extent() for text in labels]
    assert slanted or all(left.x1 < right.x0 for left, right in pairwise(boxes))


def error_bars_of(axes: Any) -> list[list[float]]:
    """Return lower and upper end of each error bar."""
    drawn = [one for one in axes.collections if not len(one.get_facecolor())]
    return [sorted(path.vertices[:, 1].tolist()) for one in drawn for path in one.get_paths()]


@pytest.mark.parametrize(
    "figure", [Bars(x="rule", y="train_loss"), Final(x="rule", y="train_loss"), Curves(hue="rule")]
)
def test_no_interval_is_cut_at_the_axis(tmp_path: Path, figure: FigureBase) -> None:
    # From 0.3 to 1.5, and of curves from 0.1 to 2.15, though means end at 0.9, and at 1.75.
    rows = [{"rule": "mean", "mean": 0.7}, {"rule": "krum", "mean": 0.9}]
    wide = CURVES.assign(low=CURVES["mean"] - 0.4, high=CURVES["mean"] + 0.4)
    tables = {"final": table("train_loss", rows, 0.6), "curves": wide}
    [axes] = axes_of(figure, RULES, tables, tmp_path)
    low, high = axes.get_ylim()
    assert low <= 0.1
    assert high >= (2.15 if figure.kind == "curves" else 1.5)


def test_an_interval_that_reaches_0_has_an_arrow_at_a_logarithmic_axis(tmp_path: Path) -> None:
    rows = table("train_loss", [{"rule": "mean", "mean": 2.0}, {"rule": "krum", "mean": 9.0}], 3.0)
    [axes] = axes_of(Bars(x="rule", y="train_loss", log=True), RULES, {"final": rows}, tmp_path)
    assert axes.get_ylim()[1] >= 12.0
    [arrows] = [line for line in axes.lines if line.get_marker() == "v"]
    assert arrows.get_xdata().tolist() == [0.0]  # 2 - 3 < 0 < 9 - 3


P = {"rule": ("mean", "krum", "median"), "p": (1, 2)}


def points_of_two_rules(metric: str, mean: float, half: float, seeds: int = 3) -> pd.DataFrame:
    """The mean over both values of `p`; Krum and the median at 2 alone."""
    rows = [("mean", 1), ("mean", 2), ("krum", 2), ("median", 2)]
    return table(metric, [{"rule": rule, "p": p, "mean": mean} for rule, p in rows], half).assign(seeds=seeds)


def test_lines_of_one_point_have_error_bars_side_by_side(tmp_path: Path) -> None:
    rows = points_of_two_rules("train_loss", 0.9, 0.2)
    [axes] = axes_of(Final(x="p", hue="rule"), P, {"final": rows}, tmp_path)
    assert bands_of(axes) == [pytest.approx((0.7, 1.1))]
    assert error_bars_of(axes) == [pytest.approx([0.7, 1.1])] * 2
    bars = [one for one in axes.collections if not len(one.get_facecolor())]
    across = [bar.get_transform().transform(bar.get_segments()[0])[0, 0] for bar in bars]
    middle = axes.transData.transform((2, 1))[0]
    assert across[0] < middle < across[1]
    assert across[0] + across[1] == pytest.approx(2 * middle)
    markers = [line for line in axes.lines if line.get_label() == OWN and line.get_xdata().tolist() == [2]]
    assert [line.get_transform().transform((2, 1))[0] for line in markers if line.get_marker() in "s^"] == across


def test_own_values_of_a_single_point_are_dashes(tmp_path: Path) -> None:
    rows = points_of_two_rules("train_loss", 0.9, 12.706 * 0.1, seeds=2)
    [axes] = axes_of(Final(x="p", hue="rule"), P, {"final": rows}, tmp_path)
    dashes = [line.get_ydata() for line in axes.lines if line.get_marker() == "_"]
    assert [list(ends) for ends in dashes] == [pytest.approx([0.8, 1.0])] * 2


def test_a_band_that_reaches_0_ends_at_the_lowest_value_of_a_logarithmic_axis(tmp_path: Path) -> None:
    rows = [{"rule": "mean", "p": 1, "mean": 9.0}, {"rule": "mean", "p": 2, "mean": 300.0}]
    rows += [{"rule": "krum", "p": p, "mean": 7.0} for p in (1, 2)]
    final = table("time_to_70", rows).assign(low=[6.0, -200.0, 5.0, 5.0], high=[12.0, 800.0, 9.0, 9.0])
    figure = Final(x="p", y="time_to_70", hue="rule", log=True)
    [axes] = axes_of(figure, P, {"final": final}, tmp_path)
    assert bands_of(axes) == [pytest.approx((5.0, 800.0)), pytest.approx((5.0, 9.0))]
    assert axes.get_ylim()[0] > 1
    assert figure.cuts({"final": final}, {}) == "; an interval that reaches towards 0 is cut at the lowest value drawn"
    assert figure.cuts({"final": final[final["rule"] == "krum"].assign(mean=7.0)}, {}) == ""


@pytest.mark.parametrize(
    ("metric", "drawn", "words"),
    [
        ("test_accuracy", (0.0, 1.0), "; no interval is drawn below 0 or above 1"),
        ("epsilon_exact_median", (0.0, 1.8), "; no interval is drawn below 0"),
        ("exposures_up_max", (0.0, 1.8), "; no interval is drawn below 0"),
        ("test_r2", (-0.2, 1.0), "; no interval is drawn above 1"),
        ("metric_gap", (-0.2, 1.8), ""),
    ],
)
@pytest.mark.parametrize("kind", [Bars, Final])
def test_intervals_end_at_what_a_column_can_be(
    tmp_path: Path, kind: Any, metric: str, drawn: tuple[float, float], words: str
) -> None:
    rows = table(metric, [{"rule": "mean", "mean": 0.8}], 1.0)
    figure = kind(x="rule", y=metric)
    [axes] = axes_of(figure, {"rule": ("mean",)}, {"final": rows}, tmp_path)
    assert error_bars_of(axes) == [pytest.approx(drawn)]
    assert figure.cuts({"final": rows}, {}) == words


def test_a_ratio_above_1_has_its_interval_from_its_mean_down(tmp_path: Path) -> None:
    rows = table("measured_of_provable", [{"rule": "mean", "mean": 1.15}], 0.5)
    [axes] = axes_of(Bars(x="rule", y="measured_of_provable"), {"rule": ("mean",)}, {"final": rows}, tmp_path)
    assert error_bars_of(axes) == [pytest.approx([0.65, 1.15])]


@pytest.mark.parametrize("kind", [Bars, Final])
def test_own_values_of_shares_are_those_of_the_seeds(tmp_path: Path, kind: Any) -> None:
    """Though their interval, from -0.14 to 1.64, reaches beyond 0 and 1."""
    ends = pd.DataFrame({"rule": "mean", "seed": [0, 1], "diverged": False, "test_accuracy": [0.68, 0.82]})
    rows = over_seeds(ends, ["rule"], by_round=False)
    [axes] = axes_of(kind(x="rule", y="test_accuracy"), {"rule": ("mean",)}, {"final": rows}, tmp_path)
    dashes = [line.get_ydata() for line in axes.lines if line.get_marker() == "_"]
    assert np.concatenate(dashes).tolist() == pytest.approx([0.68, 0.82], abs=1e-5)


def test_one_seed_has_no_error_bar(tmp_path: Path) -> None:
    rows = ACCURACIES.assign(seeds=[1, 3], low=[np.nan, 0.85], high=[np.nan, 0.95])
    [axes] = axes_of(Bars(x="rule"), RULES, {"final": rows}, tmp_path)
    assert error_bars_of(axes) == [pytest.approx([0.85, 0.95])]


def test_bars_have_the_colours_of_their_values_as_lines(tmp_path: Path) -> None:
    [bars] = axes_of(Bars(x="rule"), RULES, {"final": ACCURACIES}, tmp_path)
    [lines] = axes_of(Curves(hue="rule"), RULES, {"curves": CURVES}, tmp_path)
    of_lines = [line.get_color() for line in lines.lines if not line.get_label().startswith("_")]
    assert [to_hex(bar.get_facecolor()) for bar in bars.patches] == [to_hex(colour) for colour in of_lines]
    assert len(set(of_lines)) == 2


@pytest.mark.parametrize(
    ("mean", "diverged", "metric", "legend", "written"),
    [
        (np.nan, 0, "test_accuracy", ["krum"], "–"),
        (np.nan, 3, "test_accuracy", ["mean (3 diverged)", "krum"], "diverged"),
        (np.inf, 0, "time_to_70", ["mean (not by all seeds)", "krum"], "not by all seeds"),
        (np.inf, 0, "epsilon_exact_max", ["mean (∞)", "krum"], "∞"),
    ],
)
@pytest.mark.parametrize("kind", [Bars, Final])
def test_a_series_without_values_is_named_by_the_reason_or_not_at_all(
    tmp_path: Path, kind: Any, mean: float, diverged: int, metric: str, legend: list[str], written: str
) -> None:
    rows = table(metric, [{"rule": "mean", "p": 1, "mean": mean}, {"rule": "krum", "p": 1, "mean": 0.9}])
    rows.loc[0, "diverged"] = diverged
    [axes] = axes_of(kind(x="p", hue="rule", y=metric), {**RULES, "p": (1,)}, {"final": rows}, tmp_path)
    assert legend_of(axes) == legend
    assert [text.get_text() for text in axes.texts] == ([written] if kind is Bars else [])


def test_a_series_that_only_another_panel_has_stands_in_the_legend(tmp_path: Path) -> None:
    grid = {**RULES, "p": (1,), "q": (1, 2)}
    rows = [{"rule": rule, "p": 1, "q": q, "mean": 0.5} for rule in RULES["rule"] for q in grid["q"]]
    rows[0]["mean"] = np.nan  # of the mean, in the first panel
    figure = Final(x="p", y="test_accuracy", hue="rule", panels="q")
    left, _ = axes_of(figure, grid, {"final": table("test_accuracy", rows)}, tmp_path)
    assert legend_of(left) == ["mean", "krum"]


def test_seeds_without_a_value_are_not_counted_as_drawn() -> None:
    ends = pd.DataFrame({"rule": ["mean"] * 3 + ["krum"] * 3, "seed": [0, 1, 2] * 2, "train_loss": 1.0})
    ends["diverged"] = [False, True, True, False, False, False]
    ends["precision"] = [1.0, np.nan, np.nan, np.nan, 0.5, np.nan]
    tables = {"final": over_seeds(ends, ["rule"], by_round=False)}
    assert seeds_drawn(Bars(x="rule", y="train_loss"), tables, {}) == [1, 3]
    assert seeds_drawn(Bars(x="rule", y="train_loss"), tables, {"rule": "mean"}) == [1]
    assert seeds_drawn(Bars(x="rule", y="precision"), tables, {}) == [1]
    words = Bars(x="rule", y="train_loss").of_seeds([1], 3)
    assert words == "mean ± half of the 95 % t interval over n = 3 seeds, in some cells 1 (one seed tells no interval)"


def test_a_panel_for_each_value_shares_the_axis_of_values(tmp_path: Path) -> None:
    grid = {**RULES, "p": (0.2, 0.4)}
    rows = [{"rule": rule, "p": p, "mean": p + (rule == "krum") / 2} for rule in RULES["rule"] for p in (0.2, 0.4)]
    left, right = axes_of(Bars(x="rule", panels="p"), grid, {"final": table("test_accuracy", rows)}, tmp_path)
    assert [bar.get_height() for axes in (left, right) for bar in axes.patches] == pytest.approx([0.2, 0.7, 0.4, 0.9])
    assert left.get_ylim() == right.get_ylim()
    assert ["0.2" in left.get_title(loc="left"), "0.4" in right.get_title(loc="left")] == [True, True]


def test_a_heat_map_has_a_cell_for_each_pair(tmp_path: Path) -> None:
    grid = {**RULES, "attack": ("none", "flip")}
    means = {("none", "mean"): 0.9, ("none", "krum"): 0.8, ("flip", "mean"): 0.1, ("flip", "krum"): 0.7}
    rows = [{"attack": attack, "rule": rule, "mean": mean} for (attack, rule), mean in means.items()]
    cells, *_ = axes_of(Heatmap(x="rule", rows="attack"), grid, {"final": table("test_accuracy", rows)}, tmp_path)
    written = [text.get_text() for text in sorted(cells.texts, key=lambda one: one.get_position()[::-1])]
    assert written == ["90", "80", "10", "70"], "shares are written in percent"
    assert [text.get_text() for text in cells.get_xticklabels()] == ["mean", "krum"]
    assert [text.get_text() for text in cells.get_yticklabels()] == ["none", "flip"]


def test_a_bound_is_drawn_as_its_theorem_gives_it(tmp_path: Path) -> None:
    grid = {"rounds": (5, 10, 20), "epsilon": (50.0, 80.0)}
    bounds = Bound(theorem=2).over(grid).assign(name="gap")
    figure = BoundCurves(bound="gap", x="rounds", hue="epsilon")
    [axes] = axes_of(figure, grid, {"bounds": bounds}, tmp_path)
    for epsilon in grid["epsilon"]:
        wanted = [bound_value(2, {"rounds": rounds, "epsilon": epsilon}) for rounds in grid["rounds"]]
        [drawn] = [y for label, (_, y) in lines_of(axes).items() if f"{epsilon:g}" in label]
        assert drawn == pytest.approx(wanted)


def test_a_figure_without_runs_says_so(tmp_path: Path) -> None:
    [axes] = axes_of(Bars(x="rule"), {"rule": ()}, {"final": ACCURACIES}, tmp_path)
    assert [text.get_text() for text in axes.texts] == ["not run at this scale"]


@pytest.mark.parametrize("kind", ["curves", "bars"])
def test_the_own_values_of_two_seeds_are_seen(kind):
    frame = pd.DataFrame(
        [{"rule": "mean", "round": r, "y": 2.0 * r + s, "diverged": False} for r in (1, 2) for s in (0, 1)]
    )
    with styled():
        figure, axes = plt.subplots()
        if kind == "curves":
            rows = over_seeds(frame, ["rule"], by_round=True)
            Curves(y="y").draw_panel(axes, {}, [None], {}, {"curves": rows})
        else:
            rows = over_seeds(frame[frame["round"] == 2], ["rule"], by_round=False)
            Bars(x="rule", y="y").draw_panel(axes, {}, [None], {"rule": ("mean",)}, {"final": rows})
            Bars(x="rule", y="y").frame_panel(axes)
        own = [np.asarray(line.get_ydata()).tolist() for line in axes.lines if line.get_label() == OWN]
        plt.close(figure)
    wanted = [[2.0, 4.0], [3.0, 5.0]] if kind == "curves" else [[4.0], [5.0]]
    np.testing.assert_allclose(own, wanted, atol=1e-4)


GRID = {"attack": ("none", "flip"), "rule": ("mean", "krum"), "p": (0.2, 0.4)}
FIGURE = Heatmap(x="rule", rows="attack", panels="p")


def final():
    rows = [
        {"attack": a, "rule": r, "p": p, "metric": "test_accuracy", "mean": 0.1 * i, "seeds": 1, "diverged": 0}
        for i, (a, r, p) in enumerate((a, r, p) for a in GRID["attack"] for r in GRID["rule"] for p in GRID["p"])
    ]
    rows[-1] |= {"mean": np.nan, "seeds": 0, "diverged": 1}
    return pd.DataFrame(rows[1:])


def test_values_stand_in_the_order_of_the_axes():
    at_fifth, at_two_fifths = (FIGURE.values(GRID, {"p": p}, final()) for p in GRID["p"])
    np.testing.assert_allclose(at_fifth, [[np.nan, 0.2], [0.4, 0.6]])
    np.testing.assert_allclose(at_two_fifths, [[0.1, 0.3], [0.5, np.inf]])


def test_a_heat_map_shows_the_loss_against_a_reference_cell():
    lost = FIGURE.model_copy(update={"against": {"attack": "none"}})
    values = [lost.values(GRID, {"p": p}, final()) for p in GRID["p"]]
    # The clean cell of the mean was not run at 20 %; all seeds of Krum under flips diverged at 40 %.
    np.testing.assert_allclose(values[0], [[np.nan, 0], [np.nan, 0.2 - 0.6]])
    np.testing.assert_allclose(values[1], [[0, 0], [0.1 - 0.5, np.inf]])
    assert lost.shown() == "final test accuracy lost against attack = none, by attack and rule"
    assert lost.is_run(GRID)
    assert not lost.is_run({**GRID, "attack": ("flip",)})
    assert ("against", "attack", "none") in lost.values_named
    beside = FIGURE.model_copy(update={"against": {"p": 0.2}, "panels": None, "where": {"p": 0.4}})
    np.testing.assert_allclose(
        beside.values({"rule": ("krum",), "attack": ("none",)}, {"p": 0.4}, final()), [[0.2 - 0.3]]
    )


@pytest.mark.parametrize(("of_own", "of_reference", "expected"), [(1, 0, np.inf), (0, 1, -np.inf), (1, 1, np.inf)])
def test_diverged_cells_and_references_give_infinite_losses(tmp_path, of_own, of_reference, expected):
    lost = FIGURE.model_copy(update={"against": {"attack": "none"}})
    rows = pd.DataFrame(
        {"attack": a, "rule": "krum", "p": 0.2, "metric": "test_accuracy", "mean": m, "seeds": 2, "diverged": d}
        for a, m, d in [("none", 0.7, of_reference), ("flip", 0.6, of_own)]
    )
    [[value]] = lost.values({"rule": ("krum",), "attack": ("flip",)}, {"p": 0.2}, rows)
    assert value == expected
    if of_own and of_reference:
        axes_of(lost, GRID, {"final": rows}, tmp_path)


BUDGETS = {"privacy.epsilon": (50, 60)}
ALIKE = ("epsilon_rdp_max", "epsilon_exact_max")


def measured(metrics, **columns):
    rows = [{"privacy.epsilon": e, "metric": m, "mean": e + i} for e in (50, 60) for i, m in enumerate(metrics)]
    return pd.DataFrame(rows).assign(low=np.nan, high=np.nan, seeds=1, diverged=0, **columns)


def test_columns_become_an_axis_and_what_their_names_share_stands_at_the_axis():
    figure = Bars(x="privacy.epsilon", ys=ALIKE, overlay=True)
    drawn, grid, tables, said = figure.overlaid(BUDGETS, {"final": measured([*ALIKE, "train_loss"])})
    assert grid == {**BUDGETS, AXIS: ("RDP", "exact")}
    assert said == "largest ε of a client"
    assert (drawn.hue, drawn.y, drawn.ys) == (AXIS, METRIC, ())
    assert tables["final"].query(f"`{AXIS}` == 'exact'")["mean"].tolist() == [51, 61]


def test_columns_of_different_kinds_keep_their_names():
    figure = Final(x="privacy.epsilon", ys=("epsilon_exact_max", "epsilon_exact_model"), overlay=True)
    _, grid, _, said = figure.overlaid(BUDGETS, {"final": measured(figure.ys)})
    assert grid[AXIS] == ("largest ε of a client, exact", "ε of published models, exact")
    assert said == "ε"
    figure = Curves(ys=("train_loss", "test_loss"), overlay=True)
    assert figure.overlaid(BUDGETS, {"curves": measured(figure.ys, round=1)})[3] == ""


def test_an_overlay_needs_columns_and_no_other_colours():
    for fields in ({}, {"ys": ALIKE, "hue": "privacy.epsilon"}):
        with pytest.raises(ValidationError, match="it needs ys, and no hue"):
            Bars(x="privacy.epsilon", overlay=True, **fields)


def class_counts(clients, classes):
    counts = np.zeros((clients, classes), np.int64)
    counts[np.arange(clients), np.arange(clients) % classes] = 8
    counts[0, -1] = 2
    names = tuple(f"class {number}" for number in range(classes))
    owners = tuple(f"writer {number}" for number in range(clients))
    return ClassCounts(counts, names, "writer", owners, (), "mine.npz (10 + 5 samples)")


@pytest.mark.parametrize("number", [6, 40])
def test_the_picture_is_drawn_and_the_same_each_time(tmp_path, number):
    stems = ("one", "two") if number == 6 else ("one",)
    drawn = [
        holdings_figure(class_counts(number, number), "Who holds what: by, seed 0", tmp_path / stem) for stem in stems
    ]
    assert [file.read_bytes() for file in drawn[0]] == [file.read_bytes() for file in drawn[-1]]
    [png] = [file for file in drawn[0] if file.suffix == ".png"]
    with Image.open(png) as picture:
        assert picture.width > 900
        assert np.asarray(picture.convert("L")).std() > 5


def test_numbers_of_few_clients_are_bubbles_whose_area_they_are(tmp_path):
    pages = []
    with mock.patch("asyncfl.experiments.class_counts_figure.save", lambda page, stem: pages.append(page)):
        holdings_figure(class_counts(30, 20), "Who holds what", tmp_path / "one")
    [page] = pages
    plt.close(page)
    above, below = page.axes
    assert [bar.get_height() for bar in above.patches] == [10, *[8] * 29]
    [bubbles] = below.collections
    assert bubbles.get_offsets().tolist()[:3] == [[0, 0], [0, 19], [1, 1]]
    # Client 0 has 8 samples of class 0 and 2 of class 19, client 1 has 8 of class 1.
    sizes = bubbles.get_sizes()
    assert sizes[:3] == pytest.approx([sizes[0], sizes[0] / 4, sizes[0]])
