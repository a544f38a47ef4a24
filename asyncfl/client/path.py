"""The path of a task at its client: a list of stages, built once for a run.

    poison -> train -> measure | -> clip -> noise -> craft attacks -> attackers' noise -> payloads of updates
        -> compress -> shuffle

With secure aggregation, clients round their updates as they add noise, and mask them in the end.

Tasks are carried out together when the server collects them, each from the version its client was sent. If something is
learnt from every task (`TaskPath.every_task`), each task passes the stages before the bar alone, when its training
ends. All random numbers come from the stream of (client, turn), so neither the time nor the order of training changes a
result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.instrument import NO_INSTRUMENT, Instrument
from asyncfl.client.attack import CraftUploads
from asyncfl.client.batch import Assignment, Batch, PathComponents, Stage
from asyncfl.client.clip import ClipPayloads, Measure
from asyncfl.client.compress import Compress
from asyncfl.client.mask import Mask, RoundUpdates
from asyncfl.client.payloads_of_updates import PayloadsOfUpdates
from asyncfl.client.poison import Poison
from asyncfl.client.shuffle import Shuffle
from asyncfl.client.train import Train, Trained, Trainers
from asyncfl.client.upload_noise import AddAttackersNoise, AddNoise
from asyncfl.learning import Job
from asyncfl.learning.personal_layers import PersonalLayers
from asyncfl.privacy import Contribution
from asyncfl.privacy.ledger.releases import upload_release, usable_norm
from asyncfl.privacy.release import Upload
from asyncfl.secure_aggregation import MaskedSum


class TaskPath(PathComponents):
    """Path of the tasks of one run. The matrix of uploads is reused: it is valid until the next collection."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.instrument: Instrument = NO_INSTRUMENT
        """Instrument that receives each collection."""
        self._poison, self._clip = Poison(self), ClipPayloads(self)
        self._train = Train(self, self._poison)
        self.personal: PersonalLayers | None = self._train.personal
        """Personal layers of each client; None if all layers are shared."""
        self.carries: tuple[str, ...] = self._train.reads
        """Names of the entries of a client's state that its training reads and changes, such as personal layers."""
        self.every_task = self.scheme.needs_every_task or bool(self.carries)
        """Whether each task is trained when its training ends on the clock, even if its update is never used: the
        scheme learns from every task, or each task changes what its client carries."""
        self._alone: tuple[Stage, ...] = self._poison, self._train, Measure(self)
        of_update = tuple(one for one in self._train.payloads.uploads if one.of_update)
        self._together: list[Stage] = [
            self._clip,
            AddNoise(self),
            *([] if self.secure is None else [RoundUpdates(self, self.secure)]),
            CraftUploads(self, self._train.accuracies),
            AddAttackersNoise(self),
            *([PayloadsOfUpdates(self, of_update)] if of_update else []),
            *([] if self.compression is None or self.compression.off else [Compress(self, self.compression)]),
            *([] if self.scheme.mixing_node is None else [Shuffle(self)]),
            *([] if self.secure is None else [Mask(self, self.secure)]),
        ]
        self._ready: dict[int, Batch] = {}
        self._collections = 0
        self._rows = np.empty((0, self.learner.n_parameters), dtype=np.float32)

    def carry_out(
        self, assignments: Sequence[Assignment], version: int, current: Vector, masked: MaskedSum | None = None
    ) -> Batch:
        """Train the tasks of `assignments` and return the batch of their uploads. `version` with parameters `current`
        is the newest; `masked`: the clients that take part in secure aggregation, None without it. Raises: NoEpochError
        if an assignment with a deadline completed no epoch."""
        if len(self._rows) < len(assignments):
            self._rows = np.empty((len(assignments), self._rows.shape[1]), dtype=np.float32)
        rows = self._rows[: len(assignments)]
        if self.every_task:
            for one in assignments:
                if one.task not in self._ready:
                    self.train(one)
            batch = Batch.joined([self._ready.pop(one.task) for one in assignments], rows)
        else:
            batch = Batch(assignments, rows)
            for stage in self._alone:
                stage.run(batch)
        batch.version, batch.current, batch.masked = version, current, masked
        for stage in self._together:
            stage.run(batch)
        batch.record()
        self.instrument.collected(batch)
        random = self.streams.generator("clip_quantile", number=self._collections)
        self.state.record_collection(batch.contributions, batch.norms, random)
        self._collections += 1
        return batch

    def train(self, assignment: Assignment) -> None:
        """Train a task now and keep the result, which `carry_out` or `drop` takes. Used with `every_task`."""
        batch = Batch([assignment], np.empty((1, self._rows.shape[1]), dtype=np.float32))
        for stage in self._alone:
            stage.run(batch)
        self.instrument.trained(batch.assignments[0], batch.contributions[0], bool(batch.attacked[0]))
        self._ready[assignment.task] = batch

    def trained(self, assignment: Assignment, attacked: bool, carried: ClientState) -> Trained:
        """Train a task for a run that goes on elsewhere. `carried`: what `carried` returned there."""
        batch = Batch([assignment], np.empty((1, self._rows.shape[1]), dtype=np.float32))
        batch.attacked[:] = attacked
        self.states.put(assignment.client, carried)
        self._train.run(batch)
        changed = self.states.take(assignment.client).since(carried)
        payloads = {name: vectors[0] for name, vectors in batch.payloads.items()}
        return Trained(batch.rows[0], float(batch.losses[0]), changed, payloads)

    def train_elsewhere(self, trainers: Trainers | None) -> None:
        """Have tasks trained by `trainers`; None: here."""
        self._train.trainers = trainers

    def drop(self, task: int) -> Upload:
        """Discard the result of a trained task that is not collected, and return the record that its upload would have
        had."""
        made = self._ready.pop(task)
        # The update was never clipped, and the clipping norm of a collection depends on its updates: use the last one.
        norm = usable_norm(self.scheme, self.context, self._clip.last)
        version, loss, attacked = made.assignments[0].base_version, float(made.losses[0]), bool(made.attacked[0])
        return self._not_sent(task, version, made.contributions[0], norm, loss, attacked)

    def untrained(self, task: int, client: int, base_version: int, clip_norm: float | None) -> Upload:
        """Return the record of an upload that was trained elsewhere, with the noise that the scheme prescribes for it.
        Its loss is None."""
        one = Contribution(client, self.data.samples(client))
        return self._not_sent(task, base_version, one, clip_norm, None, False)

    def _not_sent(
        self, task: int, base: int, one: Contribution, clip_norm: float | None, loss: float | None, attacked: bool
    ) -> Upload:
        release = upload_release(self.scheme, self.context, clip_norm, one)
        return Upload(task, base, one, release, clip_norm, loss, attacked, 0.0)

    def job(self, assignment: Assignment) -> Job:
        """Return the training job of an honest client's task."""
        return self._poison.job(assignment)

    def clip_norm(self, norms: Floats) -> float | None:
        """See `ClipPayloads.clip_norm`."""
        return self._clip.clip_norm(norms)

    def carried(self, client: int) -> ClientState:
        """See `Train.carried`."""
        return self._train.carried(client)

    def scores(self, client: int, turn: int, models: Vector, state: ClientState | None = None) -> Floats:
        """See `Train.scores`."""
        return self._train.scores(client, turn, models, state)
