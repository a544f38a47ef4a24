"""One upload that an adversary holds, and the same upload under other noise.

An eavesdropper holds the uploads that the tap caught, the server all that it collected. Uploads of attacking clients
are left out, since they reveal nothing about honest data.

Under other noise, model, batches and random streams stay the same, and the noise is calibrated as by the scheme:

| scheme | release that epsilon is for (`Scheme.with_epsilon`) |
|---|---|
| `nbafl` | the uploads of a run that the eavesdropper is assumed to hold |
| `local_gaussian` | one upload, or the run (`budget`) |
| `mechanisms` | the run, divided among its uploads by the client's mechanism |
| `adaptive` | this upload |
| `dp_fedavg`, `dp_sgd` | this upload: the exact noise multiplier for it |
| `none` | this upload with the noise of `dp_fedavg`, clipped to its own norm |
| your own | its field `epsilon`, or its own method |
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np

from asyncfl.base.arrays import Vector
from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.instrument import Instrument
from asyncfl.client import TaskPath
from asyncfl.extras.audit.finished_run import FinishedRun, HeldUpload, UploadCollector
from asyncfl.learning import Training, make_learner
from asyncfl.privacy import FixedNorm, Scheme
from asyncfl.protocol.messages import Fate

Holder = Literal["eavesdropper", "server"]

COLLECTED = (Fate.AGGREGATED, Fate.FLAGGED)  # fates of tasks whose update the server has received and used


def choose_task(run: FinishedRun, seed: int, holder: Holder, client: int | None = None, task: int | None = None) -> int:
    """Return the number of the first task of an honest client whose update `holder` holds and the server collected.

    `client`, `task`: choose among the tasks of this client, or this task, only. Raises ScenarioError if the run lacks
    the client, RunError if the adversary holds no such upload.
    """
    scenario, folder = run.run.scenario, run.folder
    if client is not None and client >= scenario.data.clients:
        message = f"must be one of the run's clients (0..{scenario.data.clients - 1}), got {client}"
        raise ScenarioError([Fault("--client", message)])
    if holder == "server" and scenario.privacy.mixing_node is not None:
        raise RunError(
            f"{folder}: the server receives updates that the shuffler has mixed, none of which belongs to one client; "
            "attack what is overheard before (--adversary eavesdropper)"
        )
    tap = scenario.world.tap
    attackers = run.run.clients.query("seed == @seed and attacker")["client"].tolist()
    tasks = run.tasks(seed).select(task=task, clients=None if client is None else [client])
    used = tasks.only(tasks.with_fate(*COLLECTED) & ~np.isin(tasks.client, attackers))
    wanted = frozenset(used.task.tolist())
    held = wanted if holder == "server" else wanted & run.overheard(seed, scoring=True)
    if held:
        return int(min(held))
    of = f"task {task}" if task is not None else "any client" if client is None else f"client {client}"
    if not wanted:
        raise RunError(
            f"{folder}: seed {seed} has no upload of {of} that the server collected from an honest client; "
            f"`asyncfl trace events {folder} --kind aggregated` lists the collected ones"
        )
    raise RunError(
        f"{folder}: the eavesdropper caught no upload of {of} in seed {seed}; set world.tap.uplink: true, lower "
        f"world.tap.packet_loss ({tap.packet_loss:g}) and run again, or attack as the server (--adversary server)"
    )


def find_upload(run: FinishedRun, seed: int, task: int, instruments: Iterable[Instrument] = ()) -> HeldUpload:
    """Simulate the seed again, and return the upload of `task`. Raises RunError like `FinishedRun.resimulate`."""
    collector = UploadCollector(frozenset({task}))
    run.resimulate(seed, [*instruments, collector])
    if not collector.held:
        raise RunError(f"{run.folder}: task {task} of seed {seed} was not collected when it was simulated again")
    [held] = collector.held.values()
    return held


class NoisedUpload(NamedTuple):
    """Upload of a task under some noise."""

    epsilon: float | None  # epsilon of the noise; infinite: no noise; None: the upload as it was sent
    model: Vector
    std: float  # standard deviation of the noise on each parameter, including noise of the training


def upload_at_epsilon(held: HeldUpload, epsilon: float | None) -> NoisedUpload:
    """Return the upload under the noise of `epsilon`, with the run's clip norm.

    epsilon: > 0; infinite: no noise; None: as it was sent. Raises RunError for schemes without an epsilon.
    """
    path = held.federation.path
    if epsilon is None:
        return NoisedUpload(None, held.sent, _std(path.scheme, path.training, held.upload.added_std, held))
    if path.training.batches == "poisson" and path.scheme.accounts_for_training and math.isfinite(epsilon):
        raise RunError(
            f"epsilon {epsilon:g} has no noise with training.batches: poisson; audit the upload as it was sent"
        )
    length = float(np.linalg.norm(held.sent.astype(np.float64) - held.assignment.base))
    epochs = held.assignment.epochs or path.training.epochs_of(held.samples)
    try:
        scheme, change = path.scheme.with_epsilon(epsilon, epochs, length)
    except ValueError as error:
        raise RunError(str(error)) from None
    return repeat_upload(held, scheme, path.training.model_copy(update=change), epsilon, epsilon)


def repeat_upload(
    held: HeldUpload, scheme: Scheme, training: Training, epsilon: float | None, own_epsilon: float | None
) -> NoisedUpload:
    """Repeat the task under another scheme and training, and return its upload.

    With the run's own the result equals the real upload, unless the compression has a memory, which is empty here.
    `epsilon`: copied into the result. `own_epsilon`: epsilon of this upload, for schemes that give each its own.
    """
    learner, old = held.federation.learner, held.federation.path
    if (training, scheme.noise_each_epoch) != (old.training, old.scheme.noise_each_epoch):
        at_once = {"epochs": 1} if scheme.noise_each_epoch else {}
        learner = make_learner(learner.model, training.model_copy(update=at_once), learner.shape, learner.n_outputs)
    path = TaskPath(old.data, learner, training, scheme, old.context, old.streams, compression=old.compression)
    path.state = FixedNorm(held.upload.clip_norm, own_epsilon)
    made = path.carry_out([held.assignment], held.assignment.base_version, held.assignment.base)
    return NoisedUpload(epsilon, made.models[0].copy(), _std(scheme, training, made.uploads[0].added_std, held))


def _std(scheme: Scheme, training: Training, added: float, held: HeldUpload) -> float:
    """Compute the std of all noise on each parameter, as if noise of a step did not affect later steps.

    added: std of the noise that was added to the trained model.
    """
    if scheme.noise_each_epoch:
        return added * math.sqrt(held.assignment.epochs or training.epochs)
    if training.example_clip is not None and training.example_noise:
        step = training.lr * training.example_noise * training.example_clip / training.batch_of(held.samples)
        return step * math.sqrt(training.steps_of(held.samples, held.assignment.epochs))
    return added
