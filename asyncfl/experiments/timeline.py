"""Numbers, tables and figures of the clock, by seed: rounds, staleness, exposure, traffic, energy, fates.

Everything is read from the tables of a run (rounds, events, tasks, clients), so the same numbers come from a run that
trained and from one of the clock alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.base.files.own_folder import OwnFolder, write_json
from asyncfl.base.quantities import Scale, scale_of, with_unit
from asyncfl.experiments.csv_files import write_csv
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.tasks import FATES
from asyncfl.protocol.tasks import codes as fates_of
from asyncfl.results.figure_style import OKABE_ITO, canvas, looks, save, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Counts: TypeAlias = NDArray[np.int64]
Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Columns of equal length by name. Not a data frame, as pandas takes longer to import than a short run."""

QUANTILES = {"low": 0.05, "median": 0.5, "high": 0.95}
"""Name of a quantile in a summary -> the share below it."""
ACTIVITIES = {f"energy_{name}_j": name for name in ("compute", "send", "receive", "idle")}
"""Column of the table of clients -> activity that takes its energy."""
SUMMARY = "timeline.json"
"""File of the numbers, without which a folder holds no timeline."""
POINTS = 400
"""Points of a line at most: a run may have far more versions than a figure has pixels."""
BARS = 40
"""Bars at most; further values share them."""
LEAST_VALUES = 5
"""Least number of values at the axis below bars."""
MOST_LINES = 8
"""Seeds up to which each has a line of its own look and a place in the legend."""


@dataclass(frozen=True)
class Timeline:
    """One seed on the clock. Version 0 is the initial model, published at time 0."""

    seed: int
    ended: str
    """Reason why the run ended."""
    rounds: Columns
    """By version: `time_s`, virtual seconds at which it was published; `bytes_up`, `bytes_down`, sent by then,
    retransmissions included."""
    clients: Columns
    """By client: `tasks`, `exposures_up` and `exposures_down` (updates and models that the tap holds), `uploads`,
    `malicious_uploads`, `attacker`; joules by activity where they were counted."""
    staleness: Counts
    """(oldest + 1,) aggregated updates that were 0, 1, 2, ... versions old."""
    versions_overheard: int
    """Versions that the tap holds from any downlink, the initial model included."""
    versions_sent: int
    retransmitted: int | None
    """Messages of which something was sent again; None where that was not recorded."""
    cohorts_repeated: int
    """Cohorts without any upload, so that the server drew another for the same version."""
    fates: Mapping[str, int]
    """Number of tasks by their end."""

    @property
    def versions(self) -> int:
        """Versions published after the initial model."""
        return len(self.rounds["time_s"]) - 1

    @property
    def round_s(self) -> NDArray[np.float64]:
        """(versions,) virtual seconds from each publication to the next."""
        return np.diff(self.rounds["time_s"].astype(np.float64))

    @property
    def most_overheard(self) -> int:
        """L of this seed: updates that the tap holds of the client that it holds most of."""
        return int(self.clients["exposures_up"].max(initial=0))

    @property
    def attackers_uploads(self) -> float | None:
        """Attackers' share of the updates that arrived; None without attackers or arrivals."""
        uploads = self.clients["uploads"].sum()
        if not uploads or not self.clients["attacker"].any():
            return None
        return float(self.clients["malicious_uploads"].sum() / uploads)

    @property
    def energy_j(self) -> Columns:
        """Activity -> (clients,) joules; empty where they were not counted."""
        return {activity: self.clients[name] for name, activity in ACTIVITIES.items() if name in self.clients}

    @property
    def energy_of_client_j(self) -> NDArray[np.float64]:
        """(clients,) joules of all activities, where they were counted."""
        found: NDArray[np.float64] = np.sum(list(self.energy_j.values()), axis=0)
        return found


