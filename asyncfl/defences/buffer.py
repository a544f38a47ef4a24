"""The input of a defence: the updates of one buffer, and what the server knows about the federation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from asyncfl.base.arrays import Floats, Ints, Vector


@dataclass(frozen=True)
class Buffer:
    """The updates that are judged and aggregated together. All arrays are read-only.

    Rows follow the order of arrival; where late updates are dropped, so that all are of one cohort, they follow the
    numbers of the clients.
    """

    version: int
    """Model version that the updates are applied to, >= 0."""
    current: Vector
    """(n_parameters,) the global model of that version."""
    models: Vector
    """(n_updates, n_parameters) float32, the models as uploaded."""
    bases: tuple[Vector, ...]
    """The distinct global models that the updates were trained from, each (n_parameters,)."""
    base_of: Ints
    """(n_updates,) index into `bases`."""
    base_versions: Ints
    """(n_updates,) model version that each update was trained from."""
    clients: Ints
    """(n_updates,) sender of each update. In asynchronous runs a client may have sent several."""
    samples: Ints
    """(n_updates,) number of training samples of each sender."""
    upload_std: Floats
    """(n_updates,) standard deviation of the noise that an honest sender added to each parameter of this upload."""
    work: Floats | None = None
    """(n_updates,) share of a task's epochs that each update was trained for, in (0, 1]; None: all are complete."""
    origin: Vector | None = None
    """(n_parameters,) the model that rules take differences from: the current model (application `mix`) or 0
    (`normalised`). None: the model that each client was sent (`delta`), which detectors always use."""

    def __len__(self) -> int:
        return len(self.models)

    @property
    def staleness(self) -> Ints:
        """(n_updates,) number of versions between training and application of each update, >= 0."""
        return self.version - self.base_versions

    @cached_property
    def deltas(self) -> Vector:
        """(n_updates, n_parameters) float32: differences of the uploaded models from `origin`."""
        deltas = np.empty_like(self.models)
        for row, model in enumerate(self.models):
            np.subtract(model, self.base(row) if self.origin is None else self.origin, out=deltas[row])
        deltas.flags.writeable = False
        return deltas

    def base(self, row: int) -> Vector:
        """Return the model (n_parameters,) that the update in `row` was trained from."""
        return self.bases[int(self.base_of[row])]

    def only(self, kept: Ints) -> Buffer:
        """Return the buffer with only the rows with indices `kept` (k,), in that order."""
        if np.array_equal(kept, np.arange(len(self))):
            return self
        names = ("models", "base_of", "base_versions", "clients", "samples", "upload_std")
        work = None if self.work is None else self.work[kept]
        return replace(self, work=work, **{name: getattr(self, name)[kept] for name in names})


Factors: TypeAlias = Callable[[Ints, Ints, Floats | None], Floats]
"""(samples, staleness, work) -> factors of these updates if exactly they are aggregated; work None: all complete."""


@dataclass(frozen=True)
class DefenceContext:
    """Facts about the federation that a defence knows before the run starts.

    Privacy schemes get a view of their own (`asyncfl.privacy.PrivacyContext`): clients run them, and may not see the
    root set.
    """

    clients: int
    """Number of clients."""
    samples: Ints
    """(clients,) number of training samples of each client."""
    n_parameters: int
    lr: float
    """Learning rate of the clients."""
    gradient_clip: float | None
    """L2 norm to which clients clip each step's gradient; None: no clipping."""
    steps: Ints
    """(clients,) local SGD steps per task."""
    root_gradient: Callable[[Vector], Vector] | None = None
    """Model -> gradient (n_parameters,) of the loss on the server's root set; None: no root set."""
    root_gradients: Callable[[Vector], Vector] | None = None
    """Model -> gradient of each class of the root set, (classes, n_parameters); None: no root set, or a regression."""
    root_predictions: Callable[[Vector], Floats] | None = None
    """Model -> its probabilities of the classes of each root sample, (samples, classes); None: as for
    `root_gradients`."""
    root_labels: Ints | None = None
    """(samples,) classes of the root set; None: as for `root_gradients`."""
    bounded_steps: bool = True
    """Whether no step is longer than `lr` times the largest gradient, as those of SGD from a fresh state are,
    without an algorithm's correction."""
    compressed: bool = False
    """Whether updates are compressed. Their lengths and noise then differ from those of the clients' own updates."""
    noise_between_epochs: bool = False
    """Whether noise is also drawn before the last step of a task, so that later steps may depend on it."""
    linear: bool = True
    """Whether each update is added to the model with its factor (`delta`, weighted sum) and can be subtracted later."""
    weigh: Factors | None = None
    """The server's factors, its learning rate included; None: share of the samples times (1 + staleness)^-1/2."""

    def factors(self, samples: Ints, staleness: Ints, work: Floats | None = None) -> Floats:
        """Return the factor (n,) of each of n updates if exactly these are aggregated. `work`: see `Buffer.work`."""
        if self.weigh is not None:
            return self.weigh(samples, staleness, work)
        return np.asarray(samples / samples.sum() * (1.0 + staleness) ** -0.5)

    def factors_of(self, buffer: Buffer, rows: Ints) -> Floats:
        """Return the factors (k,) of the rows (k,) of `buffer` if exactly these are aggregated."""
        if not len(rows):
            return np.zeros(0)
        work = None if buffer.work is None else buffer.work[rows]
        return self.factors(buffer.samples[rows], buffer.staleness[rows], work)

    def trusted_gradient(self, model: Vector) -> Vector:
        """Return the gradient (n_parameters,) on the root set at `model`, clipped like clients' gradients. Raises
        ValueError without a root set."""
        if self.root_gradient is None:
            raise ValueError("the server's own samples are needed, but it has none; set defence.root_samples to 100")
        gradient = np.asarray(self.root_gradient(model), dtype=np.float32)
        norm = float(np.sqrt(np.dot(gradient, gradient)))
        if self.gradient_clip is not None and norm > self.gradient_clip:
            gradient = gradient * np.float32(self.gradient_clip / norm)
        return gradient

    def trusted_predictions(self, model: Vector) -> tuple[Floats, Ints]:
        """Return the probabilities (samples, classes) that `model` (n_parameters,) predicts for the root set, and its
        classes (samples,). Raises ValueError without a root set, and in a regression."""
        if self.root_predictions is None or self.root_labels is None:
            raise ValueError("predictions of classes on the server's own samples are needed, but there are none")
        return self.root_predictions(model), self.root_labels

    def trusted_update(self, model: Vector, steps: int | None = None) -> Vector:
        """Return the change of `model` (n_parameters,) by `steps` steps of gradient descent on the whole root set.
        `steps` None: the median of the clients' steps, so that the update is about as long as theirs."""
        trained = model
        for _ in range(max(1, int(np.median(self.steps))) if steps is None else steps):
            trained = trained - np.float32(self.lr) * self.trusted_gradient(trained)
        return np.asarray(trained - model)
