"""What a run of the clock says, by seed: rounds, staleness, exposure, traffic, fates.

Everything is read from the tables that a run leaves (rounds, events, clients), so the same numbers come from a run that
trained and from one of the clock alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]

QUANTILES = {"low": 0.05, "median": 0.5, "high": 0.95}
"""Name of a quantile in a summary -> the share below it."""


DOINGS = ("compute", "send", "receive", "idle")
"""What a client's device may be doing."""


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
    """(versions + 1,) bytes that the server had sent by then, retransmissions included."""
    staleness: Counts
    """(oldest + 1,) aggregated updates that were 0, 1, 2, ... versions old."""
    exposures_up: Counts
    """(clients,) updates of each client that the tap holds."""
    exposures_down: Counts
    """(clients,) models sent to each client that the tap holds."""
    versions_overheard: int
    """Versions that the tap holds from any downlink, the initial model included."""
    versions_sent: int
    """Versions that were sent to anybody."""
    tasks: Counts
    """(clients,) tasks given to each client."""
    attackers_uploads: float | None
    """Share of the updates that arrived which attackers sent; None where nobody attacks or nothing arrived."""
    retransmitted: int
    """Messages of which something was sent again."""
    cohorts_repeated: int
    """Cohorts of which nothing came, so that the server drew another for the same version."""
    fates: Mapping[str, int]
    """How the tasks ended."""
    energy_j: Mapping[str, Floats] = field(default_factory=dict)
    """What devices did (compute, send, receive, idle) -> (clients,) joules that it took; empty: not counted."""

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
    """The timeline of a seed from its tables; rows of other seeds are left aside."""
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
    share = float(theirs / uploads) if _column(clients, "attacker").any() and uploads else None
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
        attackers_uploads=share,
        # Each has a second transmission, whatever the number of the last.
        retransmitted=int((_column(of("retransmitted"), "attempt") == 2).sum()),
        cohorts_repeated=len(of("cohort_repeated")),
        fates=dict(fates),
        energy_j={
            name: _column(clients, column) for name in DOINGS if (column := f"energy_{name}_j") in clients.column_names
        },
    )


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    values: NDArray[Any] = table[name].to_numpy()
    return values


def summary(timeline: Timeline) -> dict[str, Any]:
    """The numbers of a seed as plain values; None where there is nothing to take them of."""
    versions = timeline.versions
    up, down = timeline.exposures_up, timeline.exposures_down
    ages = np.repeat(np.arange(len(timeline.staleness)), timeline.staleness)
    bytes_up, bytes_down = int(timeline.bytes_up[-1]), int(timeline.bytes_down[-1])
    return {
        "seed": timeline.seed,
        "ended": timeline.ended,
        "versions": versions,
        "virtual_s": float(timeline.published_s[-1]),
        "round_s": spread(timeline.round_s),
        "staleness": spread(ages),
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
        **({"energy_j": _energy(timeline)} if timeline.energy_j else {}),
    }


def _energy(timeline: Timeline) -> dict[str, Any]:
    """Joules of a client, and of all together by what it was for."""
    of_client = np.sum(list(timeline.energy_j.values()), axis=0)
    return {
        "of_client": spread(of_client),
        **{name: float(joules.sum()) for name, joules in timeline.energy_j.items()},
        "sum": float(of_client.sum()),
    }


def spread(values: NDArray[Any]) -> dict[str, float | None]:
    """Mean, 5 % quantile, median, 95 % quantile and maximum; None where there are no values."""
    if len(values) == 0:
        return dict.fromkeys(("mean", *QUANTILES, "most"))
    quantiles = np.quantile(values, list(QUANTILES.values()))
    return {
        "mean": float(np.mean(values)),
        **{name: float(quantile) for name, quantile in zip(QUANTILES, quantiles, strict=True)},
        "most": float(np.max(values)),
    }
