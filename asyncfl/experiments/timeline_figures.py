"""Figures of timelines: how fast versions come, how old updates are, what is overheard and sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.figure_style import OKABE_ITO, canvas, looks, save, styled
from asyncfl.base.quantities import Scale, scale_of, with_unit
from asyncfl.experiments.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 400
"""Points of a line at most: a run may have far more versions than a figure has pixels."""
BARS = 40
"""Bars at most; wider ones are drawn beyond."""
LEAST_VALUES = 5
"""Values that the axis below bars has room for."""
MOST_LINES = 8
"""Seeds up to which each has a line of its own look and a place in the legend."""


def draw_timeline(timelines: Sequence[Timeline], caption: str, folder: Path) -> list[Path]:
    """Writes `progress` and `updates`, each as SVG and PNG, into `folder` and returns their paths.

    `progress`: versions over virtual time, times between versions, traffic. `updates`: staleness of aggregated updates,
    updates overheard per client, fates of tasks. `energy`, where it was counted: joules of the clients, and by what
    their devices did.
    """
    with styled():
        page, axes = canvas(3, caption, "The clock alone: how fast versions come, and what they cost")
        _versions(axes[0], timelines)
        _round_times(axes[1], timelines)
        _traffic(axes[2], timelines)
        written = save(page, folder / "progress")
        page, axes = canvas(3, caption, "The clock alone: what becomes of updates, and who else gets them")
        _staleness(axes[0], timelines)
        _exposures(axes[1], timelines)
        _fates(axes[2], timelines)
        written += save(page, folder / "updates")
        if not all(one.energy_j for one in timelines):
            return written
        page, axes = canvas(2, caption, "The clock alone: the energy that it takes")
        _energies(axes[0], timelines)
        _doings(axes[1], timelines)
        return written + save(page, folder / "energy")


def _lines(timelines: Sequence[Timeline]) -> list[tuple[Timeline, dict[str, Any]]]:
    """Each seed with the look of its line."""
    if len(timelines) > MOST_LINES:
        return [(one, {"color": OKABE_ITO[0], "alpha": 0.4, "linewidth": 0.9}) for one in timelines]
    seeds = [str(one.seed) for one in timelines]
    found = looks(seeds)
    return [(one, {**found[str(one.seed)], "marker": "", "label": f"seed {one.seed}"}) for one in timelines]


def _thin(length: int) -> NDArray[np.int64]:
    """Indices of at most POINTS of `length` points, both ends among them."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def _clock(timelines: Sequence[Timeline]) -> Scale:
    """What virtual time is written in."""
    return scale_of((float(one.published_s[-1]) for one in timelines), "s")


def _versions(axis: Axes, timelines: Sequence[Timeline]) -> None:
    clock = _clock(timelines)
    for one, look in _lines(timelines):
        at = _thin(len(one.published_s))
        axis.plot(one.published_s[at] / clock.factor, at, **look)
    axis.set_xlabel(with_unit("virtual time", clock))
    axis.set_ylabel("version")
    if 1 < len(timelines) <= MOST_LINES:
        axis.legend()


def _round_times(axis: Axes, timelines: Sequence[Timeline]) -> None:
    scale = scale_of((one.round_s.max(initial=0.0) for one in timelines), "s")
    for one, look in _lines(timelines):
        round_s = np.sort(one.round_s) / scale.factor
        if len(round_s):
            at = _thin(len(round_s))
            axis.plot(round_s[at], (at + 1) / len(round_s), drawstyle="steps-post", **look)
    axis.set_xlabel(with_unit("time between versions", scale))
    axis.set_ylabel("share of versions")
    axis.set_ylim(0, 1.02)


def _traffic(axis: Axes, timelines: Sequence[Timeline]) -> None:
    clock = _clock(timelines)
    traffic = scale_of((float(sent[-1]) for one in timelines for sent in (one.bytes_up, one.bytes_down)), "bytes")
    for number, one in enumerate(timelines):
        at = _thin(len(one.published_s))
        for name, sent, colour in (("up", one.bytes_up, OKABE_ITO[1]), ("down", one.bytes_down, OKABE_ITO[2])):
            label = name if number == 0 else None
            axis.plot(
                one.published_s[at] / clock.factor, sent[at] / traffic.factor, color=colour, linewidth=1.1, label=label
            )
    axis.set_xlabel(with_unit("virtual time", clock))
    axis.set_ylabel(with_unit("traffic", traffic))
    axis.legend()


def _staleness(axis: Axes, timelines: Sequence[Timeline]) -> None:
    _bars(axis, [one.staleness for one in timelines])
    axis.set_xlabel("staleness (versions)")
    axis.set_ylabel("share of aggregated updates")


def _exposures(axis: Axes, timelines: Sequence[Timeline]) -> None:
    _bars(axis, [np.bincount(one.exposures_up) for one in timelines])
    most = max(one.most_overheard for one in timelines)
    axis.axvline(most, color="#000000", linestyle=(0, (4, 2)), linewidth=1.0, label=f"$L$ = {most}")
    axis.set_xlabel("updates overheard")
    axis.set_ylabel("share of clients")
    axis.legend()


def _bars(axis: Axes, counts: Sequence[NDArray[np.int64]]) -> None:
    """Shares of the values 0, 1, 2, ..., all seeds together; neighbours share a bar where there are many."""
    longest = max(1, *map(len, counts))
    total = np.sum([np.pad(one, (0, longest - len(one))) for one in counts], axis=0)
    width = -(-longest // BARS)
    shares = np.add.reduceat(total, np.arange(0, longest, width)) / max(int(total.sum()), 1)
    axis.bar(np.arange(len(shares)) * width + (width - 1) / 2, shares, 0.9 * width, color=OKABE_ITO[0])
    # one value alone would fill the axes
    axis.set_xlim(-0.75 * width, max(longest, LEAST_VALUES) - 0.25 * width)
    axis.grid(False, axis="x")
    _whole_numbers(axis)


def _fates(axis: Axes, timelines: Sequence[Timeline]) -> None:
    names = [fate for fate in timelines[0].fates if any(one.fates[fate] for one in timelines)]
    totals = np.array([sum(one.fates[name] for one in timelines) for name in names], dtype=np.float64)
    shares = totals / max(totals.sum(), 1.0)
    axis.barh(range(len(names)), shares, 0.7, color=OKABE_ITO[0])
    axis.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of tasks")
    axis.grid(False, axis="y")


def _energies(axis: Axes, timelines: Sequence[Timeline]) -> None:
    totals = [np.sort(np.sum(list(one.energy_j.values()), axis=0)) for one in timelines]
    scale = scale_of((float(total.max(initial=0.0)) for total in totals), "J")
    for total, (_, look) in zip(totals, _lines(timelines), strict=True):
        at = _thin(len(total))
        axis.plot(total[at] / scale.factor, (at + 1) / len(total), drawstyle="steps-post", **look)
    axis.set_xlabel(with_unit("energy of a client", scale))
    axis.set_ylabel("share of clients")
    axis.set_ylim(0, 1.02)


def _doings(axis: Axes, timelines: Sequence[Timeline]) -> None:
    names = list(timelines[0].energy_j)
    totals = [float(np.mean([one.energy_j[name].sum() for one in timelines])) for name in names]
    scale = scale_of(totals, "J")
    axis.barh(range(len(names)), np.array(totals) / scale.factor, 0.7, color=OKABE_ITO[0])
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_xlabel(with_unit("energy of all clients", scale))
    axis.grid(False, axis="y")


def _whole_numbers(axis: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
