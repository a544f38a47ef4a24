"""What stands on figures of each kind (places, ranges, lines, bars, texts, colours), against a written description.

`python tests/analysis/figures/test_drawn.py` writes the description anew; look at the figures when you do.
"""

from __future__ import annotations

import json
import math
import struct
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from asyncfl.analysis.bounds import Bound
from asyncfl.analysis.figures import Bars, BoundCurves, Curves, Final, Heatmap, Sheet
from asyncfl.analysis.figures.base import FigureBase
from asyncfl.analysis.pictures import packed
from asyncfl.analysis.timeline import Timeline
from asyncfl.analysis.timeline_figures import draw_timeline

DESCRIPTION = Path(__file__).with_name("drawn.json")
INF = math.inf
GRID = {"attack": ("none", "label_flip"), "rule": ("mean", "krum", "median"), "p": (0.2, 0.4)}
EPSILONS = {"privacy.epsilon": (30, 50, 80, INF)}
ARGUMENT = {"rounds": tuple(range(1, 31)), "epsilon": (50.0, 80.0)}


def final(grid: dict[str, Any], metrics: dict[str, float]) -> pd.DataFrame:
    """Values that differ at each point of the grid; at its last but one point a seed diverged, at its last all did."""
    points = pd.MultiIndex.from_product(grid.values(), names=list(grid)).to_frame(index=False)
    parts = []
    for metric, size in metrics.items():
        mean = size * (0.3 + 0.6 * np.arange(len(points)) / len(points))
        mean[-1] = INF
        diverged = [0] * (len(points) - 2) + [1, 2]
        seeds = [2] * (len(points) - 2) + [1, 0]
        more = {"metric": metric, "mean": mean, "low": 0.9 * mean, "high": 1.2 * mean}
        parts.append(points.assign(**more, diverged=diverged, seeds=seeds))
    return pd.concat(parts, ignore_index=True)


def curves(grid: dict[str, Any], metrics: dict[str, float]) -> pd.DataFrame:
    """Lines of which each is steeper than the one before."""
    rounds = range(20)
    points = pd.MultiIndex.from_product(grid.values(), names=list(grid)).to_frame(index=False).to_dict("records")
    parts = []
    for number, point in enumerate(points):
        for metric, size in metrics.items():
            mean = size * (1 + number) * np.arange(1, 21.0)
            more = {"mean": mean, "low": 0.8 * mean, "high": 1.1 * mean, "diverged": number, "seeds": 3}
            parts.append(pd.DataFrame({**point, "metric": metric, "round": rounds, **more}))
    return pd.concat(parts, ignore_index=True)


def pictures() -> pd.DataFrame:
    """Three images of two pixels for each of two values, the first of them found exactly."""
    image = packed(np.array([[[0.0, 1.0]]], np.float32))
    at = {"attack": "none", "rule": "mean", "seed": 0, "method": "l2", "channels": 1, "height": 1, "width": 2}
    found = [{"place": n, "psnr_db": [INF, 12.34, 5.0][n], "ssim": [1.0, 0.5, -0.1][n]} for n in range(3)]
    return pd.DataFrame([{**at, "p": p, **one, "true": image, "made": image} for p in GRID["p"] for one in found])


