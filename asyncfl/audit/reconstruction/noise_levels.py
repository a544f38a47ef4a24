"""The same upload with other noise: from the same model, batches and streams, by the scheme's own calibration.

| scheme | what an epsilon is of (`Scheme.with_epsilon`) |
|---|---|
| `nbafl` | the uploads of a run that the eavesdropper is assumed to hold |
| `local_gaussian` | one upload, or the run (`budget`) |
| `mechanisms` | what the client's mechanism shares out over the run |
| `adaptive` | this upload |
| `dp_fedavg`, `dp_sgd` | this upload: the exact noise multiplier for it |
| `none` | this upload as `dp_fedavg` would hide its client, clipped to the length that it has |
| of one's own | its field `epsilon`, or what its own method says |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asyncfl.audit.reconstruction.overheard_upload import OverheardUpload
from asyncfl.audit.recorded_state import RecordedState
from asyncfl.client import TaskPath
from asyncfl.compression import compressor_of
from asyncfl.errors import RunError
from asyncfl.learning import Training, make_learner
from asyncfl.messages import Vector
from asyncfl.privacy import Scheme


@dataclass(frozen=True)
class NoisedUpload:
    """What one task uploads under some noise."""

    epsilon: float | None
    """Of the noise; infinite: none; None: as it was sent."""
    model: Vector
    """(n_parameters,) as uploaded."""
    std: float
    """Deviation of the noise on each parameter, that of its training included."""


def upload_at_epsilon(held: OverheardUpload, epsilon: float | None) -> NoisedUpload:
    """The upload under the noise of `epsilon` (above 0; infinite: none; None: as it was sent).

    Its clip norm stays that of the run. Raises RunError for schemes that know no epsilon.
    """
    path = held.federation.path
    if epsilon is None:
        std = _std(path.scheme, path.training, held.upload.added_std, held)
        return NoisedUpload(None, held.sent, std)
    return repeat_upload(held, *_calibrated(held, epsilon), epsilon, epsilon)


def _calibrated(held: OverheardUpload, epsilon: float) -> tuple[Scheme, Training]:
    """Scheme and training whose noise is that of `epsilon`."""
    path = held.federation.path
    length = float(np.linalg.norm(held.sent.astype(np.float64) - held.assignment.base))
    try:
        scheme, change = path.scheme.with_epsilon(epsilon, held.assignment.epochs or path.training.epochs, length)
    except ValueError as error:
        raise RunError(str(error)) from None
    return scheme, path.training.model_copy(update=change)


def repeat_upload(
    held: OverheardUpload, scheme: Scheme, training: Training, epsilon: float | None, budget: float | None
) -> NoisedUpload:
    """The upload of the task under that scheme; `budget`: of this upload, where budgets differ.

    With the scheme and training of the run it is what was sent, except that compression with memory has none here.
    """
    federation = held.federation
    old = federation.path
    learner = federation.learner
    if (training, scheme.noise_each_epoch) != (old.training, old.scheme.noise_each_epoch):
        at_once = {"epochs": 1} if scheme.noise_each_epoch else {}
        learner = make_learner(learner.model, training.model_copy(update=at_once), learner.shape, learner.n_outputs)
    compressor = compressor_of(federation.resolved.scenario.compression, old.streams)
    path = TaskPath(old.data, learner, training, scheme, old.context, old.streams, compressor=compressor)
    path.state = RecordedState(held.upload.clip_norm, budget)
    made = path.carry_out([held.assignment], held.assignment.base_version, held.assignment.base)
    [upload] = made.uploads
    return NoisedUpload(epsilon, made.models[0].copy(), _std(scheme, training, upload.added_std, held))


def _std(scheme: Scheme, training: Training, added: float, held: OverheardUpload) -> float:
    """Deviation of all noise on an upload, as if no step had seen that of the steps before."""
    if scheme.noise_each_epoch:
        return added * math.sqrt(held.assignment.epochs or training.epochs)
    if training.example_clip is not None and training.example_noise:
        step = training.lr * training.example_noise * training.example_clip / training.batch_of(held.samples)
        return step * math.sqrt(training.steps(held.samples, held.assignment.epochs))
    return added
