"""The input of a defence: the updates of one buffer and what the server knows about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from asyncfl.base.messages import Floats, Ints, Vector


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
        names = ("models", "base_of", "base_versions", "clients", "samples", "upload_std")
        work = None if self.work is None else self.work[kept]
        return replace(self, work=work, **{name: getattr(self, name)[kept] for name in names})