def timeline_of(
    seed: int,
    ended: str,
    rounds: pa.Table,
    events: pa.Table,
    tasks: pa.Table,
    clients: pa.Table,
    fates: Mapping[str, int],
) -> Timeline:
    """Return the timeline of a seed from its tables; rows of other seeds are ignored."""
    rounds, events, clients = (_of_seed(table, seed) for table in (rounds, events, clients))
    # compared as codes of the dictionary: as texts the kinds of a long run would be copied many times
    kinds = events["kind"].combine_chunks()
    names, codes = kinds.dictionary.to_pylist(), kinds.indices

    def of(kind: str, column: str) -> NDArray[Any]:
        # one column only: a trace may be larger than the memory, and is read from disk where it is needed
        values: NDArray[Any] = np.empty(0, dtype=np.int64)
        if kind in names:
            values = events[column].filter(pc.equal(codes, names.index(kind))).to_numpy()
        return values

    tasks = _of_seed(tasks, seed)
    ages = tasks["staleness"].to_numpy()[fates_of(tasks["fate"], FATES) == FATES.index(Fate.AGGREGATED)]
    base_versions = tasks["base_version"].to_numpy()
    kept = ["tasks", "exposures_up", "exposures_down", "uploads", "malicious_uploads", "attacker", *ACTIVITIES]
    return Timeline(
        seed=seed,
        ended=ended,
        rounds={name: rounds[name].to_numpy() for name in ("time_s", "bytes_up", "bytes_down")},
        clients={name: clients[name].to_numpy() for name in kept if name in clients.column_names},
        staleness=np.bincount(ages[ages >= 0]).astype(np.int64),
        versions_overheard=len(np.unique(base_versions[~np.isnan(tasks["overheard_down_s"].to_numpy())])),
        versions_sent=len(np.unique(base_versions)),
        # each has a second transmission, whatever the number of the last
        retransmitted=int((of("retransmitted", "attempt") == 2).sum()),
        cohorts_repeated=len(of("cohort_repeated", "task")),
        fates=dict(fates),
    )


def _of_seed(table: pa.Table, seed: int) -> pa.Table:
    """Return the rows of a seed: the table itself, not a copy, if it has no others."""
    chosen = pc.equal(table["seed"], seed)
    return table if pc.all(chosen).as_py() else table.filter(chosen)


def summary(timeline: Timeline) -> dict[str, Any]:
    """Return the numbers of a seed as plain values; None for numbers over nothing."""
    versions, clients = timeline.versions, timeline.clients
    last = {name: column[-1] for name, column in timeline.rounds.items()}
    traffic = {f"{way}_bytes": int(last[f"bytes_{way}"]) for way in ("up", "down")}
    found = {
        "seed": timeline.seed,
        "ended": timeline.ended,
        "versions": versions,
        "virtual_s": float(last["time_s"]),
        "round_s": spread(timeline.round_s),
        "staleness": spread(np.repeat(np.arange(len(timeline.staleness)), timeline.staleness)),
        "exposure": {
            "most_overheard_client": timeline.most_overheard,
            "of_client": spread(clients["exposures_up"]),
            "clients_overheard": int((clients["exposures_up"] > 0).sum()),
            "models_of_client": spread(clients["exposures_down"]),
            "versions_overheard": timeline.versions_overheard,
            "versions_sent": timeline.versions_sent,
        },
        "traffic": {
            **traffic,
            **{f"{name}_per_version": sent / versions if versions else None for name, sent in traffic.items()},
            "messages_retransmitted": timeline.retransmitted,
        },
        "tasks_of_client": spread(clients["tasks"]),
        "attackers_share_of_arrivals": timeline.attackers_uploads,
        "cohorts_repeated": timeline.cohorts_repeated,
        "fates": dict(timeline.fates),
    }
    if energy := timeline.energy_j:
        of_client = timeline.energy_of_client_j
        totals = {name: float(joules.sum()) for name, joules in energy.items()}
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
    import pandas as pd

    written: list[Path] = []
    exposures = ("tasks", "exposures_up", "exposures_down")

    def write(into: Path) -> None:
        write_json({"seeds": [summary(one) for one in timelines]}, into / SUMMARY)
        tables: dict[str, tuple[str, list[Columns]]] = {
            "version": ("versions", [one.rounds for one in timelines]),
            "client": ("clients", [{name: one.clients[name] for name in exposures} for one in timelines]),
            "staleness": ("staleness", [{"updates": one.staleness} for one in timelines]),
        }
        for index, (name, columns) in tables.items():
            frames = [pd.DataFrame(dict(of)) for of in columns]
            joined = pd.concat(frames, keys=[one.seed for one in timelines], names=["seed", index])
            write_csv(joined.reset_index(), into / f"{name}.csv")
        written.extend([into / SUMMARY, *(into / f"{name}.csv" for name, _ in tables.values())])
        written.extend(draw_timeline(timelines, caption, into))

    own = timeline_folder(folder, scenario)
    with own.working(force=True) as area:
        own.replace(area, write, SUMMARY)
    return [folder / path.name for path in written]


