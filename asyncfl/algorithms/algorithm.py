"""Base class of algorithms, and FedAvg, which exchanges models and updates alone.

An algorithm declares every further vector that a task's messages carry, as a `Payload`. Both links carry the declared
payloads as float32, uncompressed, and no others. A payload `of_update` is computed from the update as it is sent, after
clipping, noise and attack. Others have no noise but that drawn during training, and attackers send the one of theirs.
Rules and detectors see updates alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from asyncfl.algorithms.local_task import LocalTask
from asyncfl.base.answers import numbers, require
from asyncfl.base.arrays import Floats, Ints, Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.component import Component, kind_of
from asyncfl.base.disclosure import PAYLOADS, Leak, Public, Released
from asyncfl.base.errors import ComponentError, MessageError, shortened

UPDATE = "update"
"""Name of the update itself, which every upload holds and no algorithm declares."""
ServerState: TypeAlias = Mapping[str, Any]
"""Named arrays that an algorithm keeps at the server. They are replaced, never changed in place."""


@dataclass(frozen=True, slots=True)
class Payload:
    """Declaration of a vector that a message carries beside the model or the update.

    Raises: ValueError for the name of the update, for an empty vector and for a leak with another flag than `PAYLOADS`.
    """

    name: str
    size: int
    """Numbers of the vector."""
    disclosure: Leak | Released | Public
    """Disclosure of training data by the vector. `Leak(PAYLOADS, ...)`: it depends on data, without noise, unless noise
    is drawn during training."""
    of_update: bool = False
    """Whether an uploaded vector is computed by `Algorithm.from_update` from the update as it is sent. Then it tells no
    more than the update, whatever the privacy scheme."""

    def __post_init__(self) -> None:
        if not self.name or self.name == UPDATE:
            raise ValueError(f"a payload must have a name other than {UPDATE}, got {self.name!r}")
        if self.size < 1:
            raise ValueError(f"payload {self.name} must have a size of at least 1, got {self.size}")
        if isinstance(self.disclosure, Leak) and self.disclosure.flag != PAYLOADS:
            raise ValueError(f"payload {self.name} must have the flag {PAYLOADS!r}, got {self.disclosure.flag!r}")

    @property
    def payload_bytes(self) -> int:
        """Bytes of the vector on a link: float32, uncompressed."""
        return 4 * self.size

    @property
    def leaks(self) -> bool:
        """Whether the vector depends on training data without noise."""
        return isinstance(self.disclosure, Leak)


@dataclass(frozen=True)
class AcceptedUpdates:
    """The updates of one version that no defence excluded, in the order of the buffer."""

    clients: Ints
    """(n,) sender of each update. In asynchronous runs a client may have sent several."""
    staleness: Ints
    """(n,) versions between the training and the use of each update, >= 0."""
    weights: Floats
    """(n,) factor of each update in the aggregate, before `rate`."""
    rate: float
    """Server rate of the protocol, which the step includes."""
    payloads: Mapping[str, Vector]
    """Name -> (n, size): the declared uploads."""
    updates: Vector | None = None
    """(n, n_parameters) differences of the uploaded models from those that were sent; None unless `reads_updates`."""


class Payloads(NamedTuple):
    """Payloads of one run, in both directions."""

    uploads: tuple[Payload, ...] = ()
    downloads: tuple[Payload, ...] = ()

    @property
    def leak(self) -> bool:
        """Whether any payload depends on training data without noise."""
        return any(one.leaks for one in (*self.uploads, *self.downloads))


class Algorithm(Component):
    """Base class of algorithms. The defaults of all methods are FedAvg's; override what differs.

    No method changes its arguments in place. All vectors are float32.
    """

    logged: ClassVar[tuple[str, ...]] = ("rounds.bytes_up", "rounds.bytes_down", "ledger.flags")
    carries: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays and numbers that a client carries from task to task (entries of its `ClientState`)."""
    reads_updates: ClassVar[bool] = False
    """Whether the server's half uses single updates (`AcceptedUpdates.updates`). Then it takes the place of the
    aggregation rule, which must be the mean, and noise of the server would not cover it."""

    plain_steps: ClassVar[bool] = False
    """Whether clients must train by plain SGD, without momentum or weight decay: only then K steps move a model by lr
    times the sum of K gradients."""

    @property
    def off(self) -> bool:
        """Whether clients and server exchange and average models and updates alone."""
        return False

    @property
    def changes_training(self) -> bool:
        """Whether clients train or upload otherwise than with FedAvg. If not, the server's half is the whole."""
        own = type(self)
        names = "correction", "after_training", "from_update", "payloads", "train"
        return any(getattr(own, name) is not getattr(Algorithm, name) for name in names) or bool(self.proximal)

    @property
    def replaces_training(self) -> bool:
        """Whether clients train by `train` instead of the steps of the scenario's section `training`."""
        return type(self).train is not Algorithm.train

    @property
    def changes_steps(self) -> bool:
        """Whether a client's steps may be longer than `lr` times the clipped gradient: `correction` is added after
        clipping, and `train` need not clip. A proximal term only shortens the way."""
        return self.replaces_training or type(self).correction is not Algorithm.correction

    @property
    def changes_tasks(self) -> bool:
        """Whether a task of a client is more than FedAvg's: with another training or upload, or a model of its own.
        Then neither audits that train tasks again nor certain settings can have the algorithm."""
        return self.changes_training or self.personal_pull > 0

    @property
    def post_processes(self) -> bool:
        """Whether the server's half uses nothing but steps, which have the server's noise: guarantees of published
        models then hold as with FedAvg, whatever clients begin with."""
        return not self.reads_updates and not self.payloads(1).uploads

    def payloads(self, n_parameters: int) -> Payloads:
        """Declare the payloads of a model with `n_parameters` parameters."""
        return Payloads()

    def server_vectors(self, clients: int) -> float:
        """Return how many vectors of n_parameters float32 numbers the server's state holds, for the estimate of
        memory."""
        return 0

    # --- at a client -----------------------------------------------------------------------------------------------

    @property
    def proximal(self) -> float:
        """Strength of a proximal term, which is added to `training.proximal_mu`."""
        return 0.0

    @property
    def personal_pull(self) -> float:
        """Strength with which a client's own model, which it trains beside the common one and never sends, is pulled to
        the common one; 0: clients have no model of their own."""
        return 0.0

    def correction(self, state: ClientState, download: Mapping[str, Vector]) -> Vector | None:
        """Return the constant vector (n_parameters,) that is added to the gradient of each step, after clipping; None:
        nothing is added. `state`: the entries `carries`; `download`: the declared downloads."""
        return None

    def train(self, task: LocalTask) -> Vector:
        """Train one client, and return its update (n_parameters,), the trained model minus `task.base`.

        Define it to replace local training whole, by any code in torch. `correction` and `proximal` then have no
        effect; `after_training` is called as usual. It must be a function of `task` and of torch's global generator,
        which is seeded for the task. On the clock it takes the time of the samples of `task.batches`.
        """
        raise NotImplementedError

    def after_training(
        self,
        state: ClientState,
        download: Mapping[str, Vector],
        base: Vector,
        trained: Vector,
        steps: int,
        lr: float,
    ) -> tuple[dict[str, Vector], ClientState]:
        """Return the declared uploads of a trained task, and the new entries `carries` of the client's state.

        `state`: the entries `carries`, where `train` is defined with those that it left in `task.carried`; `base`,
        `trained`: (n_parameters,) the models before and after the task; `steps`: SGD steps between them; `lr`:
        `training.lr`, without schedules.
        """
        return {}, state

    def from_update(
        self, download: Mapping[str, Vector], base: Vector, sent: Vector, steps: int, lr: float
    ) -> dict[str, Vector]:
        """Return the declared uploads `of_update`. `sent`: (n_parameters,) base + the update as it is sent, after
        clipping, noise and attack; the others as in `after_training`."""
        return {}

    # --- at the server ---------------------------------------------------------------------------------------------

    def start(self, n_parameters: int, clients: int) -> ServerState:
        """Return the state of the server before the first version. It must be picklable."""
        return {}

    def apply(self, state: ServerState, step: Vector, accepted: AcceptedUpdates) -> tuple[Vector, ServerState]:
        """Return the step that the global model takes, and the next state. Not called where no update was accepted.

        `step`: (n_parameters,) that the defence's rule and the protocol's rate yield, with the noise of the server.
        """
        return step, state

    def download(self, state: ServerState) -> Mapping[str, Vector]:
        """Return the declared downloads that are sent with the next version."""
        return {}


