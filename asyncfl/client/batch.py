"""Tasks on their way through the stages of their clients, and the uploads that come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asyncfl.algorithms import Algorithm, FedAvg
from asyncfl.base.answers import require
from asyncfl.base.arrays import Bools, Floats, Vector
from asyncfl.base.client_state import ClientStates
from asyncfl.learning import Job, Learner, Training
from asyncfl.learning.job import Deadline
from asyncfl.privacy import Contribution, Noise, PrivacyContext, Scheme, State
from asyncfl.privacy.release import Release, Upload
from asyncfl.protocol.secure_aggregation import SecureAggregation
from asyncfl.secure_aggregation import MaskedSum

if TYPE_CHECKING:
    from asyncfl.base.streams import Streams
    from asyncfl.client.attackers import Attackers
    from asyncfl.client.compression import Compression
    from asyncfl.data import FederatedData


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task that is to be trained now."""

    task: int
    client: int
    base_version: int
    base: Vector
    """(n_parameters,) the model that the client was sent."""
    turn: int = 0
    """Number of tasks that the client was given before."""
    epochs: int | None = None
    """Epochs that the client has time for; None for all of a task."""
    download: Mapping[str, Vector] = field(default_factory=dict)
    """The algorithm's vectors that the client was sent with the model."""
    deadline: Deadline | None = None
    """Deadline of a client that trains in real time; None without one."""


def work_of(done: Sequence[int | None], epochs: int) -> Floats | None:
    """Compute the (n,) share of a task's `epochs` behind each update, see `Collected.work`. `done`: epochs of each
    task, None for all. Returns None if every task did all epochs."""
    if all(one is None for one in done):
        return None
    return np.array([1.0 if one is None else one / epochs for one in done])


@dataclass(eq=False)
class PathComponents:
    """Components of one run that the stages of a task's path share."""

    data: FederatedData
    learner: Learner
    """Trains one epoch at a time if the scheme adds noise after each epoch."""
    training: Training
    scheme: Scheme
    context: PrivacyContext
    streams: Streams
    attackers: Attackers | None = None
    compression: Compression | None = None
    """Compression of updates; None to send them uncompressed."""
    algorithm: Algorithm = FedAvg()
    secure: SecureAggregation | None = None
    """Secure aggregation of updates; None: the server receives each."""
    state: State = field(init=False)
    """State of the privacy scheme. Audits that train a task again restore the state of that time."""
    states: ClientStates = field(init=False, default_factory=ClientStates)
    """States of all clients, which they carry from task to task."""

    def __post_init__(self) -> None:
        self.state = self.scheme.start(self.context)
        require(isinstance(self.state, State), self.scheme, "start", "must return a State", self.state)
        self.clips_update = self.scheme.clip_target.payload == "update"
        """Whether the update is clipped; otherwise the model."""
        self.clips_to_l2_norm = self.clips_update and self.scheme.clip_target.order == 2
        """Whether the update is what a scheme with a clip norm bounds, in L2."""


@dataclass(eq=False)
class Batch:
    """Tasks that pass through the stages together. Rows follow the assignments; each stage fills in its part."""

    assignments: Sequence[Assignment]
    rows: Vector
    """(n, n_parameters) the models: trained, then clipped, attacked, noised, compressed and shuffled in place."""
    version: int = -1
    """The newest version."""
    current: Vector = field(default_factory=lambda: np.empty(0, dtype=np.float32))
    """(n_parameters,) the newest model."""
    jobs: Sequence[Job] = ()
    contributions: Sequence[Contribution] = ()
    """Properties that the noise of each upload depends on."""
    clip_norm: float | None = None
    releases: Sequence[Release] = ()
    noises: Sequence[Noise] = ()
    """Noise that the scheme asks for."""
    copy_of: int | None = None
    """Task whose update the attackers copy; None if they copy none."""
    computed_from: tuple[int, ...] = ()
    """Tasks whose updates the attackers' uploads are computed from in any other way."""
    packed: tuple[bytes, ...] = ()
    """Bytes sent for each upload, with compression."""
    uploads: tuple[Upload, ...] = ()
    """The record of each upload."""
    payloads: dict[str, Vector] = field(default_factory=dict)
    """Name -> (n, size) float32: the algorithm's vectors of each upload, as the training made them."""
    masked: MaskedSum | None = None
    """Clients that take part in secure aggregation of the uploads; None without it."""
    integers: NDArray[np.int64] | None = None
    """(n, n_parameters) the integers that clients mask; None without secure aggregation."""
    total: Floats | None = None
    """(n_parameters,) weighted sum of the updates that secure aggregation unmasked; None without it."""
    out_of_range: int = 0
    """Numbers of honest updates that were clipped to the range of secure aggregation."""
    wrapped: int = 0
    """Numbers of the sum that are too large for the field, and wrong."""
    attacked: Bools = field(init=False)
    losses: Floats = field(init=False)
    """(n,) mean training loss of the last local epoch."""
    norms: Floats = field(init=False)
    """(n,) norm before clipping of the vector that the scheme clips (model or update, see `Scheme.clip_target`)."""
    zeroed: Bools = field(init=False)
    """(n,) True if an honest client's payload was not finite and was replaced by zero before the noise."""
    std: Floats = field(init=False)
    """(n,) standard deviation of the noise added after training."""
    sound: Bools = field(init=False)
    """(n,) False if the upload has the wrong length; its row is then meaningless."""

    def __post_init__(self) -> None:
        n = len(self.assignments)
        self.attacked, self.zeroed, self.sound = np.zeros(n, bool), np.zeros(n, bool), np.ones(n, bool)
        self.losses, self.norms, self.std = np.zeros(n), np.zeros(n), np.zeros(n)

    @classmethod
    def joined(cls, parts: Sequence[Batch], rows: Vector) -> Batch:
        """Return one batch of trained tasks that were batches of their own, with their models copied to `rows`."""
        whole = cls([one.assignments[0] for one in parts], rows)
        for row, one in enumerate(parts):
            rows[row] = one.rows[0]
            whole.attacked[row], whole.losses[row], whole.norms[row] = one.attacked[0], one.losses[0], one.norms[0]
        whole.payloads = {name: np.concatenate([one.payloads[name] for one in parts]) for name in parts[0].payloads}
        whole.contributions = [one.contributions[0] for one in parts]
        return whole

    @property
    def models(self) -> Vector:
        """(n, n_parameters) float32 as uploaded; read-only, valid until the next collection."""
        loan = self.rows.view()
        loan.flags.writeable = False
        return loan

    @property
    def asked_std(self) -> Floats:
        """(n,) standard deviation of the noise that the scheme asks for, all draws of a task together. Attackers that
        add no noise are included as if they did."""
        return np.array([noise.upload_std for noise in self.noises])

    def record(self) -> None:
        """Make the records of the uploads."""
        copied = [(self.copy_of, self.computed_from) if bad else (None, ()) for bad in self.attacked]
        columns = self.assignments, self.contributions, self.releases, self.losses, self.attacked, self.std, copied
        self.uploads = tuple(
            Upload(
                of.task, of.base_version, one, release, self.clip_norm, float(loss), bool(bad), float(added), *sources
            )
            for of, one, release, loss, bad, added, sources in zip(*columns, strict=True)
        )


class Stage:
    """A stage of a task's path, with its state."""

    def __init__(self, facts: PathComponents) -> None:
        self.facts = facts

    def run(self, batch: Batch) -> None:
        """Do this stage's part for all tasks of `batch`, in place."""
        raise NotImplementedError
