"""Small updates, buffers, contexts and servers with sensible defaults.

All arrays that are returned are read-only, as they are in a run: a component that changes them in place is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncfl.defences import Buffer, DefenceContext, Detector, Mean, Rule, Strikes
from asyncfl.messages import Vector
from asyncfl.server import Buffered, DefencePlan, Protocol, Server, ServerPlan
from asyncfl.server.dispatch import ContinuousDispatch
from asyncfl.streams import Streams
from asyncfl.threats import AttackView


def random(seed: int = 0) -> np.random.Generator:
    """A generator of its own for each seed, the same each time."""
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
    """(n, n_parameters) float32: honest updates N(`centre`, `spread`^2), the last `poisoned` of them poison.

    `centre`, `poison`: a number or (n_parameters,). `poison` None: minus ten times the centre, with the same spread.
    """
    if not 0 <= poisoned <= n:
        raise ValueError(f"poisoned must be 0..n ({n}), got {poisoned}")
    middle = np.broadcast_to(np.asarray(centre, dtype=np.float64), (n_parameters,))
    rows = middle + spread * random(seed).standard_normal((n, n_parameters))
    if poisoned:
        away = -10 * middle if poison is None else np.broadcast_to(np.asarray(poison, dtype=float), (n_parameters,))
        rows[n - poisoned :] += away - middle
    return _fixed(rows)


def weights(buffer: Buffer | int) -> NDArray[np.float64]:
    """(n_updates,) weights as a rule gets them.

    For a buffer: each one's share of the samples times (1 + staleness)^-1/2. For a number: equal shares that add up to
    1.
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
    """A buffer whose senders changed `deltas` (n_updates, n_parameters) in the models they were sent.

    `deltas`: None gives `updates()`. `clients`: who sent them, 0..n-1 by default. `staleness`: versions, one for all or
    one per update. `samples`: of each sender. `current`: the global model, a number or (n_parameters,); the model that
    an update s versions old was trained from lies s `drift` below it in every parameter. `version`: of the current
    model, by default the lowest that leaves no base version below 0. `upload_std`: of the noise in each parameter
    that honest senders have added, one for all or one per update.
    """
    changed = np.asarray(updates() if deltas is None else deltas, dtype=np.float32)
    if changed.ndim != 2:
        raise ValueError(f"deltas must be (n_updates, n_parameters), got {changed.shape}")
    n, n_parameters = changed.shape
    ages = np.array(np.broadcast_to(np.asarray(staleness, dtype=np.int64), (n,)))
    newest = int(ages.max(initial=0)) if version is None else version
    if ages.min(initial=0) < 0 or newest < ages.max(initial=0):
        raise ValueError(f"staleness must be 0..version ({newest}), got {ages.tolist()}")
    senders = np.arange(n) if clients is None else np.asarray(clients)
    if len(senders) != n:
        raise ValueError(f"clients must name the sender of each of {n} updates, got {len(senders)}")
    now = np.broadcast_to(np.asarray(current, dtype=np.float32), (n_parameters,))
    versions, base_of = np.unique(newest - ages, return_inverse=True)
    bases = tuple(_fixed(now - np.float32(drift) * (newest - old)) for old in versions)
    models = np.empty_like(changed)
    for row in range(n):
        models[row] = bases[base_of[row]] + changed[row]
    return Buffer(
        version=newest,
        current=_fixed(now),
        models=_fixed(models),
        bases=bases,
        base_of=_numbers(base_of),
        base_versions=_numbers(newest - ages),
        clients=_numbers(senders),
        samples=_numbers(np.broadcast_to(np.asarray(samples), (n,))),
        upload_std=np.array(np.broadcast_to(np.asarray(upload_std, dtype=np.float64), (n,))),
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
    """What a defence knows about a federation of equal clients; the arguments are the fields of `DefenceContext`."""
    return DefenceContext(
        clients=clients,
        samples=_numbers(np.full(clients, samples)),
        n_parameters=n_parameters,
        lr=lr,
        gradient_clip=gradient_clip,
        steps=_numbers(np.full(clients, steps)),
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
    """What attackers see when they craft their uploads.

    `honest`: (n_attackers, n_parameters) what they would upload if they were honest; None: two rows of `updates`.
    `others`: (n, n_parameters) what the honest clients of the buffer sent, to be seen by attacks that know the buffer;
    None: six rows of `updates`. `bases`: what each attacker was sent, by default `current`.
    """
    own = _fixed(updates(2, seed=seed + 1) if honest is None else honest)
    known = _fixed(updates(6, own.shape[1], seed=seed) if others is None else np.reshape(others, (-1, own.shape[1])))
    now = _fixed(np.broadcast_to(np.asarray(current, dtype=np.float32), own.shape[1:]))
    return AttackView(
        honest=own,
        known=known,
        bases=_fixed(np.broadcast_to(now if bases is None else np.asarray(bases), own.shape)),
        current=now,
        collected=len(own) + len(known) if collected is None else collected,
        version=version,
        randoms=tuple(random(seed + row) for row in range(len(own))),
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
    """A server that nobody has talked to yet.

    `protocol` None: buffers of three updates, every client is given work at once, 1000 versions. `initial`: version 0,
    a number or (n_parameters,).
    """
    chosen = protocol or Buffered(rounds=1000, buffer=3, dispatch=ContinuousDispatch())
    known = context(clients, n_parameters, root_gradient=root_gradient)
    plan = ServerPlan(
        protocol=chosen,
        samples=_numbers(np.broadcast_to(np.asarray(samples), (clients,))),
        initial=_fixed(np.broadcast_to(np.asarray(initial, dtype=np.float32), (n_parameters,))),
        streams=Streams(seed),
        defence=DefencePlan(Mean() if rule is None else rule, detector, strikes, known),
    )
    return Server(plan)


def _fixed(values: ArrayLike) -> Vector:
    array = np.array(values, dtype=np.float32)
    array.flags.writeable = False
    return array


def _numbers(values: ArrayLike) -> NDArray[np.int64]:
    array = np.array(values, dtype=np.int64)
    array.flags.writeable = False
    return array
