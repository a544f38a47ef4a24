"""Build small updates, buffers, contexts and servers with sensible defaults.

All returned arrays are read-only, as in a run, so that a component that changes them in place fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.base.arrays import Floats, Vector
from asyncfl.base.streams import Streams
from asyncfl.defences import Buffer, DefenceContext, Detector, Mean, Rule, Strikes
from asyncfl.protocol import Buffered, DefencePlan, Protocol, Server, ServerPlan
from asyncfl.protocol.dispatch import ContinuousDispatch
from asyncfl.threats import AttackView


def random(seed: int = 0) -> np.random.Generator:
    return Streams(seed).generator("detection")


def updates(
    n: int = 8,
    n_parameters: int = 4,
    *,
    poisoned: int = 0,
    centre: ArrayLike = 1.0,
    spread: float = 0.1,
    poison: ArrayLike | None = None,
    seed: int = 0,
) -> Vector:
    """Draw updates, (n, n_parameters) float32: honest ones from N(`centre`, `spread`^2), the last `poisoned` poisoned.

    `centre`, `poison`: mean of honest and of poisoned updates, a number or (n_parameters,). `poison` None: minus ten
    times the centre. Both have the same spread.
    """
    if not 0 <= poisoned <= n:
        raise ValueError(f"poisoned must be 0..n ({n}), got {poisoned}")
    middle = np.broadcast_to(np.asarray(centre, dtype=np.float64), (n_parameters,))
    rows = middle + spread * random(seed).standard_normal((n, n_parameters))
    if poisoned:
        away = -10 * middle if poison is None else np.broadcast_to(np.asarray(poison, dtype=float), (n_parameters,))
        rows[n - poisoned :] += away - middle
    found: Vector = read_only(rows)
    return found


def weights(buffer: Buffer | int) -> Floats:
    """Compute the weights that a rule gets, (n_updates,).

    For a buffer: each update's share of the samples times (1 + staleness)^-1/2. For a number n: n weights of 1/n.
    """
    if isinstance(buffer, int):
        return np.full(buffer, 1 / buffer)
    return np.asarray(buffer.samples / buffer.samples.sum() / np.sqrt(1.0 + buffer.staleness))


def buffer(
    deltas: ArrayLike | None = None,
    *,
    clients: Sequence[int] | None = None,
    staleness: Sequence[int] | int = 0,
    samples: Sequence[int] | int = 100,
    current: ArrayLike = 0.0,
    drift: float = 0.1,
    version: int | None = None,
    upload_std: ArrayLike = 0.0,
) -> Buffer:
    """Build a buffer of updates `deltas` (n_updates, n_parameters), relative to the models the clients were sent.

    `deltas`: None: `updates()`. `clients`: senders, by default 0..n-1. `staleness`: versions, one for all or one per
    update. `samples`: training samples of the senders. `current`: global model, a number or (n_parameters,); the base
    model of an update with staleness s is lower by s times `drift` in every parameter. `version`: version of the global
    model, by default the lowest without negative base versions. `upload_std`: standard deviation of the noise in each
    parameter of honest uploads, one for all or one per update. Raises ValueError for arguments that do not fit.
    """
    changed = np.asarray(updates() if deltas is None else deltas, dtype=np.float32)
    if changed.ndim != 2:
        raise ValueError(f"deltas must be (n_updates, n_parameters), got {changed.shape}")
    n, n_parameters = changed.shape
    ages = read_only(staleness, np.int64, (n,))
    newest = int(ages.max(initial=0)) if version is None else version
    if ages.min(initial=0) < 0 or newest < ages.max(initial=0):
        raise ValueError(f"staleness must be 0..version ({newest}), got {ages.tolist()}")
    senders = np.arange(n) if clients is None else np.asarray(clients)
    if len(senders) != n:
        raise ValueError(f"clients must name the sender of each of {n} updates, got {len(senders)}")
    now = read_only(current, shape=(n_parameters,))
    versions, base_of = np.unique(newest - ages, return_inverse=True)
    bases = tuple(read_only(now - np.float32(drift) * (newest - old)) for old in versions)
    models = np.array([bases[base] + row for base, row in zip(base_of, changed, strict=True)])
    return Buffer(
        version=newest,
        current=now,
        models=read_only(models.reshape(changed.shape)),
        bases=bases,
        base_of=read_only(base_of, np.int64),
        base_versions=read_only(newest - ages, np.int64),
        clients=read_only(senders, np.int64),
        samples=read_only(samples, np.int64, (n,)),
        upload_std=read_only(upload_std, np.float64, (n,)),
    )


def context(
    clients: int = 10,
    n_parameters: int = 4,
    *,
    samples: int = 100,
    lr: float = 0.1,
    steps: int = 5,
    gradient_clip: float | None = None,
    root_gradient: Callable[[Vector], Vector] | None = None,
) -> DefenceContext:
    """Build the context of a defence for equal clients. The arguments are the fields of `DefenceContext`."""
    return DefenceContext(
        clients=clients,
        samples=read_only(samples, np.int64, (clients,)),
        n_parameters=n_parameters,
        lr=lr,
        gradient_clip=gradient_clip,
        steps=read_only(steps, np.int64, (clients,)),
        root_gradient=root_gradient,
    )


def view(
    honest: ArrayLike | None = None,
    others: ArrayLike | None = None,
    *,
    current: ArrayLike = 0.0,
    bases: ArrayLike | None = None,
    collected: int | None = None,
    version: int = 3,
    seed: int = 0,
) -> AttackView:
    """Build the view of attackers that craft their uploads.

    `honest`: (n_attackers, n_parameters) updates the attackers would send if they were honest; None: two rows of
    `updates`. `others`: (n, n_parameters) updates of the buffer's honest clients, for attacks that know the buffer;
    None: six rows of `updates`. `bases`: model that each attacker was sent, by default `current`. `collected`: number
    of updates in the buffer, by default attackers and others. The last layer is the second half of the parameters; the
    loss of each of ten classes is half the squared distance from a point near 1.
    """
    own = read_only(updates(2, seed=seed + 1) if honest is None else honest)
    n_parameters = own.shape[1]
    known = read_only(updates(6, n_parameters, seed=seed) if others is None else np.reshape(others, (-1, n_parameters)))
    now = read_only(current, shape=own.shape[1:])
    return AttackView(
        honest=own,
        known=known,
        bases=read_only(now if bases is None else bases, shape=own.shape),
        current=now,
        collected=len(own) + len(known) if collected is None else collected,
        version=version,
        randoms=tuple(random(seed + row) for row in range(len(own))),
        class_gradients=lambda model: model - updates(10, n_parameters, spread=1.0, seed=seed),
        last_layer=n_parameters - n_parameters // 2,
        ranks=tuple(range(len(own))),
    )


def server(
    protocol: Protocol | None = None,
    clients: int = 6,
    n_parameters: int = 1,
    *,
    rule: Rule | None = None,
    detector: Detector | None = None,
    strikes: Strikes | None = None,
    samples: Sequence[int] | int = 100,
    initial: ArrayLike = 0.0,
    root_gradient: Callable[[Vector], Vector] | None = None,
    seed: int = 0,
) -> Server:
    """Build a new server that has received no message.

    `protocol` None: buffers of three updates, a task for every idle client, 1000 versions. `initial`: model of version
    0, a number or (n_parameters,). `samples`: training samples, one number for all clients or one per client.
    """
    chosen = protocol or Buffered(rounds=1000, buffer=3, dispatch=ContinuousDispatch())
    known = context(clients, n_parameters, root_gradient=root_gradient)
    plan = ServerPlan(
        protocol=chosen,
        samples=read_only(samples, np.int64, (clients,)),
        initial=read_only(initial, shape=(n_parameters,)),
        streams=Streams(seed),
        defence=DefencePlan(Mean() if rule is None else rule, detector, strikes, known),
    )
    return Server(plan)


def read_only(values: ArrayLike, dtype: type = np.float32, shape: tuple[int, ...] | None = None) -> Any:
    """Return a read-only copy, repeated to `shape`; None: as it is."""
    array: NDArray[Any] = np.array(values if shape is None else np.broadcast_to(np.asarray(values), shape), dtype=dtype)
    array.flags.writeable = False
    return array
