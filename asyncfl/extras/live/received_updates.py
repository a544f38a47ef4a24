"""Updates that have arrived and wait to be collected, and the record of each upload."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from asyncfl.algorithms.algorithm import check_vectors
from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.errors import MessageError
from asyncfl.client import work_of
from asyncfl.client.norm_bound import DEVIATIONS, too_long
from asyncfl.extras.live.client_messages import Update
from asyncfl.extras.live.clock import LiveTiming
from asyncfl.privacy import Contribution
from asyncfl.privacy.ledger.releases import upload_release, usable_norm
from asyncfl.privacy.release import Upload
from asyncfl.protocol import Server
from asyncfl.protocol.events import Kind, epochs_detail
from asyncfl.protocol.messages import Collected
from asyncfl.protocol.selection import LARGEST_LOSS
from asyncfl.protocol.task_record import TaskRecord
from asyncfl.simulation.phases import Workload, epochs_done
from asyncfl.simulation.prepare import Federation

log = logging.getLogger("asyncfl.extras.live")

CLASSIFIER_LOSS = 149 * math.log(2)
"""Loss of a classifier for which a larger one counts, 103: it gives the true class the smallest probability of float32,
2^-149. No client makes itself more interesting to a selection that prefers high losses."""


class ReceivedUpdates:
    """Updates of one run that wait to be collected."""

    def __init__(self, federation: Federation, server: Server, load: Workload, timing: LiveTiming) -> None:
        self._virtual = timing.virtual
        self._federation, self._server, self._load = federation, server, load
        checks = federation.resolved.scenario.protocol.check_norms
        self._checks_norms = not timing.virtual if checks is None else checks
        self._waiting: dict[int, tuple[Update, Vector]] = {}
        self._path, self._attackers = federation.path, federation.attackers
        self._scenario = scenario = federation.resolved.scenario
        self._payloads = scenario.payloads.uploads
        # The scheme of a live federation has one norm for all updates (`live_faults`).
        self._clip_norm = federation.path.clip_norm(np.ones(1))
        # The world whose draws decide when clients stop; None: no client is stopped by the world.
        self._world = None
        if timing.shape and scenario.training.deadline_s is not None:
            self._world = scenario.world.start(len(server.samples), federation.resolved.streams, server.samples)

    def check(self, update: Update, task: TaskRecord) -> None:
        """Raise MessageError for an update of another budget or more noise than the scheme's, of an impossible loss or
        impossible epochs, or with other vectors than the algorithm declares.

        Where the world decides when a client stops, `epochs` must be that number: another would weigh more, or hide
        what the update gives away. That a client has really trained so many epochs cannot be seen.
        """
        check_vectors(update.payloads, self._payloads)
        budget, training = self._path.state.epsilon(task.client, task.turn), self._path.training
        if update.epsilon != budget:
            raise MessageError(f"task {update.task} has a budget of {budget}, got {update.epsilon}")
        if update.loss is not None and LARGEST_LOSS < abs(update.loss) < math.inf:
            raise MessageError(f"a loss must be at most {LARGEST_LOSS:.2g} or not finite, got {update.loss:g}")
        noise = self._path.scheme.upload_noise(
            self._path.context, self._clip_norm, self._contribution(task, budget, update.epochs)
        )
        asked = noise.upload_std
        if not 0 <= update.added_std <= asked * (1 + 1e-6):
            raise MessageError(
                f"task {update.task} asks for noise of {asked:g}, got an update with {update.added_std:g}"
            )
        claimed: object = "all" if update.epochs is None else update.epochs
        detail = "" if update.epochs is None else epochs_detail(update.epochs, training.epochs)
        for one in update.report:
            if one.kind == Kind.TRAINED and one.detail != detail:
                raise MessageError(f"task {update.task} comes of {claimed} epochs, and tells {one.detail!r}")
        if self._world is None and training.deadline_s is not None:
            # By its own clock a client may have done any number.
            if update.epochs is not None and update.epochs >= training.epochs:
                whole = f"a task has {training.epochs}, and who does all does not count them"
                raise MessageError(f"task {update.task} comes of {update.epochs} epochs, {whole}")
            return
        drawn, does = None, "nobody is stopped"
        if self._world is not None:
            speed = 1.0 if self._attackers is None else self._attackers.speed(task.number, task.client)
            done = epochs_done(self._world.task(task.client, task.turn), self._load, speed)
            drawn = None if done == training.epochs else done
            told = "all" if drawn is None else drawn
            does = f"client {task.client} does {told} of {training.epochs} in {training.deadline_s:g} s"
        if update.epochs != drawn:
            claimed = f"all {training.epochs}" if update.epochs is None else update.epochs
            raise MessageError(f"task {update.task} comes of {claimed} epochs, and {does}")

    def check_scores(self, client: int, scores: Floats) -> None:
        """Raise MessageError for scores that are no accuracies with the scheme's noise, within `DEVIATIONS`."""
        noise, samples = self._scenario.privacy.scores, int(self._server.samples[client])
        std = 0.0 if noise is None else noise.std_of(len(scores), samples, self._path.personal is not None)
        if not ((scores >= -DEVIATIONS * std - 1e-6) & (scores <= 1 + DEVIATIONS * std + 1e-6)).all():
            around = f" with noise of {std:g}" if std else ""
            raise MessageError(f"scores must be accuracies, 0..1{around}, got {scores.min():g}..{scores.max():g}")

    def size_of(self, sent: Vector) -> int:
        """Return the bytes of an update as it was sent."""
        return self._load.upload_bytes if len(sent) == self._federation.learner.n_parameters else sent.nbytes

    def keep(self, update: Update, sent: Vector, task: TaskRecord) -> None:
        """Keep an update; `sent`: (length,) the model, or its difference where updates are compressed."""
        if not self._scenario.compression.off and len(sent) == self._federation.learner.n_parameters:
            with np.errstate(over="ignore", invalid="ignore"):
                sent = self._server.tasks.model(task.base_version) + sent
        self._waiting[task.number] = update, sent

    def forget(self, task: TaskRecord) -> None:
        """Discard the update of a settled task."""
        self._waiting.pop(task.number, None)
        self.record_dropped(task)

    def record_dropped(self, task: TaskRecord) -> None:
        """Put a settled task on record that was trained, if later updates of its client depend on that training.

        They do through personal layers, a kept state of the optimiser, and what compression left over.
        """
        record, path = self._federation.releases, self._path
        if not task.trained or record.knows(task.number):
            return
        if path.every_task or self._scenario.compression.remembers:
            norm = usable_norm(path.scheme, path.context, self._clip_norm)
            record.dropped(self._record(task, path.state.epsilon(task.client, task.turn), task.epochs, norm))

    def collect(self, tasks: Sequence[TaskRecord], now_s: float) -> Collected:
        """Return the updates of a buffer, and put them on record."""
        found, path = [self._waiting[task.number] for task in tasks], self._path
        models = np.zeros((len(found), self._federation.learner.n_parameters), dtype=np.float32)
        sound = np.array([len(sent) == models.shape[1] for _, sent in found])
        for row in np.flatnonzero(sound):
            models[row] = found[row][1]
        models.flags.writeable = False
        if self._checks_norms:
            sound &= ~self._too_long(tasks, models, [update for update, _ in found], sound)
        norms = [self._clip_norm if np.isfinite(sent).all() else None for _, sent in found]
        uploads = tuple(
            self._upload(task, update, norm) for task, (update, _), norm in zip(tasks, found, norms, strict=True)
        )
        self._federation.releases.collected(uploads)
        losses = np.array([np.nan if update.loss is None else update.loss for update, _ in found], dtype=np.float64)
        if self._scenario.data.classes and not self._virtual:
            losses = np.minimum(losses, CLASSIFIER_LOSS)
        stds = [path.scheme.upload_noise(path.context, one.clip_norm, one.contribution).upload_std for one in uploads]
        return Collected(
            tuple(task.number for task in tasks),
            models,
            losses if self._scenario.reports_losses else None,
            sound=sound,
            clip_norm=next((norm for norm in norms if norm is not None), None),
            upload_std=np.array(stds, dtype=np.float64),
            work=work_of([task.epochs for task in tasks], path.training.epochs),
            payloads={one.name: np.stack([update.payloads[one.name] for update, _ in found]) for one in self._payloads},
            time_s=now_s,
        )

    def _too_long(self, tasks: Sequence[TaskRecord], models: Vector, updates: Sequence[Update], sound: Bools) -> Bools:
        """Return (n,) whether each model (n, n_parameters) is longer than its scheme allows; named in the log."""
        bases = [self._server.tasks.model(task.base_version) for task in tasks]
        contributions = [
            self._contribution(task, update.epsilon, update.epochs) for task, update in zip(tasks, updates, strict=True)
        ]
        long = too_long(self._path, models, bases, self._clip_norm, contributions)
        for row in np.flatnonzero(long & sound).tolist():
            log.warning("task %d: its update is longer than clipping and six deviations of noise", tasks[row].number)
        return long

    def _upload(self, task: TaskRecord, update: Update, norm: float | None) -> Upload:
        made = self._record(task, update.epsilon, update.epochs, norm)
        if made.attacked and self._attackers is not None and not self._attackers.threats.attackers_add_noise:
            made = replace(made, release=replace(made.release, std=0.0))
        return replace(made, loss=update.loss, added_std=update.added_std)

    def _record(self, task: TaskRecord, epsilon: float | None, epochs: int | None, norm: float | None) -> Upload:
        """Return the record of a task's upload, clipped to `norm`, without loss and added noise."""
        path, attackers = self._path, self._attackers
        contribution = self._contribution(task, epsilon, epochs)
        release = upload_release(path.scheme, path.context, norm, contribution)
        attacked = attackers is not None and attackers.attacks(task.number, task.client, task.base_version, task.turn)
        return Upload(task.number, task.base_version, contribution, release, norm, None, attacked, 0.0)

    def _contribution(self, task: TaskRecord, epsilon: float | None, epochs: int | None) -> Contribution:
        samples = int(self._server.samples[task.client])
        return Contribution(task.client, samples, task.turn, epsilon, epochs=epochs)
