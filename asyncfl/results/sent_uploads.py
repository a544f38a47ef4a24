"""All updates of a seed that left their clients: trained ones, and ones that were never trained since they were not
needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from asyncfl.privacy import Contribution, PrivacyContext, Scheme
from asyncfl.privacy.ledger.releases import Floats, Ints, typical_uploads, upload_release, usable_norm
from asyncfl.privacy.ledger.views import UploadTable
from asyncfl.privacy.release import Upload
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.adversaries import packet_bytes_of, uploads_held
from asyncfl.simulation.release_store import UploadRecords
from asyncfl.simulation.seed_run import SeedRun


class SentUploads:
    """The updates of one seed that left their clients."""

    def __init__(self, run: SeedRun) -> None:
        """Raises ValueError for a timeline without training."""
        if run.resolved is None or run.context is None:
            raise ValueError("a timeline without training releases nothing")
        self.run, self.resolved, self.context = run, run.resolved, run.context
        self.scheme: Scheme = run.resolved.scenario.privacy
        self._uncompressed = run.resolved.scenario.compression.off

    @cached_property
    def tasks(self) -> Tasks:
        """All tasks of the seed."""
        return Tasks.of(self.run.tasks)

    @cached_property
    def clip_norm(self) -> float | None:
        """Clipping norm of the last clipped update; None without one."""
        used = self.run.uploads.table["clip_norm"].drop_null()
        return float(used[-1].as_py()) if len(used) else None

    def usable_norm(self, clip_norm: float | None) -> float | None:
        """Return `clip_norm`, or a valid norm in its place."""
        return usable_norm(self.scheme, self.context, clip_norm)

    @cached_property
    def uploads(self) -> UploadRecords:
        """Records of all sent updates, by task. Updates that were never trained, since they were not used, have the
        record of a typical upload of that client. Releases whose noise is unknown because the run diverged have the
        noise of a typical one."""
        trained = self.run.uploads
        made = list(self._made())
        whole = trained.at(np.flatnonzero(~np.isin(trained.column("task"), [one.task for one in made])))
        every = pa.concat_tables([whole.table, UploadRecords.of(made).table]).unify_dictionaries()
        return UploadRecords(every.take(np.argsort(every["task"].to_numpy())))

    def _made(self) -> Iterator[Upload]:
        """Yield typical records of updates that were not trained, and of those whose noise is unknown because the run
        diverged."""
        tasks, trained = self.tasks, self.run.uploads
        known = trained.column("task")[np.isfinite(trained.column("release.std"))]
        held = uploads_held(tasks, packet_bytes_of(self.resolved.scenario.world, "up"))
        tasks = tasks.only(held & ~np.isin(tasks.task, known))
        if not len(tasks):
            return
        typical = typical_uploads(self.scheme, self.context, self.run.sizes, self.clip_norm)
        rows, state = trained.rows, self.scheme.start(self.context)
        columns = (one.tolist() for one in (tasks.task, tasks.client, tasks.base_version, tasks.epochs))
        for task, client, base, epochs in zip(*columns, strict=True):
            one = Contribution(client, int(self.run.sizes[client]), epochs=None if epochs < 0 else epochs)
            release = typical[client]
            if one.epochs is not None:
                stated = replace(one, epsilon=state.epsilon(client, one.turn))
                release = upload_release(self.scheme, self.context, self.usable_norm(self.clip_norm), stated)
            at = int(np.searchsorted(rows[0], task))
            if at < len(trained) and rows[0][at] == task:
                yield replace(trained[int(rows[1][at])], release=release, added_std=release.std)
            else:
                yield Upload(task, base, one, release, self.clip_norm, None, False, release.std)

    # --- columns for the accounts ----------------------------------------------------------------------------------

    def sent(self, n_versions: int) -> UploadTable:
        """Return all updates as columns. `n_versions`: number of published versions, including the initial model."""
        uploads, version, weight = self.uploads, *self._entered(n_versions)
        table = uploads.table
        laplace = pc.equal(table["release.distribution"].cast(pa.string()), "laplace").to_numpy().astype(bool)
        std, count = uploads.column("release.std"), uploads.column("release.count")
        sensitivity, model_sensitivity = uploads.column("release.sensitivity"), self._model_sensitivities()
        bits = self.scheme.bit_noise(self.context)
        if bits is not None:
            # The release of an upload counts its bit (`upload_release`), which is in a column of its own here.
            sensitivity = self._each(lambda *given: self.scheme.upload_noise(*given).sensitivity)
        # A scheme may state only one of the two sensitivities: without noise in between they are the same.
        sensitivity = np.where(np.isinf(sensitivity), model_sensitivity, sensitivity)
        model_sensitivity = np.where(np.isinf(model_sensitivity), sensitivity, model_sensitivity)
        additive = ~laplace & (count == 1) & (uploads.column("added_std") == std) & self._uncompressed
        # Noise drawn before the rounding, by Laplace or in training, hides what it hides whatever is done with it.
        sensitivity = sensitivity + np.where(additive, self._rounding, 0.0)
        norm = self.usable_norm(self.clip_norm)
        by_server = self.scheme.model_noise(self.context, norm).distribution
        model_sensitivity = model_sensitivity + self._rounding * (self._root if by_server == "laplace" else 1.0)
        copy_of = pc.fill_null(table["copy_of"], -1).to_numpy().copy()
        copy_of[copy_of >= 0] = uploads.rows_of(copy_of[copy_of >= 0])
        computed_from = self._computed_from()
        previous, carried = self._traces(computed_from, copy_of)
        return UploadTable(
            task=uploads.column("task"),
            client=uploads.column("contribution.client"),
            base_version=np.maximum(uploads.column("base_version"), 0),
            version=version,
            weight=weight,
            laplace=laplace,
            std=std,
            sensitivity=self._bounded(sensitivity),
            model_sensitivity=self._bounded(model_sensitivity),
            count=count,
            rate=uploads.column("release.rate"),
            epsilon=uploads.column("release.epsilon"),
            additive=additive,
            copy_of=copy_of,
            computed_from=tuple(computed_from.items()),
            previous=previous,
            carried=carried,
            bits=bits,
        )

    def _entered(self, n_versions: int) -> tuple[Ints, Floats]:
        """Return two arrays (n,): the version that each update entered or was left out of (0: none), and its weight
        there."""
        uploads = self.uploads
        version, weight = np.zeros(len(uploads), dtype=np.int64), np.zeros(len(uploads))
        tasks, versions, of = self.run.models.entered
        rows = uploads.rows_of(tasks)
        version[rows] = versions
        own = uploads.table["contribution.weight"]
        known = own.is_valid().to_numpy()[rows]
        weight[rows] = np.where(known, np.abs(own.to_numpy()[rows]), self.context.rate / of)
        flagged = self.tasks.only(self.tasks.with_fate(Fate.FLAGGED))
        tasks, makes = flagged.task, flagged.making
        found = np.isin(tasks, uploads.column("task")) & (makes < n_versions)
        version[uploads.rows_of(tasks[found])] = makes[found]
        return version, weight

    def _model_sensitivities(self) -> Floats:
        """Return (n,) the sensitivity of a model that consists of this upload alone, for neighbours as in published
        models."""
        table, known = self.uploads.table, dict[tuple[float | None, int], float]()
        pairs = [*zip(table["clip_norm"].to_pylist(), table["contribution.samples"].to_pylist(), strict=True)]
        for row, pair in enumerate(pairs):
            if pair not in known:
                alone = replace(self.uploads[row].contribution, weight=1.0)
                known[pair] = self.scheme.model_noise(self.context, self.usable_norm(pair[0]), [alone]).sensitivity
        return np.array([known[pair] for pair in pairs], dtype=np.float64)

    def _each(self, sensitivity: Callable[[PrivacyContext, float | None, Contribution], float]) -> Floats:
        """Return (n,) the `sensitivity` of each upload, a function of context, clipping norm and contribution."""
        norms = ((self.usable_norm(one.clip_norm), one.contribution) for one in self.uploads)
        return np.array([sensitivity(self.context, *given) for given in norms], dtype=np.float64)

    @property
    def proven(self) -> Floats | None:
        """(n,) proven sensitivities; None if none is proven."""
        found = self._each(self.scheme.proven_sensitivity) + self._rounding
        return self._bounded(found) if np.isfinite(found).any() else None

    @property
    def _rounding(self) -> float:
        """L2 distance by which secure aggregation may round two updates apart before it adds noise; 0 without it, and
        where clients clip updates to a shorter norm for it."""
        secure, target = self.resolved.scenario.protocol.secure_aggregation, self.scheme.clip_target
        if secure is None or (self.clip_norm is not None and (target.payload, target.order) == ("update", 2)):
            return 0.0
        return secure.quantiser.rounding_distance(self.resolved.scenario.n_parameters)

    @property
    def _root(self) -> float:
        """Largest ratio of the L1 to the L2 norm of an update."""
        return math.sqrt(self.resolved.scenario.n_parameters)

    def _bounded(self, sensitivity: Floats) -> Floats:
        """Return (n,) `sensitivity`, infinite for compressed uploads without noise of their own: they may be longer
        than their clipping norm, to which the server's noise is calibrated."""
        bare = self.uploads.column("release.std") == 0
        return sensitivity if self._uncompressed else np.where(bare, np.inf, sensitivity)

    def _computed_from(self) -> dict[int, Ints]:
        """Return the row of each attacker's update that was computed from other updates -> the rows of those."""
        uploads = self.uploads
        tasks = uploads.table["computed_from"]
        readers = np.flatnonzero(pc.greater(pc.list_value_length(tasks), 0).to_numpy()).tolist()
        return {row: uploads.rows_of(np.array(tasks[row].as_py(), dtype=np.int64)) for row in readers}

    def _traces(self, computed_from: Mapping[int, Ints], copy_of: Ints) -> tuple[Ints, tuple[tuple[int, int], ...]]:
        """Return `previous` and `carried` of the table of uploads; empty if no update carries traces of others.

        The compression error of a client's earlier updates is added to its next ones. Personal layers, what an
        algorithm has a client carry, and a kept state of its optimiser depend on its earlier tasks. A bound on an
        update holds whatever the client began with. But noise drawn during training hides its own task alone, and an
        attacker that copies such an update or computes from it passes the dependency on.
        """
        uploads, scenario = self.uploads, self.resolved.scenario
        in_state = False
        # A scheme draws noise during training for all uploads or for none.
        carries = scenario.model.personal or scenario.algorithm.carries or scenario.training.state == "kept"
        for one in uploads[:1] if carries else ():
            noise = self.scheme.upload_noise(self.context, self.usable_norm(one.clip_norm), one.contribution)
            in_state = noise.in_training
        if not in_state and (self._uncompressed or not scenario.compression.remembers):
            return np.zeros(0, dtype=np.int64), ()
        clients = uploads.column("contribution.client")
        order = np.argsort(clients, kind="stable")
        previous = np.full(len(clients), -1)
        same = clients[order[1:]] == clients[order[:-1]]
        previous[order[1:][same]] = order[:-1][same]
        pairs = [*enumerate(previous.tolist())]
        if in_state:
            copies = np.flatnonzero(copy_of >= 0)
            pairs += zip(copies.tolist(), previous[copy_of[copies]].tolist(), strict=True)
            pairs += [(row, before) for row, of in computed_from.items() for before in previous[of].tolist()]
        return previous, tuple((row, before) for row, before in pairs if before >= 0)
