"""A run as a page carries it: columns of tasks, events, curves and tables, packed, compressed, in base64.

    gzip( length of the header (8 bytes) | header, JSON | columns, each at a multiple of 8 bytes )

Whatever stands in a run, a user's label for instance, reaches the page in this text only, of which no character means
anything in HTML. Times are whole microseconds. Those of a task are packed as durations, one phase after another, -1
where a phase did not begin: they are small numbers, which pack well. For runs of too many tasks to draw each there are
densities: the mean number of tasks under way per client of a group, over a span; a task that lasts for a tenth of a
span counts a tenth.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from asyncfl.base.tables import (
    AggregateColumns,
    ClientsTable,
    Column,
    EpsilonColumns,
    FairnessColumns,
    FurtherClientsColumns,
    LedgerTable,
    RoundsTable,
    UploadEpsilonColumns,
    columns_of,
)
from asyncfl.defences.quality import COUNTS, SHARES
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.score_requests import score_requests_of
from asyncfl.protocol.tasks import FATES, KINDS, STEPS, Floats, Ints, Tasks, codes, microseconds

ALIGNED = 8
"""Every column begins at a multiple of so many bytes, as the browser's typed arrays need it."""

Ref: TypeAlias = dict[str, Any]
"""Where a column lies: `t` its type (i1, i2, i4, f8), `o` the offset in bytes, `n` its length; or `texts` and `codes`,
the column of their places."""


