"""What a defence sees: the updates of one buffer, and what the server knows about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from asyncfl.messages import Vector


@dataclass(frozen=True)
class Buffer:
    """The updates that are judged together. All arrays are read-only; rows follow the order of arrival, or, where late
    updates are dropped and so all are of one cohort, that of their clients' numbers."""

    version: int
    """Version that the updates are applied to, >= 0."""
    current: Vector
    """(n_parameters,) the global model of that version."""
    models: Vector
    """(n_updates, n_parameters) float32, the models as they were uploaded."""
    bases: tuple[Vector, ...]
    """The distinct models that they were trained from, each (n_parameters,)."""
    base_of: NDArray[np.int64]
    """(n_updates,) index into `bases`."""
    base_versions: NDArray[np.int64]
    """(n_updates,) versions that they were trained from."""
    clients: NDArray[np.int64]
    """(n_updates,) who sent them; with asynchrony one client may have sent several."""
    samples: NDArray[np.int64]
    """(n_updates,) training samples of each sender."""
    upload_std: NDArray[np.float64]
    """(n_updates,) standard deviation of the noise that an honest sender has added to each parameter of this upload."""
    work: NDArray[np.float64] | None = None
    """(n_updates,) share of a task's epochs that each comes of, above 0 to 1; None: all are whole."""
    origin: Vector | None = None
    """(n_parameters,) what the server's reading takes the differences from that a rule is handed: the current model
    (`mix`), or nothing (`normalised`); None: what each client was sent (`delta`), as detectors always see them."""

    def __len__(self) -> int:
        return len(self.models)

    @property
    def staleness(self) -> NDArray[np.int64]:
        """(n_updates,) how many versions old each update is, >= 0."""
        return self.version - self.base_versions

    @cached_property
    def deltas(self) -> Vector:
        """(n_updates, n_parameters) float32: what is aggregated, the differences from `origin`, where there is none
        what each client changed in the model it was sent."""
        deltas = np.empty_like(self.models)
        for row, model in enumerate(self.models):
            np.subtract(model, self.base(row) if self.origin is None else self.origin, out=deltas[row])
        deltas.flags.writeable = False
        return deltas

    def base(self, row: int) -> Vector:
        """(n_parameters,) the model that the update in that row was trained from."""
        return self.bases[int(self.base_of[row])]

    def only(self, kept: NDArray[np.int64]) -> Buffer:
        """The same buffer with only the rows `kept`, in that order."""
        return Buffer(
            self.version,
            self.current,
            self.models[kept],
            self.bases,
            self.base_of[kept],
            self.base_versions[kept],
            self.clients[kept],
            self.samples[kept],
            self.upload_std[kept],
            None if self.work is None else self.work[kept],
            self.origin,
        )
