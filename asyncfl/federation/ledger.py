"""The ledger of a seed: what an eavesdropper and the server hold, and what that is worth, at the end and on the way.

The eavesdropper holds what the tap caught. The server holds every update that reached it, also those that it had no use
for, and all its models. `both` are the two of them together: an update that both hold is one release.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.privacy import PrivacyContext, Release, Scheme
from asyncfl.privacy.ledger.accounts import Account, model_accounts, upload_accounts
from asyncfl.privacy.ledger.published import model_releases, published
from asyncfl.privacy.ledger.releases import releases_of, typical_uploads
from asyncfl.privacy.ledger.spending import COLUMNS as SPENDING
from asyncfl.privacy.ledger.spending import largest, spending
from asyncfl.privacy.ledger.tables import COLUMNS, ledger
from asyncfl.trace import Kind
from asyncfl.trace.events import SCORING_DOWN
from asyncfl.trace.query import select

TYPES = {
    **dict.fromkeys(COLUMNS, pa.float64()),
    **dict.fromkeys(("client", "releases", "assumed_releases"), pa.int64()),
    **dict.fromkeys(("holder", "adversary", "distribution", "unit", "neighbours", "status", "flags"), pa.string()),
    "claim_holds": pa.bool_(),
}
SPENDING_TYPES = {
    **dict.fromkeys(SPENDING, pa.float64()),
    **dict.fromkeys(("client", "version"), pa.int64()),
    **dict.fromkeys(("holder", "adversary"), pa.string()),
}

ROUNDS = {
    "epsilon_claimed_max": ("server", "claimed"),
    "epsilon_basic_max": ("server", "basic"),
    "epsilon_rdp_max": ("server", "rdp"),
    "epsilon_exact_max": ("server", "exact"),
    "epsilon_exact_overheard_max": ("eavesdropper", "exact"),
}
"""Column of the table of rounds -> adversary and accountant: the largest epsilon of a client so far. Infinite where
nothing hides what was released."""

Times = dict[int, float]
"""Task or version -> virtual time at which somebody got it."""


@dataclass(frozen=True)
class SeedLedger:
    """The accounts of one seed."""

    run: SeedRun

    def __post_init__(self) -> None:
        if self.run.resolved is None:
            raise ValueError("a timeline without training releases nothing")

    @property
    def ledger(self) -> pa.Table:
        """What everybody holds at the end; see `asyncfl.privacy.ledger.tables.COLUMNS`."""
        columns = ledger(self._scheme, self._context, self.run.sizes, self._uploads, self._models, self._clip_norm)
        arrays = {name: pa.array(column.tolist(), TYPES[name], from_pandas=True) for name, column in columns.items()}
        return pa.table({"seed": pa.array([self.run.seed] * len(columns["client"]), pa.int64()), **arrays})

    @property
    def spending(self) -> pa.Table:
        """Epsilon so far at each version; see `asyncfl.privacy.ledger.spending.COLUMNS`, with version
        and time of the moment.

        What was released after the last version stands in rows of that version with the time of the last release.
        """
        columns = spending(self._uploads, self._models, len(self.run.sizes), len(self._times))
        moment = columns.pop("moment").astype(np.int64)
        versions = [row["version"] for row in self.run.rounds]
        shown = {
            "version": np.array([*versions, versions[-1]])[moment],
            "time_s": np.array(self._times)[moment],
        }
        columns = {name: columns[name] for name in ("holder", "client", "adversary")} | shown | columns
        types = SPENDING_TYPES | {"time_s": pa.float64()}
        arrays = {name: pa.array(column.tolist(), types[name]) for name, column in columns.items()}
        return pa.table({"seed": pa.array([self.run.seed] * len(moment), pa.int64()), **arrays})

    def with_epsilons(self, rounds: pa.Table) -> pa.Table:
        """The table of rounds with the columns of `ROUNDS`."""
        by_adversary = {
            account.adversary: largest(account, len(self.run.sizes), len(self._times)) for account in self._uploads
        }
        for name, (adversary, accountant) in ROUNDS.items():
            column = by_adversary[adversary][accountant][: len(rounds)]
            rounds = rounds.append_column(name, pa.array(column, pa.float64()))
        return rounds

    # --- who holds what --------------------------------------------------------------------------------------------

    @cached_property
    def _uploads(self) -> list[Account]:
        server = _times(select(self.run.events, kinds=[Kind.UPLOADED]), "task")
        tapped = _times(self._overheard("up", SCORING_DOWN), "task")
        found, releases = {}, self._upload_releases
        for who, times in {"eavesdropper": tapped, "server": server, "both": _earliest(tapped, server)}.items():
            rows = self._known(times, releases)
            found[who] = releases_of((releases[task][0], moment, releases[task][1]) for task, moment in rows)
        return upload_accounts(self._scheme, self._context, found)

    @cached_property
    def _models(self) -> list[Account]:
        if self._scheme.model_guarantee(self._context) is None:
            return []
        releases = self._model_releases
        server = {row["version"]: row["time_s"] for row in self.run.rounds}
        tapped = _times(self._overheard("down"), "base_version")
        caught, all_models = (
            published((moment, releases[version]) for version, moment in self._known(times, releases))
            for times in (tapped, server)
        )
        found = {"eavesdropper": caught, "server": all_models, "both": all_models}
        return model_accounts(self._scheme, self._context, found)

    def _known(self, times: Times, releases: Mapping[int, Any]) -> Iterator[tuple[int, int]]:
        """(number, moment) of those that release something, in the order in which they were got."""
        known = sorted((time_s, number) for number, time_s in times.items() if number in releases)
        moments = np.searchsorted(self._published, [time_s for time_s, _ in known])
        for (_, number), moment in zip(known, moments.tolist(), strict=True):
            yield number, moment

    def _overheard(self, *ways: str) -> pa.Table:
        caught = select(self.run.events, kinds=[Kind.OVERHEARD])
        caught = caught.filter(pc.field("task") >= 0)  # messages of a request for scores are of no task
        return caught.filter(pc.is_in(caught["detail"].cast(pa.string()), pa.array(ways)))

    # --- what was released -----------------------------------------------------------------------------------------

    @property
    def _scheme(self) -> Scheme:
        resolved: ResolvedSeed = self.run.resolved  # type: ignore[assignment]
        scheme: Scheme = resolved.scenario.privacy
        return scheme

    @property
    def _context(self) -> PrivacyContext:
        context: PrivacyContext = self.run.context  # type: ignore[assignment]
        return context

    @cached_property
    def _clip_norm(self) -> float | None:
        used = [upload.clip_norm for upload in self.run.uploads if upload.clip_norm is not None]
        return used[-1] if used else None

    @cached_property
    def _typical(self) -> list[Release]:
        return typical_uploads(self._scheme, self._context, self.run.sizes, self._clip_norm)

    @cached_property
    def _upload_releases(self) -> dict[int, tuple[int, Release]]:
        """Task -> client and release. An update that nobody trained, since nobody used it, would have been typical."""
        sent = select(self.run.events, kinds=[Kind.UPLOADED, Kind.OVERHEARD])
        found = {
            task: (client, self._typical[client])
            for task, client in zip(sent["task"].to_pylist(), sent["client"].to_pylist(), strict=True)
        }
        for upload in self.run.uploads:
            # A run that diverged knows no noise any more; its multipliers are those that it would have had.
            if math.isfinite(upload.release.std):
                found[upload.task] = (upload.client, upload.release)
        return found

    @cached_property
    def _model_releases(self) -> dict[int, dict[int, Release]]:
        """Version -> client -> release. Version 0 depends on nobody's data, nor does one that no update entered."""
        return {
            version: model_releases(
                self._scheme,
                self._context,
                model.clip_norm,
                model.contributions,
                [one.release.std for one in model.uploads],
                model.server_std,
            )
            for version, model in self.run.models.items()
        }

    # --- when ------------------------------------------------------------------------------------------------------

    @cached_property
    def _published(self) -> NDArray[np.float64]:
        return np.array([row["time_s"] for row in self.run.rounds])

    @cached_property
    def _times(self) -> list[float]:
        """Times of the moments: the versions, and the last release where it came after them."""
        sent = select(self.run.events, kinds=[Kind.UPLOADED, Kind.OVERHEARD])["time_s"].to_numpy()
        last = float(sent.max(initial=0.0))
        times: list[float] = self._published.tolist()
        return [*times, last] if last > times[-1] else times


def _times(events: pa.Table, column: str) -> Times:
    """When each number in `column` first stands among the events."""
    found: Times = {}
    for number, time_s in zip(events[column].to_pylist(), events["time_s"].to_pylist(), strict=True):
        found.setdefault(number, time_s)
    return found


def _earliest(first: Times, second: Times) -> Times:
    return {
        number: min(first.get(number, math.inf), second.get(number, math.inf))
        for number in first.keys() | second.keys()
    }
