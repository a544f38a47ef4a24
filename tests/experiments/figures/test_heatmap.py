import numpy as np
import pandas as pd
import pytest

from asyncfl.experiments.figures import Heatmap

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
    svg = lost.draw(GRID, {"final": rows}, "", "", tmp_path / "drawn")[0]
    assert svg.stat().st_size > 0
