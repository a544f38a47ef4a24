"""Numbers, tables and figures of the clock, by seed: rounds, staleness, exposure, traffic, energy, fates.

Everything is read from the tables that a run leaves (rounds, events, clients), so the same numbers come from a run that
trained and from one of the clock alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.base.figure_style import OKABE_ITO, canvas, looks, save, styled
from asyncfl.base.files.own_folder import OwnFolder, write_json
from asyncfl.base.quantities import Scale, scale_of, with_unit
from asyncfl.experiments.run_tables import write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

QUANTILES = {"low": 0.05, "median": 0.5, "high": 0.95}
"""Name of a quantile in a summary -> the share below it."""
DOINGS = ("compute", "send", "receive", "idle")
"""Activities of a client's device that take energy."""
SUMMARY = "timeline.json"
"""The numbers; the file without which a folder holds no timeline."""
POINTS = 400
"""Points of a line at most: a run may have far more versions than a figure has pixels."""
BARS = 40
"""Bars at most; wider ones are drawn beyond."""
LEAST_VALUES = 5
"""Values that the axis below bars has room for."""
MOST_LINES = 8
"""Seeds up to which each has a line of its own look and a place in the legend."""


@dataclass(frozen=True)
class Timeline:
    """One seed on the clock. Version 0 is the initial model, published at time 0."""

    seed: int
    ended: str
    """Why the run ended."""
    published_s: Floats
    """(versions + 1,) virtual seconds at which each version was published."""
    bytes_up: Counts
    """(versions + 1,) bytes that clients had sent by then, retransmissions included."""
    bytes_down: Counts
    staleness: Counts
    """(oldest + 1,) aggregated updates that were 0, 1, 2, ... versions old."""
    exposures_up: Counts
    """(clients,) updates of each client that the tap holds."""
    exposures_down: Counts
    """(clients,) models sent to each client that the tap holds."""
    versions_overheard: int
    """Versions that the tap holds from any downlink, the initial model included."""
    versions_sent: int
    tasks: Counts
    """(clients,) tasks given to each client."""
    attackers_uploads: float | None
    """Attackers' share of the updates that arrived; None where nobody attacks or nothing arrived."""
    retransmitted: int
    """Messages of which something was sent again."""
    cohorts_repeated: int
    """Cohorts of which nothing came, so that the server drew another for the same version."""
    fates: Mapping[str, int]
    """How the tasks ended."""
    energy_j: Mapping[str, Floats] = field(default_factory=dict)
    """Activity -> (clients,) joules that it took; empty: not counted."""

    @property
    def versions(self) -> int:
        """Versions published after the initial model."""
        return len(self.published_s) - 1

    @property
    def round_s(self) -> Floats:
        """(versions,) virtual seconds from each publication to the next."""
        return np.diff(self.published_s)

    @property
    def most_overheard(self) -> int:
        """L of this seed: updates that the tap holds of the client that it holds most of."""
        return int(self.exposures_up.max(initial=0))


def timeline_of(
    seed: int, ended: str, rounds: pa.Table, events: pa.Table, clients: pa.Table, fates: Mapping[str, int]
) -> Timeline:
    """Return the timeline of a seed from its tables; rows of other seeds are left aside."""
    rounds, events, clients = (table.filter(pc.equal(table["seed"], seed)) for table in (rounds, events, clients))
    # compared as codes of the dictionary: as texts the kinds of a long run would be copied many times
    kinds = events["kind"].combine_chunks()
    names, codes = kinds.dictionary.to_pylist(), kinds.indices

    def of(kind: str) -> pa.Table:
        return events.filter(pc.equal(codes, names.index(kind))) if kind in names else events.slice(0, 0)

    overheard = of("overheard")
    heard_down = overheard.filter(pc.equal(overheard["detail"].cast(pa.string()), "down"))
    ages = _column(of("aggregated"), "staleness")
    uploads, theirs = _column(clients, "uploads").sum(), _column(clients, "malicious_uploads").sum()
    energy = {name: f"energy_{name}_j" for name in DOINGS}
    return Timeline(
        seed=seed,
        ended=ended,
        published_s=_column(rounds, "time_s").astype(np.float64),
        bytes_up=_column(rounds, "bytes_up"),
        bytes_down=_column(rounds, "bytes_down"),
        staleness=np.bincount(ages[ages >= 0]).astype(np.int64),
        exposures_up=_column(clients, "exposures_up"),
        exposures_down=_column(clients, "exposures_down"),
        versions_overheard=len(np.unique(_column(heard_down, "base_version"))),
        versions_sent=len(np.unique(_column(of("dispatched"), "base_version"))),
        tasks=_column(clients, "tasks"),
        attackers_uploads=float(theirs / uploads) if _column(clients, "attacker").any() and uploads else None,
        # Each has a second transmission, whatever the number of the last.
        retransmitted=int((_column(of("retransmitted"), "attempt") == 2).sum()),
        cohorts_repeated=len(of("cohort_repeated")),
        fates=dict(fates),
        energy_j={name: _column(clients, column) for name, column in energy.items() if column in clients.column_names},
    )


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values