BOUND = Bound(theorem=2)
BESIDE = Final(x="privacy.epsilon", y="train_loss", bound=Bound(theorem=2, settings={"rounds": 25}))
CASES: dict[str, tuple[FigureBase, dict[str, Any], dict[str, pd.DataFrame]]] = {
    "bars": (
        Bars(x="rule", hue="attack", panels="p"), GRID, {"final": final(GRID, {"test_accuracy": 1.0})},
    ),
    "bars of one colour, logarithmic": (
        Bars(x="rule", y="train_loss", log=True, where={"attack": "none", "p": 0.2}), GRID,
        {"final": final(GRID, {"train_loss": 2.0})},
    ),
    "curves over time": (
        Curves(x="time_s", hue="privacy.epsilon", log=True, log_x=True), EPSILONS,
        {"curves": curves(EPSILONS, {"train_loss": 0.1, "time_s": 40.0})},
    ),
    "curves of two columns": (
        Curves(ys=("train_loss", "bytes_up"), start=0), {},
        {"curves": curves({"x": (1,)}, {"train_loss": 0.1, "bytes_up": 3e6})},
    ),
    "many curves": (
        Curves(y="test_accuracy", hue="seed", share_y=False, title="another title"), {"seed": tuple(range(10))},
        {"curves": curves({"seed": tuple(range(10))}, {"test_accuracy": 0.004})},
    ),
    "final values": (
        Final(x="p", y="train_loss", hue="attack", panels="rule", log=True), GRID,
        {"final": final(GRID, {"train_loss": 3.0})},
    ),
    "final values over names": (
        Final(x="attack", y="time_s", where={"p": 0.2, "rule": "mean"}), GRID, {"final": final(GRID, {"time_s": 9e3})},
    ),
    "final values and a limit": (
        Final(x="attack", y="train_loss", hue="rule", limit="test_loss", where={"p": 0.2}, log=True), GRID,
        {"final": final(GRID, {"train_loss": 3.0, "test_loss": 1.0})},
    ),
    "a heat map of shares": (
        Heatmap(x="rule", rows="attack", panels="p"), GRID, {"final": final(GRID, {"test_accuracy": 1.0})},
    ),
    "a heat map of traffic": (
        Heatmap(x="rule", rows="attack", y="bytes_up", where={"p": 0.4}), GRID,
        {"final": final(GRID, {"bytes_up": 4e9})},
    ),
    "a bound": (
        BoundCurves(bound="b", x="rounds", hue="epsilon", log=True), ARGUMENT,
        {"bounds": BOUND.over(ARGUMENT).assign(name="b")},
    ),
    "a bound beside measured values": (
        BESIDE, EPSILONS, {"final": final(EPSILONS, {"train_loss": 1.0}), "bounds": BESIDE.own_bound(EPSILONS)},
    ),
    "a contact sheet": (
        Sheet(rows="p", method="l2", where={"attack": "none", "rule": "mean"}), GRID, {"pictures": pictures()},
    ),
    "nothing": (Bars(x="rule"), {"rule": ()}, {"final": final(GRID, {"test_accuracy": 1.0})}),
}  # fmt: skip


def drawn(figure: FigureBase, grid: dict[str, Any], tables: dict[str, pd.DataFrame], folder: Path) -> Any:
    """What matplotlib was given to write."""
    pages = []
    with mock.patch("matplotlib.pyplot.close", pages.append):
        figure.draw(grid, tables, "A caption that goes over more than one line. " * 5, "What is shown", folder / "a")
    [page] = pages
    return described(page, folder / "a.png")


def timeline(seed: int, versions: int, **energy_j: float) -> Timeline:
    """A seed whose versions come ever later, and whose updates meet all sorts of fates."""
    rng, at = np.random.default_rng(seed), np.arange(versions + 1)
    return Timeline(
        seed=seed,
        ended="all versions published",
        published_s=at * (30.0 + at),
        bytes_up=at * 1_000_000 * (seed + 1),
        bytes_down=at * 2_500_000,
        staleness=rng.integers(0, 9, 3 + 50 * seed),
        exposures_up=rng.integers(0, 5 + seed, 12),
        exposures_down=np.zeros(12, dtype=np.int64),
        versions_overheard=2,
        versions_sent=versions,
        tasks=np.ones(12, dtype=np.int64),
        attackers_uploads=None,
        retransmitted=3,
        cohorts_repeated=0,
        fates={"aggregated": 30, "lost_up": 5 * seed, "timed_out": 0, "unfinished": 5},
        energy_j={name: size * (1 + rng.random(12)) for name, size in energy_j.items()},
    )


TIMELINES = {
    "one timeline": [timeline(1, 6)],
    "timelines of two seeds": [timeline(0, 500), timeline(2, 40)],
    "timelines with energy": [timeline(seed, 4, training=900.0, sending=5e3, rest=20.0) for seed in (1, 2)],
    "timelines of many seeds": [timeline(seed, 5) for seed in range(9)],
}


