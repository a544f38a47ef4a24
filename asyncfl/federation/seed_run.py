"""What one seed left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.federation.release_tables import ModelRecords, UploadRecords
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.round_rows import Row
from asyncfl.federation.traffic import Traffic
from asyncfl.messages import Vector
from asyncfl.privacy import PrivacyContext
from asyncfl.server.recording import Recording
from asyncfl.world.power import Power


@dataclass
class SeedRun:
    """Everything that one seed left behind."""

    seed: int
    stopped: str
    rounds: Sequence[Row]
    events: pa.Table
    fates: dict[str, int]
    traffic: Traffic
    trained: int
    used: int
    sizes: NDArray[np.int64]
    uploads: UploadRecords = field(default_factory=partial(UploadRecords.of, ()))
    """One per trained task, in the order in which they were collected, or dropped."""
    models: ModelRecords = field(default_factory=partial(ModelRecords.of, (), UploadRecords.of(())))
    """Version -> what was published, where updates entered it."""
    by_client: dict[int, tuple[float, NDArray[np.float64]]] = field(default_factory=dict)
    """Version -> when it was published, and (clients, 2) its loss and accuracy on each client's own data."""
    attackers: list[int] = field(default_factory=list)
    """Clients that attack; with attackers drawn per round: those that were drawn at least once."""
    kept: dict[int, Vector] = field(default_factory=dict)
    """Version -> its model, of those that `evaluation.keep` asks for."""
    kept_personal: dict[int, Vector] = field(default_factory=dict)
    """Version -> (clients, n_personal) what of a kept model is each client's own; empty: nothing is."""
    drawn: list[int] | None = None
    """Tasks of attackers, where they are drawn per round; None: all tasks of `attackers`."""
    spent: dict[int, float] | None = None
    """Client -> virtual time at which its budget was spent; None: there were no budgets to stop at."""
    power: Power | None = None
    """What the clients' devices draw; None: energy is not counted."""
    domains: tuple[str, ...] = ()
    """(clients,) domain of each client's data; empty where there is only one."""
    resolved: ResolvedSeed | None = None
    """The scenario with all that was measured before; None of a timeline without training."""
    context: PrivacyContext | None = None
    learner: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seed_known: bool = False
    """Whether clients that are real drew their noise from the scenario's seed, which the server knows."""
    noted: dict[str, int] = field(default_factory=dict)
    """What the server's rule found unusual -> in how many versions."""
    recording: Recording | None = None
    """What the server heard and answered, where the scenario asks for it."""
    gemm: str = "default"
    """Library of the matrix products, see `learning.gemm`."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by part; the only numbers here that are not the same each time."""

    @property
    def diverged(self) -> bool:
        """Whether the run ended because something was no longer finite."""
        return self.stopped.startswith("diverged")