def summary(timeline: Timeline) -> dict[str, Any]:
    """Return the numbers of a seed as plain values; None where there is nothing to take them of."""
    versions = timeline.versions
    up, down = timeline.exposures_up, timeline.exposures_down
    bytes_up, bytes_down = int(timeline.bytes_up[-1]), int(timeline.bytes_down[-1])
    found = {
        "seed": timeline.seed,
        "ended": timeline.ended,
        "versions": versions,
        "virtual_s": float(timeline.published_s[-1]),
        "round_s": spread(timeline.round_s),
        "staleness": spread(np.repeat(np.arange(len(timeline.staleness)), timeline.staleness)),
        "exposure": {
            "most_overheard_client": timeline.most_overheard,
            "of_client": spread(up),
            "clients_overheard": int((up > 0).sum()),
            "models_of_client": spread(down),
            "versions_overheard": timeline.versions_overheard,
            "versions_sent": timeline.versions_sent,
        },
        "traffic": {
            "up_bytes": bytes_up,
            "down_bytes": bytes_down,
            "up_bytes_per_version": bytes_up / versions if versions else None,
            "down_bytes_per_version": bytes_down / versions if versions else None,
            "messages_retransmitted": timeline.retransmitted,
        },
        "tasks_of_client": spread(timeline.tasks),
        "attackers_share_of_arrivals": timeline.attackers_uploads,
        "cohorts_repeated": timeline.cohorts_repeated,
        "fates": dict(timeline.fates),
    }
    if timeline.energy_j:
        of_client = np.sum(list(timeline.energy_j.values()), axis=0)
        totals = {name: float(joules.sum()) for name, joules in timeline.energy_j.items()}
        found["energy_j"] = {"of_client": spread(of_client), **totals, "sum": float(of_client.sum())}
    return found


def spread(values: NDArray[Any]) -> dict[str, float | None]:
    """Return mean, 5 % quantile, median, 95 % quantile and maximum; None where there are no values."""
    if len(values) == 0:
        return dict.fromkeys(("mean", *QUANTILES, "most"))
    quantiles = zip(QUANTILES, map(float, np.quantile(values, list(QUANTILES.values()))), strict=True)
    return {"mean": float(np.mean(values)), **dict(quantiles), "most": float(np.max(values))}


def write_timeline(timelines: Sequence[Timeline], caption: str, folder: Path, scenario: str) -> list[Path]:
    """Write `timeline.json`, `versions.csv`, `clients.csv`, `staleness.csv` and the figures into `folder`.

    The folder must be new or empty, or hold a timeline, which is replaced; `scenario` is the digest of the timelines'
    scenario. The same timelines give the same bytes. Raises OutputError where the folder cannot be written.
    """
    written: list[Path] = []

    def write(into: Path) -> None:
        write_json({"seeds": [summary(one) for one in timelines]}, into / SUMMARY)
        written.append(into / SUMMARY)
        for name, index, fields in (
            ("versions", "version", {"time_s": "published_s", "bytes_up": "bytes_up", "bytes_down": "bytes_down"}),
            (
                "clients",
                "client",
                {"tasks": "tasks", "exposures_up": "exposures_up", "exposures_down": "exposures_down"},
            ),
            ("staleness", "staleness", {"updates": "staleness"}),
        ):
            frames = []
            for one in timelines:
                frame = pd.DataFrame({column: getattr(one, field) for column, field in fields.items()})
                frame.insert(0, index, np.arange(len(frame)))
                frame.insert(0, "seed", one.seed)
                frames.append(frame)
            written.append(into / f"{name}.csv")
            write_csv(pd.concat(frames, ignore_index=True), written[-1])
        written.extend(draw_timeline(timelines, caption, into))

    own = timeline_folder(folder, scenario)
    with own.working(force=True) as area:
        own.replace(area, write, SUMMARY)
    return [folder / path.name for path in written]