def drawn_timelines(timelines: list[Timeline], folder: Path) -> Any:
    """The same of the pages of some timelines."""
    pages: list[Any] = []
    with mock.patch("matplotlib.pyplot.close", pages.append):
        written = draw_timeline(timelines, "A caption.", folder)
    return [described(page, path) for page, path in zip(pages, written[1::3], strict=True)]


def described(page: Any, png: Path) -> dict[str, Any]:
    """What stands on a page, which is closed then."""
    plt.close(page)
    return {
        "inches": page.get_size_inches().tolist(),
        "pixels": list(struct.unpack(">II", png.read_bytes()[16:24])),
        "texts": [_text(one) for one in page.texts],
        "axes": [_axes(axes) for axes in page.axes],
    }


def _text(one: Any) -> list[Any]:
    place = [float(side) for side in one.get_position()]
    return [one.get_text(), *place, one.get_fontsize(), one.get_rotation(), to_hex(one.get_color()), one.get_ha()]


def _axes(axes: Any) -> dict[str, Any]:
    legend = axes.get_legend()
    return {
        "place": list(axes.get_position().bounds),
        "named": [axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()],
        "scales": [axes.get_xscale(), axes.get_yscale()],
        "range": [*axes.get_xlim(), *axes.get_ylim()],
        "ticks": [[float(tick) for tick in axis.get_majorticklocs()] for axis in (axes.xaxis, axes.yaxis)],
        "at the ticks": [[_text(one)[0::4] for one in axis.get_ticklabels()] for axis in (axes.xaxis, axes.yaxis)],
        "texts": [_text(one) for one in axes.texts],
        "lines": [
            [
                *(np.ravel(at).tolist()[::6] for at in one.get_data()), to_hex(one.get_color()), one.get_marker(),
                one.get_linestyle(), one.get_markersize(), one.get_linewidth(), one.get_zorder(), one.get_markevery(),
            ]
            for one in axes.lines
            if isinstance(one.get_marker(), str)
        ],
        "bars": [
            [one.get_x(), one.get_width(), one.get_height(), to_hex(one.get_facecolor())]
            for one in axes.patches
        ],
        "bands": [
            [to_hex(one.get_facecolor()[0]), one.get_alpha(), *one.get_paths()[0].get_extents().bounds]
            for one in axes.collections
            if len(one.get_paths()) == 1 and len(one.get_facecolor())
        ],
        "intervals": [
            [path.vertices.tolist() for path in one.get_paths()]
            for one in axes.collections
            if not len(one.get_facecolor())
        ],
        "legend": legend and [[one.get_text() for one in legend.get_texts()], [*legend.get_bbox_to_anchor().bounds]],
    }  # fmt: skip


def same(seen: Any, written: Any, where: str) -> None:
    """Numbers may differ by a hundredth: fonts and the solver of layouts do."""
    if isinstance(written, dict):
        assert sorted(seen) == sorted(written), where
        for name, one in written.items():
            same(seen[name], one, f"{where}: {name}")
    elif isinstance(written, list):
        assert len(seen) == len(written), where
        for number, one in enumerate(written):
            same(seen[number], one, f"{where}.{number}")
    elif isinstance(written, float):
        assert seen == pytest.approx(written, rel=0.01, abs=0.01, nan_ok=True), where
    else:
        assert seen == written, where


@pytest.mark.parametrize("name", CASES)
def test_a_figure_shows_what_is_written_down(name: str, tmp_path: Path) -> None:
    seen = json.loads(json.dumps(drawn(*CASES[name], tmp_path)))
    same(seen, json.loads(DESCRIPTION.read_text())[name], name)


@pytest.mark.parametrize("name", TIMELINES)
def test_a_timeline_shows_what_is_written_down(name: str, tmp_path: Path) -> None:
    seen = json.loads(json.dumps(drawn_timelines(TIMELINES[name], tmp_path), default=int))
    same(seen, json.loads(DESCRIPTION.read_text())[name], name)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = {name: drawn(*case, Path(folder)) for name, case in CASES.items()}
        found |= {name: drawn_timelines(case, Path(folder)) for name, case in TIMELINES.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(one, default=int)}" for name, one in found.items()]
    DESCRIPTION.write_text("{\n" + ",\n".join(lines) + "\n}\n")