class FedAvg(Algorithm):
    """Weighted averages of updates, and nothing else. Source: McMahan et al. 2017, algorithm 1."""

    kind: Literal["fedavg"] = "fedavg"

    @property
    def off(self) -> bool:
        return True


def declared(algorithm: Algorithm, n_parameters: int) -> Payloads:
    """Return the payloads that an algorithm declares. Raises ComponentError where they are no payloads, or two of one
    direction have the same name."""
    try:
        found = algorithm.payloads(n_parameters)
    except ValueError as error:
        raise ComponentError(f"{kind_of(algorithm)}: payloads: {error}") from None
    require(isinstance(found, Payloads), algorithm, "payloads", "must return Payloads", found)
    for way, one in zip(Payloads._fields, found, strict=True):
        sound = isinstance(one, tuple) and all(isinstance(payload, Payload) for payload in one)
        require(sound, algorithm, f"payloads: {way}", "must be a tuple of Payload", one)
        names = [payload.name for payload in one]
        require(len(set(names)) == len(names), algorithm, f"payloads: {way}", "must have different names", names)
    return found


def check_vectors(vectors: Mapping[str, Vector], payloads: Sequence[Payload], *rows: int) -> None:
    """Raise MessageError unless the vectors of a message are the declared `payloads` with their sizes.

    `rows`: number of updates, if each vector is (n_updates, size).
    """
    shapes = {name: vector.shape for name, vector in vectors.items()}
    wanted = {one.name: (*rows, one.size) for one in payloads}
    if shapes != wanted:
        raise MessageError(
            f"the algorithm declares payloads {wanted or 'none'}, got {shortened(shapes or 'none', 200)}"
        )


def sent(
    algorithm: Algorithm, method: str, vectors: Mapping[str, Vector], payloads: Sequence[Payload]
) -> dict[str, Vector]:
    """Return the vectors that a message carries, as float32.

    Raises ComponentError unless they are the declared `payloads` with their sizes. `method`: name of the method that
    returned them.
    """
    require(isinstance(vectors, Mapping), algorithm, method, "must return vectors by name", vectors)
    names = ", ".join(one.name for one in payloads) or "none"
    for name in vectors.keys() - {one.name for one in payloads}:
        raise ComponentError(f"{kind_of(algorithm)}: {method} sends payload {name}; declared payloads: {names}")
    for one in payloads:
        if one.name not in vectors:
            raise ComponentError(f"{kind_of(algorithm)}: {method} lacks payload {one.name}; declared: {names}")
    return {
        one.name: np.ascontiguousarray(
            numbers(algorithm, f"{method}: payload {one.name}", vectors[one.name], (one.size,)), dtype=np.float32
        )
        for one in payloads
    }