def timeline_folder(folder: Path, scenario: str) -> OwnFolder:
    """Return the folder for the timeline of the scenario with this digest."""
    return OwnFolder(folder, "timeline", scenario)


def draw_timeline(timelines: Sequence[Timeline], caption: str, folder: Path) -> list[Path]:
    """Draw `progress`, `updates` and, where energy was counted, `energy` into `folder`, and return their paths."""
    pages: dict[str, tuple[str, Sequence[Callable[[Axes, Sequence[Timeline]], None]]]] = {
        "progress": ("how fast versions come, and what they cost", (_versions, _round_times, _traffic)),
        "updates": ("what becomes of updates, and who else gets them", (_staleness, _exposures, _fates)),
    }
    if all(one.energy_j for one in timelines):
        pages["energy"] = "the energy that it takes", (_energies, _doings)
    written = []
    with styled():
        for name, (title, drawn) in pages.items():
            page, axes = canvas(len(drawn), caption, f"The clock alone: {title}")
            for draw, axis in zip(drawn, axes, strict=True):
                draw(axis, timelines)
            written += save(page, folder / name)
    return written


def _lines(timelines: Sequence[Timeline]) -> list[tuple[Timeline, dict[str, Any]]]:
    """Each seed with the look of its line."""
    if len(timelines) > MOST_LINES:
        return [(one, {"color": OKABE_ITO[0], "alpha": 0.4, "linewidth": 0.9}) for one in timelines]
    found = looks([str(one.seed) for one in timelines])
    return [(one, {**found[str(one.seed)], "marker": "", "label": f"seed {one.seed}"}) for one in timelines]


def _thin(length: int) -> NDArray[np.int64]:
    """Indices of at most POINTS of `length` points, both ends among them."""
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def _clock(timelines: Sequence[Timeline]) -> Scale:
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
    times = [one.round_s for one in timelines]
    _distribution(axis, timelines, times, "time between versions", "s", "share of versions")


def _energies(axis: Axes, timelines: Sequence[Timeline]) -> None:
    totals = [np.sum(list(one.energy_j.values()), axis=0) for one in timelines]
    _distribution(axis, timelines, totals, "energy of a client", "J", "share of clients")


def _distribution(
    axis: Axes, timelines: Sequence[Timeline], values: Sequence[Floats], name: str, unit: str, share: str
) -> None:
    """Draw the share of values at or below each, a line per seed."""
    scale = scale_of((float(of.max(initial=0.0)) for of in values), unit)
    for of, (_, look) in zip(values, _lines(timelines), strict=True):
        if len(of):
            at = _thin(len(of))
            axis.plot(np.sort(of)[at] / scale.factor, (at + 1) / len(of), drawstyle="steps-post", **look)
    axis.set_xlabel(with_unit(name, scale))
    axis.set_ylabel(share)
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
    from matplotlib.ticker import MaxNLocator

    longest = max(1, *map(len, counts))
    total = np.sum([np.pad(one, (0, longest - len(one))) for one in counts], axis=0)
    width = -(-longest // BARS)
    shares = np.add.reduceat(total, np.arange(0, longest, width)) / max(int(total.sum()), 1)
    axis.bar(np.arange(len(shares)) * width + (width - 1) / 2, shares, 0.9 * width, color=OKABE_ITO[0])
    # one value alone would fill the axes
    axis.set_xlim(-0.75 * width, max(longest, LEAST_VALUES) - 0.25 * width)
    axis.grid(False, axis="x")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _fates(axis: Axes, timelines: Sequence[Timeline]) -> None:
    names = [fate for fate in timelines[0].fates if any(one.fates[fate] for one in timelines)]
    totals = np.array([sum(one.fates[name] for one in timelines) for name in names], dtype=np.float64)
    _bars_across(axis, [name.replace("_", " ") for name in names], totals / max(totals.sum(), 1.0))
    axis.set_xlim(0, 1)
    axis.set_xlabel("share of tasks")


def _doings(axis: Axes, timelines: Sequence[Timeline]) -> None:
    names = list(timelines[0].energy_j)
    totals = [float(np.mean([one.energy_j[name].sum() for one in timelines])) for name in names]
    scale = scale_of(totals, "J")
    _bars_across(axis, names, np.array(totals) / scale.factor)
    axis.set_xlabel(with_unit("energy of all clients", scale))


def _bars_across(axis: Axes, names: Sequence[str], lengths: Floats) -> None:
    axis.barh(range(len(names)), lengths, 0.7, color=OKABE_ITO[0])
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.grid(False, axis="y")