class Packing:
    """Columns one after another, and the text that they become."""

    def __init__(self) -> None:
        self._columns: list[bytes] = []
        self._length = 0

    def numbers(self, values: Any) -> Ref:
        """Add a column: integers and booleans in the smallest type that holds them, others as float64.

        Integers beyond 2^53 lose digits.
        """
        column = np.asarray(values)
        kinds = ("<i1", "<i2", "<i4") if column.dtype.kind in "iub" else ()
        least, most = (int(column.min(initial=0)), int(column.max(initial=0))) if kinds else (0, 0)
        fitting = (kind for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
        kind = np.dtype(next(fitting, "<f8"))
        content = column.astype(kind).tobytes()
        ref = {"t": f"{kind.kind}{kind.itemsize}", "o": self._length, "n": len(column)}
        self._columns.append(content + bytes(-len(content) % ALIGNED))
        self._length += len(self._columns[-1])
        return ref

    def texts(self, values: Sequence[str]) -> Ref:
        """Add a column of texts, each text that occurs once."""
        places = {text: place for place, text in enumerate(dict.fromkeys(values))}
        return {"texts": list(places), "codes": self.numbers(np.array([places[text] for text in values], np.int64))}

    def packed(self, header: Any) -> str:
        """Return the columns with the header that describes them. Raises ValueError for NaN and infinities in it."""
        text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        text += b" " * (-len(text) % ALIGNED)
        whole = b"".join([len(text).to_bytes(ALIGNED, "little"), text, *self._columns])
        return base64.b64encode(gzip.compress(whole, compresslevel=6, mtime=0)).decode()


# --- one seed -------------------------------------------------------------------------------------------------------

LASTING = (Kind.BANNED, Kind.WENT_OFFLINE, Kind.CAME_ONLINE)
"""Kinds of events that change a client for good, whatever window is looked at."""

FILLED = 2000
"""Spans of the run, and again of a window, for which the fill of the buffer is packed."""

PLAIN = (
    *("client", "task", "base_version", "fate", "making", "staleness", "weight", "held", "overheard"),
    *("bytes_down", "bytes_up", "attempts_down", "attempts_up"),
)
"""Columns of tasks that are packed as they are."""

CURVES = (
    *("test_accuracy", "test_r2", "staleness_mean", "staleness_max", "waiting_max", "bytes_up", "bytes_down"),
    *("epsilon_naive_max", "epsilon_exact_max", "epsilon_exact_overheard_max"),
)
"""Columns of the table of rounds that are drawn, where the run has them."""

Packed = dict[str, Any]


def pack_tasks(tasks: Tasks, packing: Packing) -> Packed:
    """Pack the columns of `tasks`, of one seed, by client and time."""
    tasks = tasks.only(np.lexsort((tasks.task, tasks.dispatched_s, tasks.client)))
    columns = {name: getattr(tasks, name) for name in PLAIN}
    columns["dispatched"] = last = dispatched = microseconds(tasks.dispatched_s)
    for name in STEPS[1:]:
        at = microseconds(getattr(tasks, f"{name}_s"))
        columns[name] = np.where(at < 0, -1, at - last)
        last = np.where(at < 0, last, at)
    for name in ("left", "settled"):
        at = microseconds(getattr(tasks, f"{name}_s"))
        columns[name] = np.where(at < 0, -1, at - dispatched)
    return {name: packing.numbers(column) for name, column in columns.items()}


def pack_events(events: pa.Table, packing: Packing) -> Packed:
    """Pack the events of one seed that its tasks do not show."""
    kinds, detail = codes(events["kind"], KINDS), events["detail"].cast(pa.string())
    shown = np.isin(kinds, [KINDS.index(kind) for kind in STEPS])
    # An aggregation shows in the task's fate, a publication in the curves, unless they have a detail.
    silent = np.isin(kinds, [KINDS.index(Kind.AGGREGATED), KINDS.index(Kind.PUBLISHED)])
    rows = np.flatnonzero(~(shown | silent & pc.equal(detail, "").to_numpy()))
    events = events.take(pa.array(rows))
    packed = {"time": packing.numbers(microseconds(events["time_s"].to_numpy())), "kind": packing.numbers(kinds[rows])}
    for name in ("task", "client", "version", "staleness", "bytes", "attempt", "weight"):
        packed[name] = packing.numbers(events[name].to_numpy())
    return packed | {"detail": packing.texts(events["detail"].cast(pa.string()).to_pylist())}


def pack_requests(events: pa.Table, packing: Packing) -> Packed:
    """Pack the requests to score models."""
    found = score_requests_of(events)
    began, ended = (
        microseconds(np.array([getattr(one, name) for one in found], np.float64)) for name in ("asked_s", "ended_s")
    )
    return {
        "client": packing.numbers(np.array([one.client for one in found], np.int64)),
        "making": packing.numbers(np.array([one.making for one in found], np.int64)),
        "began": packing.numbers(began),
        "ended": packing.numbers(ended),
        "said": packing.texts([one.description for one in found]),
    }


def pack_curves(rounds: pa.Table, audit: pa.Table | None, packing: Packing) -> Packed:
    """Pack what the curves show, version by version, and what an audit measured so far."""
    packed = {
        "version": packing.numbers(rounds["version"].to_numpy()),
        "time": packing.numbers(microseconds(rounds["time_s"].to_numpy())),
    }
    packed |= {name: packing.numbers(rounds[name].to_numpy()) for name in CURVES if name in rounds.column_names}
    if audit is not None and len(audit):
        times, epsilon = measured(audit)
        packed |= {"measured_time": packing.numbers(microseconds(times)), "measured": packing.numbers(epsilon)}
    return packed


def measured(audit: pa.Table) -> tuple[Floats, Floats]:
    """Return when the largest epsilon measured in the server's view rose, in virtual seconds, and to what.

    Only uploads of twins that are neighbours by the relation of the ledger count.
    """
    chosen = (pc.field("holder") == "client") & (pc.field("adversary") == "server")
    rows = audit.filter(chosen & pc.field("counts") if "counts" in audit.column_names else chosen)
    order = np.argsort(rows["time_s"].to_numpy(), kind="stable")
    most = np.maximum.accumulate(rows["epsilon"].to_numpy()[order])
    rises = np.flatnonzero(most > np.concatenate([[0.0], most[:-1]]))  # epsilons may be infinite: no differences
    return rows["time_s"].to_numpy()[order][rises], most[rises]


def events_with(events: pa.Table, tasks: Tasks, since_s: float | None) -> pa.Table:
    """Return the events of `tasks`, those of no task while they are under way, and lasting ones before.

    since_s: beginning of the window; None: 0.
    """
    time_s, task = events["time_s"].to_numpy(), events["task"].to_numpy()
    ends = np.concatenate([tasks.left_s, tasks.settled_s])
    last = tasks.end_s.max(initial=0.0) if np.isnan(tasks.left_s).any() else np.nanmax(ends, initial=0.0)
    lasting = np.isin(codes(events["kind"], KINDS), [KINDS.index(kind) for kind in LASTING])
    seen = (time_s >= (since_s or 0.0)) | lasting
    kept = np.isin(task, tasks.task) | (((task < 0) | lasting) & seen & (time_s <= last))
    return events.take(pa.array(np.flatnonzero(kept)))


def pack_seed(
    seed: int, tables: dict[str, pa.Table], tasks: Tasks, every: Tasks, since_s: float | None, packing: Packing
) -> Packed:
    """Pack one seed. `tables`: of it alone; `tasks`: those to show; `every`: all, of which they may be a window that
    begins at `since_s`."""
    events = shown = tables["events"]
    end_s = float(events["time_s"].to_numpy().max(initial=0.0))
    edges_s = None
    if len(tasks) < len(every):
        within = np.linspace(since_s or 0.0, min(end_s, tasks.dispatched_s.max(initial=0.0)), FILLED)
        edges_s = np.union1d(np.linspace(0.0, end_s, FILLED), within)
        shown = events_with(events, tasks, since_s)
    rounds = pack_curves(tables["rounds"], tables.get("audit"), packing) | pack_fill(every, edges_s, packing)
    packed = {
        "seed": seed,
        "end": round(end_s * 1e6),
        "tasks": pack_tasks(tasks, packing),
        "events": pack_events(shown, packing),
        "requests": pack_requests(events, packing),
        "rounds": rounds,
    }
    if (clients := tables.get("clients")) is not None:
        packed["attackers"] = clients.filter(pc.field("attacker"))["client"].to_pylist()
        packed["samples"] = packing.numbers(clients["samples"].to_numpy())
    return packed


# --- densities ------------------------------------------------------------------------------------------------------

SPANS = 500
"""Spans of time from the start of a seed to its end."""
MOST_CELLS = 60_000
"""Most groups of clients times spans, of all seeds of a page together."""
PARTS = 1000
"""Values are rounded to so many parts of 1."""


def pack_density(tasks: Tasks, clients: int, end_s: float, seeds: int, packing: Packing) -> dict[str, Any]:
    """Pack the densities of one seed. `tasks`: all of it; `clients`: of the population; `seeds`: of the page."""
    # Neighbouring clients share a lane, so that all densities together have at most MOST_CELLS cells.
    each = math.ceil(clients / max(1, MOST_CELLS // SPANS // seeds))
    left_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)
    used = (tasks.fate == FATES.index(Fate.AGGREGATED)) & (tasks.weight > 0)
    intervals = {
        "all": (tasks.dispatched_s, left_s),
        "download": (tasks.download_started_s, tasks.downloaded_s),
        "training": (tasks.training_started_s, tasks.trained_s),
        "upload": (tasks.upload_started_s, tasks.uploaded_s),
        "unused": (np.where(used, np.nan, tasks.dispatched_s), left_s),
    }
    layers = {}
    for name, (began_s, ended_s) in intervals.items():
        ended_s = np.where(np.isnan(ended_s), left_s, ended_s)
        values = density(began_s, ended_s, tasks.client, clients, each, end_s)
        layers[name] = packing.numbers(np.rint(values * PARTS).astype(int))
    lanes = math.ceil(clients / each)
    sizes = {"clients_per_lane": each, "lanes": lanes, "spans": SPANS, "tasks": len(tasks)}
    return {**sizes, "parts": PARTS, "layers": layers}


def density(
    began_s: Floats, ended_s: Floats, client: Ints, clients: int, per_lane: int, end_s: float
) -> NDArray[np.float64]:
    """Return the mean number of intervals under way per client, lane by lane, (lanes * SPANS,).

    began_s, ended_s, client: (n,), NaN where nothing began. Spans are equally long, from 0 to end_s.
    """
    lanes = math.ceil(clients / per_lane)
    known = ~np.isnan(began_s)
    # An interval is what is under way from its beginning on, less what is from its end on.
    at = np.concatenate([began_s[known], ended_s[known]])
    sign = np.repeat([1.0, -1.0], known.sum())
    lane = np.tile(client[known] // per_lane, 2)
    at = np.minimum(at / end_s * SPANS if end_s else at, SPANS)
    span = np.minimum(at.astype(np.int64), SPANS - 1)
    place = lane * SPANS + span
    shape = (lanes, SPANS)
    within = np.bincount(place, sign * (span + 1 - at), lanes * SPANS).reshape(shape)
    begun = np.cumsum(np.bincount(place, sign, lanes * SPANS).reshape(shape), axis=1)
    within[:, 1:] += begun[:, :-1]
    in_lane = np.bincount(np.arange(clients) // per_lane, minlength=lanes)
    # Rounding of sums may make it slightly negative.
    return (np.maximum(within, 0.0) / in_lane[:, np.newaxis]).ravel()


def pack_fill(tasks: Tasks, edges_s: Floats | None, packing: Packing) -> dict[str, Any]:
    """Pack the number of updates that the server holds whenever it changes; or the most in the spans between `edges_s`.

    Updates that are used as they come are counted before they go.
    """
    kept = tasks.only(tasks.held)
    came, went = kept.uploaded_s, kept.settled_s[~np.isnan(kept.settled_s)]
    at = np.concatenate([came, went])
    change = np.repeat([1, -1], [len(came), len(went)])
    order = np.lexsort((-change, at))
    at, change, held = at[order], change[order], np.cumsum(change[order])
    if edges_s is None:
        together = (at[1:] == at[:-1]) & (change[1:] == change[:-1])
        last = np.flatnonzero(~np.append(together, np.zeros(min(len(at), 1), bool)))
        times, fill = np.append(0.0, at[last]), np.append(0, held[last])
    else:
        first, end = (np.searchsorted(at, edges, side="left") for edges in (edges_s[:-1], edges_s[1:]))
        before = np.concatenate([[0], held])[first]
        most = np.maximum.reduceat(np.append(held, 0), first) if len(first) else first
        times, fill = edges_s[:-1], np.where(end > first, np.maximum(most, before), before)
    return {"fill_time": packing.numbers(microseconds(times)), "fill": packing.numbers(fill.astype(np.int64))}


# --- tables ---------------------------------------------------------------------------------------------------------

DETECTION = (*COUNTS, *SHARES)
"""Columns of the table of rounds about a detector, besides those that begin with `detector_`."""

KNOWN = columns_of(
    LedgerTable,
    RoundsTable,
    FairnessColumns,
    AggregateColumns,
    UploadEpsilonColumns,
    EpsilonColumns,
    ClientsTable,
    FurtherClientsColumns,
)


def pack_tables(tables: dict[str, pa.Table], summary: dict[str, Any], packing: Packing) -> list[Packed]:
    """Pack the tables that the run has, in the order in which they are read."""
    rounds = tables["rounds"]
    of_detector = [name for name in rounds.column_names if name in DETECTION or name.startswith("detector_")]
    shown = {"rounds": rounds.drop_columns(of_detector)} | {
        name: tables[name] for name in ("clients", "ledger") if name in tables
    }
    if summary.get("seeds"):
        shown = {"summary": _summary(summary)} | shown
    if "judged" in of_detector and len(judged := rounds.filter(pc.field("judged") > 0)):
        shown["detector"] = judged.select(["seed", "version", "time_s", *of_detector])
    about = {"ledger": summary.get("privacy", [])}
    return [_pack_table(name, table, about.get(name, []), packing) for name, table in shown.items()]


def _summary(summary: dict[str, Any]) -> pa.Table:
    """Return one row per seed: why it ended, what became of its tasks."""
    rows = []
    for seed, one in summary["seeds"].items():
        row = {"seed": int(seed), "ended because": one["stopped"], "versions": one["versions"]}
        row |= {"virtual_s": one["virtual_s"]}
        row |= {f"tasks {name.replace('_', ' ')}": number for name, number in one.get("tasks", {}).items()}
        row |= {name.replace("_", " "): number for name, number in one.get("fates", {}).items() if number}
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    # A fate that no task of a seed had counts 0 there.
    return pa.table({name: [row.get(name, 0) for row in rows] for name in names})


def _pack_table(name: str, table: pa.Table, about: Sequence[str], packing: Packing) -> Packed:
    silent = [column for column in table.column_names if not _has_values(table[column])]
    columns = [_pack_column(column, table[column], packing) for column in table.column_names if column not in silent]
    notes = [*about, *([f"Columns without values are left out: {', '.join(silent)}."] if silent else [])]
    return {"name": name, "about": notes, "rows": len(table), "columns": columns}


def _has_values(column: pa.ChunkedArray) -> bool:
    """Whether a column holds more than gaps, NaN and empty texts."""
    if types.is_floating(column.type):
        return not np.isnan(column.to_numpy()).all()
    if types.is_string(column.type) or types.is_dictionary(column.type):
        return any(text for text in column.unique().to_pylist())
    return bool(column.null_count < len(column))


def _pack_column(name: str, column: pa.ChunkedArray, packing: Packing) -> Packed:
    known = KNOWN.get(name, Column(pa.null(), ""))
    about: Packed = {"name": name, "unit": known.unit, "meaning": known.meaning}
    if types.is_integer(column.type) or types.is_floating(column.type):
        # Gaps become NaN.
        return about | packing.numbers(column.to_numpy())
    words = {None: "", True: "yes", False: "no"}
    texts = column.to_pylist() if types.is_boolean(column.type) else column.cast(pa.string()).to_pylist()
    return about | packing.texts([words.get(text, text) for text in texts])