def timeline_folder(folder: Path, scenario: str) -> OwnFolder:
    return OwnFolder(folder, "timeline", scenario)


def draw_timeline(timelines: Sequence[Timeline], caption: str, folder: Path) -> list[Path]:
    """Draw `progress`, `updates` and, where energy was counted, `energy` into `folder`, and return their paths."""
    pages: dict[str, tuple[str, Sequence[Callable[[Axes, Sequence[Timeline]], None]]]] = {
        "progress": ("how fast versions come, and what they cost", (_versions, _round_times, _traffic)),
        "updates": ("what becomes of updates, and who else gets them", (_staleness, _exposures, _fates)),
    }
    if all(one.energy_j for one in timelines):
        pages["energy"] = "the energy that it takes", (_energies, _activities)
    written = []
    with styled():
        for name, (title, drawn) in pages.items():
            page, axes = canvas(len(drawn), caption, f"The clock alone: {title}")
            for draw, axis in zip(drawn, axes, strict=True):
                draw(axis, timelines)
            written += save(page, folder / name)
    return written


def _lines(timelines: Sequence[Timeline]) -> list[tuple[Timeline, dict[str, Any]]]:
    """Return each seed with the look of its line."""
    if len(timelines) > MOST_LINES:
        return [(one, {"color": OKABE_ITO[0], "alpha": 0.4, "linewidth": 0.9}) for one in timelines]
    found = looks([str(one.seed) for one in timelines])
    return [(one, {**found[str(one.seed)], "marker": "", "label": f"seed {one.seed}"}) for one in timelines]


def _thin(length: int) -> Counts:
    return np.unique(np.linspace(0, length - 1, min(length, POINTS)).round().astype(np.int64))


def _largest(timelines: Sequence[Timeline], columns: Sequence[str], unit: str) -> Scale:
    return scale_of((float(one.rounds[column][-1]) for one in timelines for column in columns), unit)


def _versions(axis: Axes, timelines: Sequence[Timeline]) -> None:
    clock = _largest(timelines, ["time_s"], "s")
    for one, look in _lines(timelines):
        at = _thin(one.versions + 1)
        axis.plot(one.rounds["time_s"][at] / clock.factor, at, **look)
    axis.set(xlabel=with_unit("virtual time", clock), ylabel="version")
    if 1 < len(timelines) <= MOST_LINES:
        axis.legend()


def _round_times(axis: Axes, timelines: Sequence[Timeline]) -> None:
    _distribution(axis, timelines, [one.round_s for one in timelines], "time between versions", "s", "versions")


def _energies(axis: Axes, timelines: Sequence[Timeline]) -> None:
    totals = [one.energy_of_client_j for one in timelines]
    _distribution(axis, timelines, totals, "energy of a client", "J", "clients")


