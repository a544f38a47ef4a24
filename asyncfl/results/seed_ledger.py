"""The privacy ledger of a seed: the epsilon of each client against each adversary, at the end and over time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.component import Described
from asyncfl.base.disclosure import leaks
from asyncfl.base.instrument import NO_INSTRUMENT, Instrument, one_by_one
from asyncfl.base.tables import LedgerTable, SpendingTable, schema_of
from asyncfl.privacy import Guarantee
from asyncfl.privacy.flags import BATCHES, COMPUTED, CRAFTED, NO_CREDIT, REJECTION, SCALES, WEIGHTS
from asyncfl.privacy.ledger.accounts import Account, largest, spending
from asyncfl.privacy.ledger.knowledge import known_releases
from asyncfl.privacy.ledger.releases import Floats, MostExposed, answer_release, share_of
from asyncfl.privacy.ledger.rows import ledger
from asyncfl.privacy.ledger.secret_draws import SecretDraws
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable, VersionTable
from asyncfl.privacy.release import Release
from asyncfl.privacy.scheme import coalition
from asyncfl.protocol.event_query import end_of, select
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Collected, Fate
from asyncfl.protocol.score_requests import TracedScoreRequest, is_too_late, models_of, score_requests_of
from asyncfl.results.adversaries import (
    TRUSTS,
    RejectedUpdate,
    ScoreRelease,
    adversary_views,
    overheard_answers,
)
from asyncfl.results.drawn_in_secret import secret_draws
from asyncfl.results.sent_uploads import SentUploads
from asyncfl.results.sums_of_noises import sum_of_noises
from asyncfl.simulation.seed_run import SeedRun

ROUNDS = {
    "epsilon_naive_max": ("server", "naive"),
    "epsilon_basic_max": ("server", "basic"),
    "epsilon_rdp_max": ("server", "rdp"),
    "epsilon_exact_max": ("server", "exact"),
    "epsilon_exact_overheard_max": ("eavesdropper", "exact"),
}
"""Column of the table of rounds -> adversary and accountant: the largest epsilon of a client so far. Infinite for a
release without noise."""


class SeedLedger:
    """Privacy accounts of one seed."""

    def __init__(self, run: SeedRun, instrument: Instrument = NO_INSTRUMENT) -> None:
        """`instrument`: receives the progress, one step per adversary. Raises ValueError for a run without training."""
        self.run = run
        self.instrument = instrument
        self._uploads_sent = SentUploads(run)
        self._resolved, self._context = self._uploads_sent.resolved, self._uploads_sent.context
        self._scheme = self._uploads_sent.scheme
        self._clients = len(run.sizes)

    @property
    def ledger(self) -> pa.Table:
        """Privacy of each client and of the models at the end; see `LedgerTable`."""
        uploads, models = zip(*self._accounts, strict=True)
        promised = [self._promised(client) for client in range(self._clients)]
        norm = self._uploads_sent.clip_norm
        columns = ledger(self._scheme, self._context, self.run.sizes, uploads, models, norm, promised)
        return self._table(columns, LedgerTable, nan_is_null=True)

    @property
    def spending(self) -> pa.Table:
        """Epsilon at each version; see `SpendingTable`."""
        uploads, models = zip(*self._accounts, strict=True)
        columns = spending(uploads, models, self._clients, len(self._times))
        moment = columns.pop("moment").astype(np.int64)
        versions = [row["version"] for row in self.run.rounds]
        when = {"version": np.array([*versions, versions[-1]])[moment], "time_s": np.array(self._times)[moment]}
        return self._table(columns | when, SpendingTable)

    def _table(
        self, columns: dict[str, NDArray[Any]], table: type[Described], *, nan_is_null: bool = False
    ) -> pa.Table:
        schema = schema_of(table)
        rows = len(next(iter(columns.values())))
        given = {"seed": [self.run.seed] * rows} | {name: values.tolist() for name, values in columns.items()}
        arrays = [pa.array(given[one.name], one.type, from_pandas=nan_is_null) for one in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def with_epsilons(self, rounds: pa.Table) -> pa.Table:
        """Add the columns of `ROUNDS` to the table of rounds."""
        moments = len(self._times)
        found = {account.adversary: largest(account, self._clients, moments) for account, _ in self._accounts}
        for name, (adversary, accountant) in ROUNDS.items():
            rounds = rounds.append_column(name, pa.array(found[adversary][accountant][: len(rounds)], pa.float64()))
        return rounds

    # --- accounts --------------------------------------------------------------------------------------------------

    @cached_property
    def _accounts(self) -> list[tuple[Account, Account]]:
        """Accounts of the clients and of the models, for each adversary."""
        published = {int(row["version"]): float(row["time_s"]) for row in self.run.rounds}
        members = coalition(self._scheme.curious, self._clients, self._resolved.streams)
        scenario = self._resolved.scenario
        flags = frozenset(leaks(Collected, scenario.leaks))
        secure = scenario.protocol.secure_aggregation
        tasks, others = self._uploads_sent.tasks, (self._answers, self._rejected, flags, secure)
        views = adversary_views(
            tasks, self._requests, published, self._sent, self._moment, members, scenario.world, *others
        )
        found = []
        for view in one_by_one(views, self.instrument, f"ledger of seed {self.run.seed}"):
            found.append(self._of(view))
            _ = [account.spent for account in found[-1]]  # computed here, one step of progress each
        return found

    def _of(self, view: AdversaryView) -> tuple[Account, Account]:
        """Return the accounts of the clients and of the models for a view."""
        sent, versions = self._sent, self._versions
        of_clients, of_models = self._stated
        known = known_releases(sent, versions, view)
        law = sum_of_noises(self._resolved.scenario.protocol.secure_aggregation, sent, versions)
        # A client's own noise is proven in any sum.
        alone = sent if law.sums_proven else replace(sent, additive=np.zeros_like(sent.additive))
        proven = None if self._proven is None else known_releases(alone, versions, view, self._proven)
        draws = self._draws
        if draws is not None and not draws.lost and draws.hidden_from(view, sent):
            known = draws.releases(sent, versions, view)
            proven = None if proven is None else known
        # The data sets that a guarantee of models is about may differ at all clients at once, as if these were one.
        of_all = of_models is not None and of_models.at_every_client
        to_neighbours, proven_of_models = known, proven
        if of_all:
            sent, alone = (replace(one, client=np.zeros_like(one.client)) for one in (sent, alone))
            proven_of_models = None if self._proven is None else known_releases(alone, versions, view, self._proven)
        if of_all or not np.array_equal(sent.model_sensitivity, sent.sensitivity):
            to_neighbours = known_releases(sent, versions, view, sent.model_sensitivity)
        most_exposed = MostExposed(to_neighbours)
        proven_models = None if proven_of_models is None else MostExposed(proven_of_models)
        flags = self._flags(view)
        adversary, trusts = view.adversary, TRUSTS[view.adversary]
        touched = self._touched if view.holds_any else frozenset[int]()
        bare = view.unprotected_clients(self._sent, versions)
        holders = tuple(client for client in range(self._clients) if client not in view.members)
        return (
            Account(adversary, of_clients, known, touched, bare, proven, flags, holders, trusts, *law),
            Account(adversary, of_models, most_exposed, touched, bare, proven_models, flags, None, trusts, *law),
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
        own = self._scheme.upload_guarantee(self._context, client)
        if own is None and self._scheme.upload_guarantee(self._context) is None:
            return self._stated[0]
        return own

    def _flags(self, view: AdversaryView) -> dict[int, tuple[str, ...]]:
        """Return client, or -1 for the models -> flags that this run adds to those of the scheme, for one adversary."""
        found: dict[int, list[str]] = {}
        everybody, trained, sent = range(self._clients), self.run.uploads, self._sent

        def add(flag: str, clients: Iterable[int]) -> None:
            for client in clients:
                found.setdefault(client, []).append(flag)

        for flag, clients in view.leaks.items():
            add(flag, clients)
        if (draws := self._draws) is not None and draws.lost and draws.hidden_from(view, sent):
            add(f"{NO_CREDIT}: {draws.lost}", everybody)
        if self._resolved.reveals_scales and view.holds_any:
            add(SCALES, everybody)
        if self.run.in_real_time and self._context.poisson_sizes and view.holds_any:
            add(BATCHES, everybody)
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
            return frozenset(range(self._clients))
        trained = self._uploads_sent.uploads.column("contribution.client").tolist()
        return frozenset(trained) | {answer.client for answer in self._answers}

    # --- releases --------------------------------------------------------------------------------------------------

    @cached_property
    def _versions(self) -> VersionTable:
        n = max((int(row["version"]) for row in self.run.rounds), default=0) + 1
        std = np.zeros(n)
        norm = self._uploads_sent.usable_norm(self._uploads_sent.clip_norm)
        noise, models = self._scheme.model_noise(self._context, norm), self.run.models
        std[models.versions] = np.where(np.isfinite(models.server_std), models.server_std, noise.std)
        claim = share_of(self._scheme.model_guarantee(self._context))
        correlation = self._scheme.correlation
        encoder = None if correlation is None else correlation.encoder(self._context.rounds)
        return VersionTable(std, noise.distribution == "laplace", self._context.fixed_weights, claim, encoder)

    @cached_property
    def _draws(self) -> SecretDraws | None:
        return secret_draws(self.run, self._context, self._uploads_sent.tasks, self._stated[1])

    @cached_property
    def _sent(self) -> UploadTable:
        return self._uploads_sent.sent(len(self._versions.server_std))

    @cached_property
    def _proven(self) -> Floats | None:
        """(n,) sensitivities of `Scheme.proven_sensitivity`; None if the scheme claims nothing or proves none."""
        return self._uploads_sent.proven if any(self._stated) else None

    @cached_property
    def _requests(self) -> list[TracedScoreRequest]:
        return score_requests_of(self.run.events)

    @cached_property
    def _answers(self) -> list[ScoreRelease]:
        """Scores that left clients."""
        requests = self._requests
        heard: list[dict[str, list[float]]] = [{} for _ in requests]
        for row in overheard_answers(self.run.events).to_pylist():
            # A client answers one request after the other: this answers the last one that it was sent.
            own = (n for n, one in enumerate(requests) if one.client == row["client"] and one.asked_s <= row["time_s"])
            heard[max(own)].setdefault(row["kind"], []).append(row["time_s"])

        def release(client: int, detail: str) -> Release:
            models, samples = models_of(detail), int(self.run.sizes[client])
            return answer_release(self._scheme.scores, self._stated[0], models, samples, self._context.personal)

        found = []
        for request, times in zip(requests, heard, strict=True):
            client, scores = request.client, release(request.client, request.asked)
            # A message is caught in part at most once, and whole at most once.
            caught: list[float | None] = [*max(times.values(), key=len, default=[])]
            if request.answered:
                first = caught.pop(0) if caught else None
                found.append(ScoreRelease(client, scores, request.making, request.ended_s, first))
            found += [ScoreRelease(client, scores, None, None, time_s) for time_s in caught]
        for row in select(self.run.events, kinds=[Kind.SCORED]).to_pylist():
            if is_too_late(row["detail"]):
                scores = release(row["client"], row["detail"])
                found.append(ScoreRelease(row["client"], scores, None, row["time_s"]))
        return found

    @cached_property
    def _rejected(self) -> list[RejectedUpdate]:
        """Honest updates that the server rejected."""
        rejected, trained = self._uploads_sent.tasks, self.run.uploads
        rejected = rejected.only(rejected.with_fate(Fate.REJECTED))
        if not len(rejected):
            return []
        honest = ~trained.column("attacked")
        tasks, clients = trained.column("task")[honest].tolist(), trained.column("contribution.client")[honest].tolist()
        client_of = dict(zip(tasks, clients, strict=True))
        pairs = zip(rejected.task.tolist(), rejected.making.tolist(), strict=True)
        return [RejectedUpdate(task, client_of[task], version) for task, version in pairs if task in client_of]

    # --- times -----------------------------------------------------------------------------------------------------

    @cached_property
    def _published(self) -> NDArray[np.float64]:
        return np.array([row["time_s"] for row in self.run.rounds])

    def _moment(self, time_s: float) -> int:
        return int(np.searchsorted(self._published, time_s))

    @cached_property
    def _times(self) -> list[float]:
        """Times of the moments: the versions, and the end of the run if it came after them."""
        last = end_of(self.run.events)
        times: list[float] = self._published.tolist()
        return [*times, last] if last > times[-1] else times
