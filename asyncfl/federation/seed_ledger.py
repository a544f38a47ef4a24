"""The privacy ledger of a seed: the epsilon of each client against each adversary, at the end and over time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.disclosure import leaks
from asyncfl.base.messages import Collected
from asyncfl.base.progress import Stage, ignore_progress, one_by_one
from asyncfl.federation.adversaries import TRUSTS, AdversaryViews, RejectedUpdate, ScoreRelease, overheard
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.seed_run import SeedRun
from asyncfl.federation.sent_uploads import SentUploads
from asyncfl.privacy import Guarantee, PrivacyContext, Scheme
from asyncfl.privacy.flags import COMPUTED, CRAFTED, REJECTION, SCALES, SEED, WEIGHTS
from asyncfl.privacy.ledger.accounts import COLUMNS as SPENDING
from asyncfl.privacy.ledger.accounts import Account, largest, spending
from asyncfl.privacy.ledger.knowledge import known_releases
from asyncfl.privacy.ledger.releases import Floats, answer_release, models_at_moments, share_of, usable_norm
from asyncfl.privacy.ledger.rows import COLUMNS, ledger
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable, VersionTable
from asyncfl.privacy.release import Release
from asyncfl.privacy.scheme import coalition
from asyncfl.trace import Kind
from asyncfl.trace.events import SCORING_UP
from asyncfl.trace.query import select
from asyncfl.trace.scoring_requests import is_too_late, scoring_requests_of

TYPES = {
    **dict.fromkeys(COLUMNS, pa.float64()),
    **dict.fromkeys(("client", "releases", "assumed_releases"), pa.int64()),
    **dict.fromkeys(
        ("holder", "adversary", "trusts", "distribution", "unit", "neighbours", "status", "flags"), pa.string()
    ),
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
"""Column of the table of rounds -> adversary and accountant: the largest epsilon of a client so far. Infinite for a
release without noise."""


KNOWS_SEED = ("eavesdropper", "server", "both", "curious")
"""Adversaries that know the seed of the noise in a shaped live run: the server tells it to all clients, over the links
that a tap listens to."""


@dataclass(frozen=True)
class SeedLedger:
    """Privacy accounts of one seed."""

    run: SeedRun
    stage: Stage = ignore_progress  # progress callback, one step per adversary

    def __post_init__(self) -> None:
        if self.run.resolved is None:
            raise ValueError("a timeline without training releases nothing")

    @property
    def ledger(self) -> pa.Table:
        """Privacy of each client and of the models at the end; see `asyncfl.privacy.ledger.rows.COLUMNS`."""
        promised = [self._promised(client) for client in range(len(self.run.sizes))]
        columns = ledger(
            self._scheme, self._context, self.run.sizes, self._uploads, self._models, self._all.clip_norm, promised
        )
        arrays = {name: pa.array(column.tolist(), TYPES[name], from_pandas=True) for name, column in columns.items()}
        return pa.table({"seed": pa.array([self.run.seed] * len(columns["client"]), pa.int64()), **arrays})

    @property
    def spending(self) -> pa.Table:
        """Epsilon at each version; see `asyncfl.privacy.ledger.accounts.COLUMNS`, with version and time.

        Releases after the last version are in rows of that version, with the time at which the run ended.
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
        """Add the columns of `ROUNDS` to the table of rounds."""
        by_adversary = {
            account.adversary: largest(account, len(self.run.sizes), len(self._times)) for account in self._uploads
        }
        for name, (adversary, accountant) in ROUNDS.items():
            column = by_adversary[adversary][accountant][: len(rounds)]
            rounds = rounds.append_column(name, pa.array(column, pa.float64()))
        return rounds

    # --- accounts --------------------------------------------------------------------------------------------------

    @cached_property
    def _accounts(self) -> list[tuple[Account, Account]]:
        """Accounts of the clients and of the models, for each adversary."""
        world = self._resolved.scenario.world
        observed = AdversaryViews(self.run.events, self.run.rounds, self._sent, self._moment, self._coalition, world)
        views = observed.views(self._answers, self._rejected, self._upload_leaks)
        found = []
        for view in one_by_one(views, self.stage, f"ledger of seed {self.run.seed}"):
            found.append(self._of(view))
            _ = [account.spent for account in found[-1]]  # computed here, one step of progress each
        return found

    @property
    def _uploads(self) -> list[Account]:
        return [of_clients for of_clients, _ in self._accounts]

    @property
    def _models(self) -> list[Account]:
        return [of_models for _, of_models in self._accounts]

    def _of(self, view: AdversaryView) -> tuple[Account, Account]:
        """Return the accounts of the clients and of the models for a view."""
        sent, versions = self._sent, self._versions
        of_clients, of_models = self._stated
        known = known_releases(sent, versions, view)
        proven = None if self._proven is None else known_releases(sent, versions, view, self._proven)
        everywhere = of_models is not None and of_models.at_every_client
        to_neighbours = known
        if everywhere or not np.array_equal(sent.model_sensitivity, sent.sensitivity):
            client = np.zeros_like(sent.client) if everywhere else sent.client
            to_neighbours = known_releases(replace(sent, client=client), versions, view, sent.model_sensitivity)
        granted = view.granted(sent)
        got = np.sort(granted[versions.entered & (granted < NEVER)])
        flags = self._flags(view)
        adversary, trusts = view.adversary, TRUSTS[view.adversary]
        touched = self._touched if view.holds_any else frozenset[int]()
        bare = view.unprotected_clients(sent, versions)
        holders = tuple(client for client in range(len(self.run.sizes)) if client not in view.members)
        releases = models_at_moments(to_neighbours, got)
        proven_models = None if proven is None else models_at_moments(proven, got)
        return (
            Account(adversary, of_clients, known, touched, bare, proven, flags, holders, trusts),
            Account(adversary, of_models, releases, touched, bare, proven_models, flags, None, trusts),
        )

    @cached_property
    def _stated(self) -> tuple[Guarantee | None, Guarantee | None]:
        """Guarantees of uploads and of models."""
        uploads = self._scheme.upload_guarantee(self._context)
        models = self._scheme.model_guarantee(self._context)

        other = uploads or models
        unclaimed = other and replace(other, epsilon=math.inf, releases=0, at_every_client=False)
        return uploads or unclaimed, models or unclaimed

    def _promised(self, client: int) -> Guarantee | None:
        """Return the guarantee of one client."""
        return self._scheme.upload_guarantee(self._context, client) or (
            None if self._scheme.upload_guarantee(self._context) is not None else self._stated[0]
        )

    def _flags(self, view: AdversaryView) -> dict[int, tuple[str, ...]]:
        """Return client, or -1 for the models -> flags that this run adds to those of the scheme, for one adversary."""
        found: dict[int, list[str]] = {}
        everybody, trained, sent = range(len(self.run.sizes)), self.run.uploads, self._sent

        def add(flag: str, clients: Iterable[int]) -> None:
            for client in clients:
                found.setdefault(client, []).append(flag)

        for flag, clients in view.leaks.items():
            add(flag, clients)
        if self._resolved.reveals_scales and view.holds_any:
            add(SCALES, everybody)
        if self.run.seed_known and view.holds_any and view.adversary in KNOWS_SEED:
            add(SEED, everybody)
        add(REJECTION, (one.client for one in self._rejected))
        add(CRAFTED, dict.fromkeys(trained.column("contribution.client")[trained.column("attacked")].tolist()))
        if copied := set(trained.table["computed_from"].combine_chunks().flatten().to_pylist()):
            client_of = dict(zip(sent.task.tolist(), sent.client.tolist(), strict=True))
            add(COMPUTED, (client_of[task] for task in copied))
        if not self._versions.fixed_weights and (self._versions.server_std > 0).any() and not view.knows_server_noise:
            granted = view.granted(sent)
            add(WEIGHTS, sent.client[(sent.version > 0) & (granted[sent.version] < NEVER)].tolist())
        found[-1] = [flag for flags in found.values() for flag in flags if flag != CRAFTED]
        return {client: tuple(dict.fromkeys(flags)) for client, flags in found.items()}

    @cached_property
    def _touched(self) -> frozenset[int]:
        """Clients whose data anything that was released may depend on."""
        if self._resolved.reveals_scales:
            return frozenset(range(len(self.run.sizes)))
        trained = set(self._all.uploads.column("contribution.client").tolist())
        return frozenset(trained | {answer.client for answer in self._answers})

    # --- uploads ---------------------------------------------------------------------------------------------------

    @property
    def _resolved(self) -> ResolvedSeed:
        return self.run.resolved  # type: ignore[return-value]

    @property
    def _scheme(self) -> Scheme:
        scheme: Scheme = self._resolved.scenario.privacy
        return scheme

    @property
    def _context(self) -> PrivacyContext:
        context: PrivacyContext = self.run.context  # type: ignore[assignment]
        return context

    @cached_property
    def _coalition(self) -> frozenset[int]:
        return coalition(self._scheme.curious, len(self.run.sizes), self._resolved.streams)

    @cached_property
    def _versions(self) -> VersionTable:
        n = max((int(row["version"]) for row in self.run.rounds), default=0) + 1
        entered, std = np.zeros(n, dtype=bool), np.zeros(n)
        norm = usable_norm(self._scheme, self._context, self._all.clip_norm)
        noise, models = self._scheme.model_noise(self._context, norm), self.run.models
        entered[models.versions] = True
        std[models.versions] = np.where(np.isfinite(models.server_std), models.server_std, noise.std)
        claim = share_of(self._scheme.model_guarantee(self._context))
        return VersionTable(entered, std, noise.distribution == "laplace", self._context.fixed_weights, claim)

    @cached_property
    def _all(self) -> SentUploads:
        return SentUploads(self.run, self._resolved, self._context)

    @cached_property
    def _sent(self) -> UploadTable:
        return self._all.sent(len(self._versions.entered))

    @cached_property
    def _proven(self) -> Floats | None:
        """(n,) sensitivities of `Scheme.proven_sensitivity`; None if the scheme claims nothing or proves none."""
        return self._all.proven if any(self._stated) else None

    # --- other releases --------------------------------------------------------------------------------------------

    @property
    def _upload_leaks(self) -> frozenset[str]:
        return frozenset(leaks(Collected, self._resolved.scenario.leaks))

    @cached_property
    def _answers(self) -> list[ScoreRelease]:
        requests = scoring_requests_of(self.run.events)
        heard: list[dict[str, list[float]]] = [{} for _ in requests]
        for row in overheard(self.run.events, SCORING_UP, tasks=False, in_part=True).to_pylist():
            # A client answers one request after the other: this answers the last one that it was sent.
            own = (n for n, one in enumerate(requests) if one.client == row["client"] and one.asked_s <= row["time_s"])
            heard[max(own)].setdefault(row["kind"], []).append(row["time_s"])
        found = []
        for request, times in zip(requests, heard, strict=True):
            client, release = request.client, self._scores_release(request.client, request.asked)
            # A message is caught in part at most once, and whole at most once.
            caught: list[float | None] = [*max(times.values(), key=len, default=[])]
            if request.answered:
                first = caught.pop(0) if caught else None
                found.append(ScoreRelease(client, release, request.making, request.ended_s, first))
            found += [ScoreRelease(client, release, None, None, time_s) for time_s in caught]
        late = [row for row in select(self.run.events, kinds=[Kind.SCORED]).to_pylist() if is_too_late(row["detail"])]
        return found + [
            ScoreRelease(row["client"], self._scores_release(row["client"], row["detail"]), None, row["time_s"])
            for row in late
        ]

    def _scores_release(self, client: int, models: str) -> Release:
        """Return the scores of a client as a release."""
        stated, samples = self._stated[0], int(self.run.sizes[client])
        return answer_release(self._scheme.scores, stated, int(models.split()[0]), samples, self._context.personal)

    @cached_property
    def _rejected(self) -> list[RejectedUpdate]:
        """Honest updates that the server rejected."""
        rows, trained = select(self.run.events, kinds=[Kind.REJECTED]), self.run.uploads
        if not len(rows):
            return []
        columns = (
            trained.column(name)[~trained.column("attacked")].tolist() for name in ("task", "contribution.client")
        )
        honest = dict(zip(*columns, strict=True))
        pairs = zip(rows["task"].to_pylist(), rows["version"].to_pylist(), strict=True)
        return [RejectedUpdate(task, honest[task], version + 1) for task, version in pairs if task in honest]

    # --- times -----------------------------------------------------------------------------------------------------

    @cached_property
    def _published(self) -> NDArray[np.float64]:
        return np.array([row["time_s"] for row in self.run.rounds])

    def _moment(self, time_s: float) -> int:
        return int(np.searchsorted(self._published, time_s))

    @cached_property
    def _times(self) -> list[float]:
        """Times of the moments: the versions, and the end of the run if it came after them."""
        last = float(self.run.events["time_s"].to_numpy().max(initial=0.0))
        times: list[float] = self._published.tolist()
        return [*times, last] if last > times[-1] else times