def _distribution(
    axis: Axes, timelines: Sequence[Timeline], values: Sequence[NDArray[Any]], name: str, unit: str, things: str
) -> None:
    """Draw the share of values at or below each, a line per seed."""
    scale = scale_of((float(of.max(initial=0.0)) for of in values), unit)
    for of, (_, look) in zip(values, _lines(timelines), strict=True):
        if len(of):
            at = _thin(len(of))
            axis.plot(np.sort(of)[at] / scale.factor, (at + 1) / len(of), drawstyle="steps-post", **look)
    axis.set(xlabel=with_unit(name, scale), ylabel=f"share of {things}", ylim=(0, 1.02))


def _traffic(axis: Axes, timelines: Sequence[Timeline]) -> None:
    clock = _largest(timelines, ["time_s"], "s")
    traffic = _largest(timelines, ["bytes_up", "bytes_down"], "bytes")
    for number, one in enumerate(timelines):
        at = _thin(one.versions + 1)
        thin = {name: column[at] for name, column in one.rounds.items()}
        for name, colour in (("up", OKABE_ITO[1]), ("down", OKABE_ITO[2])):
            look: dict[str, Any] = {"color": colour, "linewidth": 1.1, "label": name if number == 0 else None}
            axis.plot(thin["time_s"] / clock.factor, thin[f"bytes_{name}"] / traffic.factor, **look)
    axis.set(xlabel=with_unit("virtual time", clock), ylabel=with_unit("traffic", traffic))
    axis.legend()


def _staleness(axis: Axes, timelines: Sequence[Timeline]) -> None:
    _bars(axis, [one.staleness for one in timelines])
    axis.set(xlabel="staleness (versions)", ylabel="share of aggregated updates")


def _exposures(axis: Axes, timelines: Sequence[Timeline]) -> None:
    _bars(axis, [np.bincount(one.clients["exposures_up"]) for one in timelines])
    most = max(one.most_overheard for one in timelines)
    axis.axvline(most, color="#000000", linestyle=(0, (4, 2)), linewidth=1.0, label=f"$L$ = {most}")
    axis.set(xlabel="updates overheard", ylabel="share of clients")
    axis.legend()


def _bars(axis: Axes, counts: Sequence[Counts]) -> None:
    """Draw shares of the values 0, 1, 2, ..., all seeds together; neighbours share a bar where there are many."""
    from matplotlib.ticker import MaxNLocator

    longest = max(1, *map(len, counts))
    total = np.sum([np.pad(one, (0, longest - len(one))) for one in counts], axis=0)
    width = -(-longest // BARS)
    if not total.sum():  # a share of nothing is undefined
        axis.text(0.5, 0.5, "none", ha="center", va="center", color="#555555", transform=axis.transAxes)
        return
    shares = np.add.reduceat(total, np.arange(0, longest, width)) / total.sum()
    axis.bar(np.arange(len(shares)) * width + (width - 1) / 2, shares, 0.9 * width, color=OKABE_ITO[0])
    # one value alone would fill the axes
    axis.set_xlim(-0.75 * width, max(longest, LEAST_VALUES) - 0.25 * width)
    axis.grid(False, axis="x")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _fates(axis: Axes, timelines: Sequence[Timeline]) -> None:
    import pandas as pd

    totals = pd.DataFrame([one.fates for one in timelines]).sum()
    totals = totals[totals > 0]
    _bars_across(axis, totals.rename(lambda name: name.replace("_", " ")) / max(totals.sum(), 1.0))
    axis.set(xlim=(0, 1), xlabel="share of tasks")


def _activities(axis: Axes, timelines: Sequence[Timeline]) -> None:
    import pandas as pd

    sums = [{name: joules.sum() for name, joules in one.energy_j.items()} for one in timelines]
    totals = pd.DataFrame(sums).mean()
    scale = scale_of(totals, "J")
    _bars_across(axis, totals / scale.factor)
    axis.set_xlabel(with_unit("energy of all clients", scale))


def _bars_across(axis: Axes, lengths: pd.Series) -> None:
    axis.barh(range(len(lengths)), lengths, 0.7, color=OKABE_ITO[0])
    axis.set_yticks(range(len(lengths)), lengths.index)
    axis.invert_yaxis()
    axis.grid(False, axis="y")
