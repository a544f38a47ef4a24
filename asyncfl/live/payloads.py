"""Updates that have arrived and wait to be collected, and what is recorded of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import MessageError
from asyncfl.base.messages import Collect, Collected, Vector
from asyncfl.client import work_of
from asyncfl.federation.phases import epochs_done
from asyncfl.federation.tasks_in_flight import TaskInFlight
from asyncfl.live.vocabulary import Update
from asyncfl.privacy import Contribution
from asyncfl.privacy.ledger.releases import upload_release, usable_norm
from asyncfl.privacy.upload_records import Upload
from asyncfl.trace import Kind
from asyncfl.trace.events import epochs_detail

if TYPE_CHECKING:
    from asyncfl.live.host import Host


@dataclass(frozen=True)
class Payload:
    """An update that has arrived."""

    update: Update
    model: Vector
    """(length,)"""
    task: TaskInFlight


class WaitingPayloads:
    """The updates of one run that wait."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._payloads: dict[int, Payload] = {}
        # A live federation's scheme has one norm for all, whoever trains (`live_faults`).
        self.clip_norm = host.federation.path.clip_norm(np.ones(1))
        """Norm that every update is clipped to; None: there is no clipping."""
        resolved = host.federation.resolved
        scenario = resolved.scenario
        stops = host.terms.shape and scenario.training.deadline_s is not None
        samples = host.server.samples
        self._world = scenario.world.start(len(samples), resolved.streams, samples) if stops else None
        """The world whose draws say when clients stop; None: nobody is stopped."""

    def check(self, said: Update, task: TaskInFlight) -> None:
        """Raises MessageError for an update that has another budget than the scheme's. The same for one of other
        epochs than its client does by the deadline (all, without one), where the world says how many: it would count
        for more, or for less than it gives away. That a client really trained for so many cannot be seen."""
        budget = self._host.federation.path.state.epsilon(task.client, task.turn)
        if said.epsilon != budget:
            raise MessageError(f"task {said.task} has a budget of {budget}, got {said.epsilon}")
        self._check_epochs(said, task)

    def _check_epochs(self, said: Update, task: TaskInFlight) -> None:
        training = self._host.federation.path.training
        wanted = "" if said.epochs is None else epochs_detail(said.epochs, training.epochs)
        for one in said.report:
            if one.kind == Kind.TRAINED and one.detail != wanted:
                raise MessageError(f"task {said.task} comes of {said.epochs or 'all'} epochs, and tells {one.detail!r}")
        if self._world is None and training.deadline_s is not None:
            # By its own clock: it may have done any number.
            if said.epochs is not None and said.epochs >= training.epochs:
                whole = f"a task has {training.epochs}, and who does all does not count them"
                raise MessageError(f"task {said.task} comes of {said.epochs} epochs, {whole}")
            return
        own = self._stopped(task)
        if said.epochs == own:
            return
        told = f"all {training.epochs}" if said.epochs is None else said.epochs
        does = "nobody is stopped"
        if training.deadline_s is not None:
            done = "all" if own is None else own
            does = f"client {task.client} does {done} of {training.epochs} in {training.deadline_s:g} s"
        raise MessageError(f"task {said.task} comes of {told} epochs, and {does}")

    def _stopped(self, task: TaskInFlight) -> int | None:
        """Epochs after which the client of a task stops, by the draws of the world it waits in; None: it does all."""
        if self._world is None:
            return None
        attackers = self._host.attackers
        speed = 1.0 if attackers is None else attackers.speed(task.number, task.client)
        done = epochs_done(self._world.task(task.client, task.turn), self._host.load, speed)
        return None if done == self._host.federation.path.training.epochs else done

    def size_of(self, sent: Vector) -> int:
        """Bytes of an update that has arrived, as it was sent."""
        usual = len(sent) == self._host.federation.learner.n_parameters
        return self._host.load.upload_bytes if usual else sent.nbytes

    def read(self, sent: Vector, task: TaskInFlight) -> Vector:
        """The model (length,) of a task in flight; what has arrived is its difference where updates are compressed."""
        compression = self._host.federation.resolved.scenario.compression
        if compression.off or len(sent) != self._host.federation.learner.n_parameters:
            return sent
        with np.errstate(over="ignore", invalid="ignore"):
            return self._host.server.tasks.model(task.base_version) + sent

    def keep(self, payload: Payload) -> None:
        """Keep an update that has arrived."""
        self._payloads[payload.task.number] = payload

    def forget(self, task: int) -> None:
        """Nobody will ask for the update of that task any more."""
        self._payloads.pop(task, None)

    def lost(self, task: TaskInFlight) -> None:
        """A task is over for the server. Where its client has trained it in vain, and its later updates tell of that
        (by its own layers, or by what compression left over), that is put on record."""
        record, path = self._host.federation.releases, self._host.federation.path
        if not task.trained or record.knows(task.number):
            return
        if path.every_task or self._host.federation.resolved.scenario.compression.remembers:
            norm = usable_norm(path.scheme, path.context, self.clip_norm)
            record.dropped(self._record(task, path.state.epsilon(task.client, task.turn), task.epochs, norm))

    def collect(self, action: Collect) -> Collected:
        """The updates of a buffer."""
        tasks = self._host.tasks.collect(action.tasks)
        found = [self._payloads[number] for number in action.tasks]
        width = self._host.federation.learner.n_parameters
        models = np.zeros((len(found), width), dtype=np.float32)
        sound = np.array([len(one.model) == width for one in found])
        for row, one in zip(models, found, strict=True):
            if len(one.model) == width:
                row[:] = one.model
        models.flags.writeable = False
        norms = [self._norm(one) for one in found]
        uploads = tuple(self._upload(one, norm) for one, norm in zip(found, norms, strict=True))
        self._host.federation.releases.collected(uploads)
        for task in tasks:
            self._host.members.by_number[task.client].last = (task.number, task.base_version, task.turn)
        return Collected(
            self._host.clock.now,
            action.tasks,
            models,
            self._losses(found),
            sound=sound,
            clip_norm=next((norm for norm in norms if norm is not None), None),
            upload_std=np.array([self._asked_std(one) for one in uploads], dtype=np.float64),
            work=work_of([task.epochs for task in tasks], self._host.federation.path.training.epochs),
        )

    def _losses(self, found: list[Payload]) -> NDArray[np.float64] | None:
        """(n,) losses that the clients sent; None where the scenario asks for none."""
        if not self._host.federation.resolved.scenario.reports_losses:
            return None
        return np.array([np.nan if one.update.loss is None else one.update.loss for one in found], dtype=np.float64)

    def _norm(self, one: Payload) -> float | None:
        """Norm that an update was clipped to; None without clipping, or if the update is not finite."""
        return self.clip_norm if np.isfinite(one.model).all() else None

    def _asked_std(self, upload: Upload) -> float:
        """Standard deviation of the noise that the scheme asks for, all draws of a task together."""
        path = self._host.federation.path
        return path.scheme.upload_noise(path.context, upload.clip_norm, upload.contribution).upload_std

    def _upload(self, one: Payload, norm: float | None) -> Upload:
        said, attackers = one.update, self._host.attackers
        made = self._record(one.task, said.epsilon, said.epochs, norm)
        if made.attacked and attackers is not None and not attackers.threats.attackers_add_noise:
            made = replace(made, release=replace(made.release, std=0.0))
        return replace(made, loss=said.loss, added_std=said.added_std)

    def _record(self, task: TaskInFlight, epsilon: float | None, epochs: int | None, norm: float | None) -> Upload:
        """The update of a task as the scheme describes it, clipped to `norm`, without what its client tells of it."""
        path, attackers = self._host.federation.path, self._host.attackers
        samples = int(self._host.server.samples[task.client])
        contribution = Contribution(task.client, samples, task.turn, epsilon, epochs=epochs)
        release = upload_release(path.scheme, path.context, norm, contribution)
        attacked = attackers is not None and attackers.attacks(task.number, task.client, task.base_version, task.turn)
        return Upload(task.number, task.base_version, contribution, release, norm, None, attacked, 0.0)
