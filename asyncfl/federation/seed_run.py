"""Results of one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.messages import Vector
from asyncfl.federation.release_store import ModelRecords, UploadRecords
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.federation.round_rows import Row
from asyncfl.federation.traffic import Traffic
from asyncfl.privacy import PrivacyContext
from asyncfl.server.recording import Recording
from asyncfl.world.world import Power


@dataclass
class SeedRun:
    """Results of one seed."""

    seed: int
    stopped: str
    """Reason why the run ended."""
    rounds: Sequence[Row]
    """Rows of the table of rounds, one per version."""
    events: pa.Table
    """The trace, see `asyncfl.trace.Event`."""
    fates: dict[str, int]
    """Fate -> number of tasks."""
    traffic: Traffic
    trained: int
    """Number of trained tasks."""
    used: int
    """Number of tasks whose update had a weight above 0 in a model."""
    sizes: NDArray[np.int64]
    """(clients,) training samples of each client."""
    uploads: UploadRecords = field(default_factory=partial(UploadRecords.of, ()))
    """One per trained task, in the order in which they were collected or dropped."""
    models: ModelRecords = field(default_factory=partial(ModelRecords.of, (), UploadRecords.of(())))
    """Version -> published model, for versions made of updates."""
    by_client: dict[int, tuple[float, NDArray[np.float64]]] = field(default_factory=dict)
    """Version -> time of publication, and (clients, 2) loss and accuracy on each client's own data."""
    attackers: list[int] = field(default_factory=list)
    """Attackers; with attackers drawn per round, clients that were drawn at least once."""
    kept: dict[int, Vector] = field(default_factory=dict)
    """Version -> model, for versions that `evaluation.keep` asks for."""
    kept_personal: dict[int, Vector] = field(default_factory=dict)
    """Version -> (clients, n_personal) personal layers of the kept models; empty without personal layers."""
    drawn: list[int] | None = None
    """Malicious tasks, with attackers drawn per round; None: all tasks of `attackers`."""
    spent: dict[int, float] | None = None
    """Client -> virtual time at which its budget was spent; None without budgets."""
    power: Power | None = None
    """Power of the clients' devices; None if energy is not counted."""
    domains: tuple[str, ...] = ()
    """(clients,) domain of each client's data; empty with a single domain."""
    resolved: ResolvedSeed | None = None
    """The scenario with the results of prior runs; None for a timeline without training."""
    context: PrivacyContext | None = None
    """Facts to which the noise was calibrated; None for a timeline without training."""
    learner: dict[str, Any] = field(default_factory=dict)
    """Description of the learner, for the summary."""
    data: dict[str, Any] = field(default_factory=dict)
    """Source and provenance of the data, for the summary."""
    notes: list[str] = field(default_factory=list)
    """Sentences for readers of the results."""
    seed_known: bool = False
    """Whether live clients drew their noise from the scenario's seed, which the server knows."""
    noted: dict[str, int] = field(default_factory=dict)
    """Unusual observation of the server's rule -> number of versions."""
    recording: Recording | None = None
    """Messages and actions of the server, if recorded."""
    gemm: str = "default"
    """Library of the matrix products, see `learning.gemm`."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by part; the only numbers here that differ between equal runs."""

    @property
    def diverged(self) -> bool:
        """Whether the run ended because a value was not finite."""
        return self.stopped.startswith("diverged")
