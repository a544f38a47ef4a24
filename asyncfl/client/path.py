"""The path of a task: poison data, train, take statistics, clip, craft the attack, add noise, compress.

Tasks are carried out when the server collects them, all at once, each from the version it was sent. Every draw comes
from the stream of its (client, turn), so neither the moment nor the order of training changes a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.client.assignment import Assignment, work_of
from asyncfl.client.attackers import Attackers, UploadContext, UploadSources
from asyncfl.client.observer import Collection, TaskObserver
from asyncfl.client.payloads import Payloads, TrainedTask
from asyncfl.compression import Compressor
from asyncfl.data import FederatedData
from asyncfl.learning import Job, Learner, Training
from asyncfl.learning.personal_layers import PersonalLayers, SharedPartLearner
from asyncfl.messages import Vector
from asyncfl.privacy import Contribution, Distribution, PrivacyContext, Scheme, State
from asyncfl.privacy.ledger.releases import upload_release, usable_norm
from asyncfl.privacy.noise.drawing import add_noise
from asyncfl.privacy.upload_records import Upload
from asyncfl.streams import Streams

_SMALLEST_FACTOR = 1e-30  # smaller ones lose digits in float32


class TaskPath:
    """Carries out the tasks of one run. The matrix of uploads is one buffer, used again each time."""

    def __init__(
        self,
        data: FederatedData,
        learner: Learner,
        training: Training,
        scheme: Scheme,
        context: PrivacyContext,
        streams: Streams,
        attackers: Attackers | None = None,
        compressor: Compressor | None = None,
    ) -> None:
        """`learner`: where the scheme adds noise after each epoch, one that trains one epoch at a time.

        `compressor` None: updates are sent as they are."""
        self.data = data
        self.learner = learner
        self.training = training
        self.scheme = scheme
        self.context = context
        self.streams = streams
        self.attackers = attackers
        self.state: State = scheme.start(context)
        """What the scheme remembers over the run. Who trains a task again puts in its place what was known then."""
        self.compressor = compressor
        self.observer: TaskObserver | None = None
        """Who is told of each collection; None: nobody."""
        self.personal = PersonalLayers(learner) if isinstance(learner, SharedPartLearner) else None
        """What each client keeps from task to task; None: nothing."""
        self._ready: dict[int, TrainedTask] = {}
        self._collections = 0
        self._clipped_to: float | None = None
        self._rows = np.empty((0, learner.n_parameters), dtype=np.float32)

    @property
    def every_task(self) -> bool:
        """Whether each task is trained as soon as its training ends, whatever becomes of its update: the scheme learns
        from it, or the client goes on with what it has made of its personal layers."""
        return self.scheme.needs_every_task or self.personal is not None

    def carry_out(self, assignments: Sequence[Assignment], version: int, current: Vector) -> Payloads:
        """What the clients of `assignments` upload, while `version` with the parameters `current` is the newest.

        Raises NoEpochError where one whose assignment has a deadline has nothing to send.
        """
        attacked = np.zeros(len(assignments), dtype=bool)
        if self.attackers is not None:
            attacked[:] = [self.attackers.attacks(t.task, t.client, t.base_version, t.turn) for t in assignments]
        rows = self._buffer(len(assignments))
        if self.every_task:
            losses, norms, contributions = self._fetch(rows, assignments)
        else:
            losses = self._train(rows, assignments, attacked)
            assignments = [assignment.ended(self.training.epochs) for assignment in assignments]
            self._scale(rows, assignments)
            norms = self._norms(rows, assignments)
            contributions = self._hear(assignments, losses, norms)
        zeroed = self._zero(rows, assignments, norms, ~attacked)
        clip_norm = self._clipped_to = self._clip(rows, assignments, norms)

        releases = tuple(upload_release(self.scheme, self.context, clip_norm, one) for one in contributions)
        # What training has drawn is in the models already.
        noises = [self.scheme.upload_noise(self.context, clip_norm, one) for one in contributions]
        std = np.array([0.0 if noise.in_training else noise.std for noise in noises])
        drawn_from = [noise.distribution for noise in noises]
        asked_std = np.array([noise.upload_std for noise in noises])
        sound, origin = np.ones(len(assignments), dtype=bool), UploadSources()
        self._add_noise(rows, assignments, drawn_from, std, np.flatnonzero(~attacked))
        if self.attackers is not None and attacked.any():
            adds = self.attackers.threats.attackers_add_noise
            work = work_of([one.epochs for one in contributions], self.training.epochs)
            uploading = UploadContext(std if adds else np.zeros(len(std)), asked_std, work, self.accuracies)
            origin = self.attackers.craft(rows, assignments, attacked, version, current, uploading)
            if adds:
                self._add_noise(rows, assignments, drawn_from, std, np.flatnonzero(attacked))
            else:
                std[attacked] = 0.0
                releases = tuple(
                    replace(one, std=0.0) if bad else one for one, bad in zip(releases, attacked, strict=True)
                )
            sound[attacked] = self.attackers.threats.attack.length_error == 0
        packed: tuple[bytes, ...] = ()
        if self.compressor is not None:
            # After the noise: what is compressed is protected already.
            compress = self.compressor.compress
            packed = tuple(compress(row, t.base, t.client, t.turn) for row, t in zip(rows, assignments, strict=True))
        if self.scheme.mixing_node is not None:
            random = self.streams.generator("shuffle", number=version)
            self.scheme.mixing_node.shuffle(rows, self.learner.layout, sound, random)
        loan = rows.view()
        loan.flags.writeable = False
        uploads = tuple(
            Upload(
                assignment.task,
                assignment.base_version,
                one,
                release,
                clip_norm,
                float(loss),
                bool(bad),
                float(added),
                origin.copy_of if bad else None,
                origin.computed_from if bad else (),
            )
            for assignment, one, release, loss, bad, added in zip(
                assignments, contributions, releases, losses, attacked, std, strict=True
            )
        )
        payloads = Payloads(loan, uploads, norms, clip_norm, asked_std, sound, zeroed, packed)
        if self.observer is not None:
            self.observer.carried_out(Collection(version, assignments, payloads))
        random = self.streams.generator("clip_quantile", number=self._collections)
        self.state.record_collection(contributions, norms, random)
        self._collections += 1
        return payloads

    def train(self, assignment: Assignment) -> None:
        """Train a task now, for a scheme that needs every task; `carry_out` fetches it, unless it is dropped."""
        attacked = self.attackers is not None and self.attackers.attacks(
            assignment.task, assignment.client, assignment.base_version, assignment.turn
        )
        row = np.empty((1, self.learner.n_parameters), dtype=np.float32)
        losses = self._train(row, [assignment], np.array([attacked]))
        assignment = assignment.ended(self.training.epochs)
        self._scale(row, [assignment])
        norms = self._norms(row, [assignment])
        [one] = self._hear([assignment], losses, norms)
        if self.observer is not None:
            self.observer.trained(assignment, one, attacked)
        self._ready[assignment.task] = TrainedTask(assignment, row[0], float(losses[0]), float(norms[0]), one, attacked)

    def drop(self, task: int) -> Upload:
        """Forget the update of a trained task that nobody collects. The record of what it would have been."""
        made = self._ready.pop(task)
        # It was never clipped: that of a collection is found out from what is collected.
        clip_norm = usable_norm(self.scheme, self.context, self._clipped_to)
        return self._not_sent(
            task, made.assignment.base_version, made.contribution, clip_norm, made.loss, made.attacked
        )

    def untrained(self, task: int, client: int, base_version: int, clip_norm: float | None) -> Upload:
        """The record of an upload that was trained elsewhere, as the scheme describes it: its loss is not known."""
        one = Contribution(client, self.data.samples(client))
        return self._not_sent(task, base_version, one, clip_norm, None, False)

    def _not_sent(
        self, task: int, base: int, one: Contribution, clip_norm: float | None, loss: float | None, attacked: bool
    ) -> Upload:
        release = upload_release(self.scheme, self.context, clip_norm, one)
        return Upload(task, base, one, release, clip_norm, loss, attacked, 0.0)

    def _train(
        self, rows: Vector, assignments: Sequence[Assignment], attacked: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Losses of tasks whose models go to `rows`: trained at one go, or with noise after all epochs but the last."""
        jobs = [self.job(assignment, bool(bad)) for assignment, bad in zip(assignments, attacked, strict=True)]
        if not self.scheme.noise_each_epoch:
            losses = self._learn(rows, jobs, assignments)
            self._zero_out(rows, assignments)
            return losses
        streams = [
            self.streams.generator("epoch_noise", assignment.client, assignment.turn) for assignment in assignments
        ]
        noised = ~attacked | (self.attackers is not None and self.attackers.threats.attackers_add_noise)
        losses, bases, whole = np.empty(len(jobs)), [job.base for job in jobs], rows.copy()
        for epoch in range(self.training.epochs):
            going = [row for row, job in enumerate(jobs) if epoch < len(job.order) and not _stopped(job, epoch)]
            made = np.empty((len(going), rows.shape[1]), dtype=np.float32)
            parts = [replace(jobs[row], base=bases[row], order=jobs[row].order[epoch : epoch + 1]) for row in going]
            found = self._learn(made, parts, [assignments[row] for row in going])
            for row, model, loss in zip(going, made, found, strict=True):
                if _stopped(jobs[row], epoch + 1):
                    # The noise of its last epoch is that of the upload.
                    rows[row] = whole[row]
                    continue
                rows[row] = whole[row] = model
                losses[row] = loss
                if noised[row] and epoch + 1 < len(jobs[row].order):
                    one = Contribution(
                        assignments[row].client, self.data.samples(assignments[row].client), assignments[row].turn
                    )
                    std = np.float32(self.scheme.upload_noise(self.context, None, one).std)
                    rows[row] += std * streams[row].standard_normal(rows.shape[1], dtype=np.float32)
                bases[row] = rows[row].copy()
        return losses

    def _learn(self, rows: Vector, jobs: Sequence[Job], assignments: Sequence[Assignment]) -> NDArray[np.float64]:
        """Losses of the jobs; models are written into `rows`, personal layers kept."""
        if self.personal is None:
            return self.learner.train(rows, jobs)
        return self.personal.train(rows, jobs, [assignment.client for assignment in assignments])

    def accuracies(self, client: int, models: Vector, personal: Vector | None = None) -> NDArray[np.float64]:
        """(n,) accuracies of models (n, n_parameters) on the client's data, with the layers that are its own.

        `personal`: (n_personal,) those of an earlier moment; None: as they are."""
        if self.personal is None:
            return self.learner.accuracies(models, *self.data.client(client))
        own, parameter_split = (
            self.personal.of(client) if personal is None else personal,
            self.personal.learner.parameter_split,
        )
        whole = np.stack([parameter_split.join(model, own) for model in models])
        return self.personal.learner.whole.accuracies(whole, *self.data.client(client))

    def _zero_out(self, rows: Vector, assignments: Sequence[Assignment]) -> None:
        """Put back in place the models of canary clients that are out: their updates are zero."""
        zeroed = frozenset() if self.data.canaries is None else self.data.canaries.zeroed
        for row, assignment in zip(rows, assignments, strict=True):
            if assignment.client in zeroed:
                row[:] = assignment.base

    def _fetch(
        self, rows: Vector, assignments: Sequence[Assignment]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[Contribution, ...]]:
        """Losses, norms and contributions of tasks that have been trained before; their models go to `rows`."""
        for assignment in assignments:
            if assignment.task not in self._ready:
                self.train(assignment)
        made = [self._ready.pop(assignment.task) for assignment in assignments]
        for row, one in zip(rows, made, strict=True):
            row[:] = one.row
        losses, norms = np.array([one.loss for one in made]), np.array([one.norm for one in made])
        return losses, norms, tuple(one.contribution for one in made)

    def _buffer(self, count: int) -> Vector:
        if len(self._rows) < count:
            self._rows = np.empty((count, self.learner.n_parameters), dtype=np.float32)
        return self._rows[:count]

    def job(self, assignment: Assignment, attacked: bool = False) -> Job:
        """What the client of a task trains from, on what, in which order. `attacked`: on the poisoned data."""
        images, labels = self.data.client(assignment.client)
        if attacked and self.attackers is not None:
            images, labels = self.attackers.poisoned(assignment.client, images, labels)
        random = self.streams.generator("batches", assignment.client, assignment.turn)
        epochs = np.tile(np.arange(len(labels)), (self.training.epochs, 1))
        noise = None
        if self.training.example_noise:
            noise = self.streams.bits("example_noise", assignment.client, assignment.turn)
        order = random.permuted(epochs, axis=1)[: assignment.epochs]
        return Job(assignment.base, images, labels, order, noise, assignment.deadline)

    def _hear(
        self, assignments: Sequence[Assignment], losses: NDArray[np.float64], norms: NDArray[np.float64]
    ) -> tuple[Contribution, ...]:
        """What the noise of each upload depends on. The state hears of each task after it was asked about it."""
        contributions = []
        for row, assignment in enumerate(assignments):
            epsilon = self.state.epsilon(assignment.client, assignment.turn)
            samples = self.data.samples(assignment.client)
            one = Contribution(assignment.client, samples, assignment.turn, epsilon, epochs=assignment.epochs)
            contributions.append(one)
            self.state.record_training(one, float(losses[row]), float(norms[row]))
        return tuple(contributions)

    def _scale(self, rows: Vector, assignments: Sequence[Assignment]) -> None:
        """Replace in place each update by the scheme's multiple of it."""
        if self.scheme.clip_target.payload == "model":
            return
        for row, assignment in zip(rows, assignments, strict=True):
            factor = self.scheme.update_factor(self.context, self.data.samples(assignment.client), assignment.epochs)
            if factor != 1:
                row -= assignment.base
                row *= np.float32(factor)
                row += assignment.base

    def _norms(self, rows: Vector, assignments: Sequence[Assignment]) -> NDArray[np.float64]:
        """(n,) norms of what the scheme clips."""
        order = self.scheme.clip_target.order
        return np.array([norm_of(row, order) for row in self._payloads(rows, assignments)])

    def _zero(
        self, rows: Vector, assignments: Sequence[Assignment], norms: NDArray[np.float64], honest: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Put zero in place of the payloads of `honest` (n,) clients that are not finite: which they were, (n,).

        Where clipping bounds what a client can change, that one sends nothing usable is not to be seen either.
        """
        zeroed = honest & ~np.isfinite(norms) & self.scheme.bounds_uploads
        of_update = self.scheme.clip_target.payload == "update"
        for row in np.flatnonzero(zeroed).tolist():
            rows[row] = assignments[row].base if of_update else 0.0
        return zeroed

    def _clip(self, rows: Vector, assignments: Sequence[Assignment], norms: NDArray[np.float64]) -> float | None:
        """Scale down in place what is longer than the clipping norm; that norm."""
        clip_norm = self.clip_norm(norms)
        if clip_norm is None:
            return None
        long: list[int] = np.flatnonzero((norms > clip_norm) & np.isfinite(norms)).tolist()
        if self.scheme.clip_target.payload == "model":
            for row in long:
                _scale_to(rows[row], clip_norm, norms[row])
            return clip_norm
        for row in long:
            base = assignments[row].base
            rows[row] -= base
            _scale_to(rows[row], clip_norm, norms[row])
            rows[row] += base
        return clip_norm

    def clip_norm(self, norms: NDArray[np.float64]) -> float | None:
        """Norm that payloads with these norms (n,) before clipping are clipped to now; None: they are not."""
        finite = norms[np.isfinite(norms)]
        if not len(finite) and self.scheme.bounds_uploads:
            finite = np.zeros(1)  # all have become zero
        return self.state.clip_norm(finite) if len(finite) else None

    def _payloads(self, rows: Vector, assignments: Sequence[Assignment]) -> Iterator[Vector]:
        """One after another what the scheme clips of each task: the model, or its update."""
        of_update = self.scheme.clip_target.payload == "update"
        for row, assignment in zip(rows, assignments, strict=True):
            yield row - assignment.base if of_update else row

    def _add_noise(
        self,
        rows: Vector,
        assignments: Sequence[Assignment],
        drawn_from: Sequence[Distribution],
        std: NDArray[np.float64],
        which: NDArray[np.int64],
    ) -> None:
        for row in which:
            assignment = assignments[row]
            stream = (self.streams, "client_noise", assignment.client, assignment.turn)
            add_noise(drawn_from[row], rows[row], float(std[row]), *stream)


def _stopped(job: Job, epochs: int) -> bool:
    """Whether a job was stopped before so many epochs were done."""
    return job.deadline is not None and job.deadline.epochs_done < epochs


def norm_of(vector: NDArray[np.floating], order: int) -> float:
    """L1 or L2 norm, in float64."""
    if order == 1:
        return float(np.abs(vector).sum(dtype=np.float64))
    # The squares of float32 are no float32 past 1.8e19.
    exact = vector.astype(np.float64)
    return float(np.sqrt(np.dot(exact, exact)))


def _scale_to(vector: Vector, clip_norm: float, norm: float) -> None:
    """Scale `vector` of that norm to `clip_norm`, in place."""
    factor = clip_norm / norm
    if factor < _SMALLEST_FACTOR:
        vector[:] = vector.astype(np.float64) * factor
    else:
        vector *= np.float32(factor)
