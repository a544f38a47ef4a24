"""The client's part of a task: poison data, train, take statistics, clip, craft the attack, add noise, compress.

Tasks are carried out together when the server collects them, each from the version its client was sent. All random
numbers come from the stream of (client, turn), so neither the time nor the order of training changes a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.base.streams import Streams
from asyncfl.client.assignment import Assignment, work_of
from asyncfl.client.attackers import Attackers, UploadContext, UploadSources
from asyncfl.client.observer import Collection, TaskObserver
from asyncfl.client.payloads import Payloads, TrainedTask
from asyncfl.compression import Compressor
from asyncfl.data import FederatedData
from asyncfl.learning import Job, Learner, Training
from asyncfl.learning.personal_layers import PersonalLayers, SharedPartLearner
from asyncfl.privacy import Contribution, Distribution, PrivacyContext, Scheme, State
from asyncfl.privacy.ledger.releases import upload_release, usable_norm
from asyncfl.privacy.noise import add_noise
from asyncfl.privacy.upload_records import Upload

_SMALLEST_FACTOR = 1e-30  # smaller factors lose digits in float32


class TaskPath:
    """Carries out the tasks of one run. The matrix of uploads is reused: it is valid until the next collection."""

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
        """`learner`: trains one epoch at a time if the scheme adds noise after each epoch.

        `compressor`: None to send updates uncompressed.
        """
        self.data = data
        self.learner = learner
        self.training = training
        self.scheme = scheme
        self.context = context
        self.streams = streams
        self.attackers = attackers
        self.state: State = scheme.start(context)
        """State of the privacy scheme. Audits that train a task again restore the state of that time."""
        self.compressor = compressor
        self.observer: TaskObserver | None = None
        """Observer of each collection; None for none."""
        self.personal = PersonalLayers(learner) if isinstance(learner, SharedPartLearner) else None
        """Personal layers of each client; None if all layers are shared."""
        self._ready: dict[int, TrainedTask] = {}
        self._collections = 0
        self._clipped_to: float | None = None
        self._rows = np.empty((0, learner.n_parameters), dtype=np.float32)

    @property
    def every_task(self) -> bool:
        """Whether each task is trained when its training ends on the clock, even if its update is never used. True if
        the scheme learns from every task, or if clients have personal layers, which each task changes."""
        return self.scheme.needs_every_task or self.personal is not None

    def carry_out(self, assignments: Sequence[Assignment], version: int, current: Vector) -> Payloads:
        """Train the tasks of `assignments` and return their uploads. `version` with parameters `current` is the newest.

        Raises: NoEpochError if an assignment with a deadline completed no epoch.
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
            contributions = self._contributions(assignments, losses, norms)
        zeroed = self._zero(rows, assignments, norms, ~attacked)
        clip_norm = self._clipped_to = self._clip(rows, assignments, norms)

        releases = tuple(upload_release(self.scheme, self.context, clip_norm, one) for one in contributions)
        # Noise drawn during training is in the models already.
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
            # Compress after the noise was added: compression is post-processing then.
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
        """Train a task now and keep the result, which `carry_out` or `drop` takes. Used with `every_task`."""
        attacked = self.attackers is not None and self.attackers.attacks(
            assignment.task, assignment.client, assignment.base_version, assignment.turn
        )
        row = np.empty((1, self.learner.n_parameters), dtype=np.float32)
        losses = self._train(row, [assignment], np.array([attacked]))
        assignment = assignment.ended(self.training.epochs)
        self._scale(row, [assignment])
        norms = self._norms(row, [assignment])
        [one] = self._contributions([assignment], losses, norms)
        if self.observer is not None:
            self.observer.trained(assignment, one, attacked)
        self._ready[assignment.task] = TrainedTask(assignment, row[0], float(losses[0]), float(norms[0]), one, attacked)

    def drop(self, task: int) -> Upload:
        """Discard the result of a trained task that is not collected, and return the record that its upload would have
        had."""
        made = self._ready.pop(task)
        # The update was never clipped, and the clipping norm of a collection depends on its updates: use the last one.
        clip_norm = usable_norm(self.scheme, self.context, self._clipped_to)
        return self._not_sent(
            task, made.assignment.base_version, made.contribution, clip_norm, made.loss, made.attacked
        )

    def untrained(self, task: int, client: int, base_version: int, clip_norm: float | None) -> Upload:
        """Return the record of an upload that was trained elsewhere, with the noise that the scheme prescribes for it.

        Its loss is None.
        """
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
        """Train the tasks of `assignments`, write their models into `rows` and return their losses (n,).

        `attacked`: (n,) whether each task trains on poisoned data. If the scheme adds noise after each epoch, train
        epoch by epoch, with noise after each but the last.
        """
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
                    # The upload adds the noise of the last epoch.
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
        """Train the jobs, write their models into `rows`, store their personal layers, and return their losses (n,)."""
        if self.personal is None:
            return self.learner.train(rows, jobs)
        return self.personal.train(rows, jobs, [assignment.client for assignment in assignments])

    def personal_layers_of(self, client: int) -> Vector | None:
        """Return the client's current personal layers (n_personal,); None if all layers are shared."""
        return None if self.personal is None else self.personal.of(client)

    def accuracies(self, client: int, models: Vector, personal: Vector | None = None) -> NDArray[np.float64]:
        """Compute the (n,) accuracies of models (n, n_parameters) on the client's data, with its personal layers.

        `personal`: (n_personal,) personal layers to use; None for the current ones.
        """
        if self.personal is None:
            return self.learner.accuracies(models, *self.data.client(client))
        own, parameter_split = (
            self.personal.of(client) if personal is None else personal,
            self.personal.learner.parameter_split,
        )
        whole = np.stack([parameter_split.join(model, own) for model in models])
        return self.personal.learner.whole.accuracies(whole, *self.data.client(client))

    def _zero_out(self, rows: Vector, assignments: Sequence[Assignment]) -> None:
        """Replace the models of canary clients that are left out by their base models, in place: their updates are
        zero."""
        zeroed = frozenset() if self.data.canaries is None else self.data.canaries.zeroed
        for row, assignment in zip(rows, assignments, strict=True):
            if assignment.client in zeroed:
                row[:] = assignment.base

    def _fetch(
        self, rows: Vector, assignments: Sequence[Assignment]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], tuple[Contribution, ...]]:
        """Move the trained models of `assignments` into `rows`, training those that are not trained yet.

        Returns their losses (n,), norms (n,) and contributions.
        """
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
        """Return the training job of a task: base model, data, and order of samples. `attacked`: use poisoned data."""
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

    def _contributions(
        self, assignments: Sequence[Assignment], losses: NDArray[np.float64], norms: NDArray[np.float64]
    ) -> tuple[Contribution, ...]:
        """Return for each upload the properties that its noise depends on.

        Records each task's loss and norm in the scheme's state, after the state was read for that task.
        """
        contributions = []
        for row, assignment in enumerate(assignments):
            epsilon = self.state.epsilon(assignment.client, assignment.turn)
            samples = self.data.samples(assignment.client)
            one = Contribution(assignment.client, samples, assignment.turn, epsilon, epochs=assignment.epochs)
            contributions.append(one)
            self.state.record_training(one, float(losses[row]), float(norms[row]))
        return tuple(contributions)

    def _scale(self, rows: Vector, assignments: Sequence[Assignment]) -> None:
        """Multiply the update in each row by the scheme's factor, in place. Nothing if the scheme clips models."""
        if self.scheme.clip_target.payload == "model":
            return
        for row, assignment in zip(rows, assignments, strict=True):
            factor = self.scheme.update_factor(self.context, self.data.samples(assignment.client), assignment.epochs)
            if factor != 1:
                row -= assignment.base
                row *= np.float32(factor)
                row += assignment.base

    def _norms(self, rows: Vector, assignments: Sequence[Assignment]) -> NDArray[np.float64]:
        """Compute the (n,) norms of the vectors that the scheme clips."""
        order = self.scheme.clip_target.order
        return np.array([norm_of(row, order) for row in self._payloads(rows, assignments)])

    def _zero(
        self, rows: Vector, assignments: Sequence[Assignment], norms: NDArray[np.float64], honest: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Replace non-finite payloads of `honest` (n,) clients by zero, in place, if the scheme bounds uploads;
        otherwise change none. Return (n,) which were replaced.

        If clipping bounds the influence of a client, the server must not see either that its payload is unusable.
        """
        zeroed = honest & ~np.isfinite(norms) & self.scheme.bounds_uploads
        of_update = self.scheme.clip_target.payload == "update"
        for row in np.flatnonzero(zeroed).tolist():
            rows[row] = assignments[row].base if of_update else 0.0
        return zeroed

    def _clip(self, rows: Vector, assignments: Sequence[Assignment], norms: NDArray[np.float64]) -> float | None:
        """Scale payloads longer than the clipping norm down to it, in place, and return the norm; None without
        clipping."""
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
        """Return the norm to which payloads with these norms (n,) before clipping are clipped now; None without
        clipping."""
        finite = norms[np.isfinite(norms)]
        if not len(finite) and self.scheme.bounds_uploads:
            finite = np.zeros(1)  # all were replaced by zero
        return self.state.clip_norm(finite) if len(finite) else None

    def _payloads(self, rows: Vector, assignments: Sequence[Assignment]) -> Iterator[Vector]:
        """Yield the vector that the scheme clips of each task: the model, or the update."""
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
    """Whether a job was stopped before `epochs` epochs were done."""
    return job.deadline is not None and job.deadline.epochs_done < epochs


def norm_of(vector: NDArray[np.floating], order: int) -> float:
    """Compute the L1 (`order` 1) or L2 norm of `vector` in float64."""
    if order == 1:
        return float(np.abs(vector).sum(dtype=np.float64))
    # Squares of float32 values above 1.8e19 overflow float32.
    exact = vector.astype(np.float64)
    return float(np.sqrt(np.dot(exact, exact)))


def _scale_to(vector: Vector, clip_norm: float, norm: float) -> None:
    """Scale `vector`, which has norm `norm`, to `clip_norm`, in place."""
    factor = clip_norm / norm
    if factor < _SMALLEST_FACTOR:
        vector[:] = vector.astype(np.float64) * factor
    else:
        vector *= np.float32(factor)
