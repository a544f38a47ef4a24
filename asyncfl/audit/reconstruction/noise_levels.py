"""One upload under other noise: the same model, batches and random streams, noise calibrated as by the scheme.

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
from dataclasses import dataclass

import numpy as np

from asyncfl.audit.reconstruction.overheard_upload import OverheardUpload
from asyncfl.audit.recorded_state import RecordedState
from asyncfl.base.errors import RunError
from asyncfl.base.messages import Vector
from asyncfl.client import TaskPath
from asyncfl.learning import Training, make_learner
from asyncfl.privacy import Scheme


@dataclass(frozen=True)
class NoisedUpload:
    """Upload of a task under some noise."""

    epsilon: float | None
    """Epsilon of the noise; infinite: no noise; None: the upload as it was sent."""
    model: Vector
    """(n_parameters,) the upload."""
    std: float
    """Standard deviation of the noise on each parameter, including noise of the training."""


def upload_at_epsilon(held: OverheardUpload, epsilon: float | None) -> NoisedUpload:
    """Return the upload under the noise of `epsilon`, with the run's clip norm.

    epsilon: > 0; infinite: no noise; None: as it was sent.

    Raises RunError for schemes without an epsilon.
    """
    path = held.federation.path
    if epsilon is None:
        std = _std(path.scheme, path.training, held.upload.added_std, held)
        return NoisedUpload(None, held.sent, std)
    return repeat_upload(held, *_calibrated(held, epsilon), epsilon, epsilon)


def _calibrated(held: OverheardUpload, epsilon: float) -> tuple[Scheme, Training]:
    """Return scheme and training with the noise of `epsilon`."""
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
    """Repeat the task under another scheme and training, and return its upload.

    With the run's scheme and training the result equals the real upload, unless the compression has a memory, which
    is empty here.

    Args:
        held: The upload to repeat.
        scheme: Scheme to use.
        training: Training to use.
        epsilon: Epsilon of the noise, which is only copied into the result.
        budget: Budget of this upload, for schemes with a budget of each upload.
    """
    federation = held.federation
    old = federation.path
    learner = federation.learner
    if (training, scheme.noise_each_epoch) != (old.training, old.scheme.noise_each_epoch):
        at_once = {"epochs": 1} if scheme.noise_each_epoch else {}
        learner = make_learner(learner.model, training.model_copy(update=at_once), learner.shape, learner.n_outputs)
    path = TaskPath(old.data, learner, training, scheme, old.context, old.streams, compression=old.compression)
    path.state = RecordedState(held.upload.clip_norm, budget)
    made = path.carry_out([held.assignment], held.assignment.base_version, held.assignment.base)
    [upload] = made.uploads
    return NoisedUpload(epsilon, made.models[0].copy(), _std(scheme, training, upload.added_std, held))


def _std(scheme: Scheme, training: Training, added: float, held: OverheardUpload) -> float:
    """Compute the std of all noise on each parameter of an upload, as if noise of a step did not affect later steps.

    added: std of the noise that was added to the trained model.
    """
    if scheme.noise_each_epoch:
        return added * math.sqrt(held.assignment.epochs or training.epochs)
    if training.example_clip is not None and training.example_noise:
        step = training.lr * training.example_noise * training.example_clip / training.batch_of(held.samples)
        return step * math.sqrt(training.steps(held.samples, held.assignment.epochs))
    return added
