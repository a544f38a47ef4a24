"""Check that an algorithm keeps the laws of both its halves, without a clock, a network or training."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncfl.algorithms import AcceptedUpdates, Algorithm, LocalTask, Payload
from asyncfl.algorithms.algorithm import ServerState, declared, sent
from asyncfl.base.answers import numbers, with_state
from asyncfl.base.arrays import Ints, Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.errors import ComponentError
from asyncfl.learning import Training
from asyncfl.learning.seeded import seeded
from asyncfl.testing.builders import random
from asyncfl.testing.laws import check_description, close, require, same, unchanged

CLIENTS, VERSIONS = 5, 4
INPUTS, OUTPUTS = 3, 2
N_PARAMETERS = (INPUTS + 1) * OUTPUTS
"""Parameters of the linear network that `train` is given."""
LR = 0.1


def check_algorithm(algorithm: Algorithm, *, permuted: bool = True) -> None:
    """Raise AssertionError with the first law that `algorithm` violates.

    The laws: it is frozen and can be written and read; vectors have the declared names and sizes; a client's state has
    the entries of `carries` alone, and is not shared by clients; the server's state can be pickled; both halves are
    functions of their arguments and change none of them; steps are finite; `train`, where it is defined, is a function
    of its task, whose samples and model it leaves as they are. `permuted`: whether a step must not depend
    on the order of the updates.
    """
    check_description(algorithm, Algorithm)
    try:
        _check(algorithm, permuted)
    except ComponentError as error:
        require(False, algorithm, str(error))


def _check(algorithm: Algorithm, permuted: bool) -> None:
    payloads = declared(algorithm, N_PARAMETERS)
    require(same(payloads, declared(algorithm, N_PARAMETERS)), algorithm, "payloads must not change")
    rng = random(0)
    server = _server_state(algorithm, algorithm.start(N_PARAMETERS, CLIENTS))
    law = "start must be a function of its arguments"
    require(same(server, algorithm.start(N_PARAMETERS, CLIENTS)), algorithm, law)
    if algorithm.replaces_training:
        _check_training(algorithm, sent(algorithm, "download", algorithm.download(server), payloads.downloads))
    states = [ClientState()] * CLIENTS
    for _ in range(VERSIONS):
        download = sent(algorithm, "download", _asked(algorithm, "download", server), payloads.downloads)
        clients, models, uploads = rng.permutation(CLIENTS)[:3].tolist(), [], []
        for client in clients:
            base, moved = (rng.normal(0, scale, N_PARAMETERS).astype(np.float32) for scale in (1.0, 0.1))
            begun, trained_model = _trained(algorithm, states[client], download, base, base + moved)
            states[client], vectors = _task(algorithm, begun, states[client - 1], download, base, trained_model)
            models.append(trained_model - base)
            trained = [one for one in payloads.uploads if not one.of_update]
            released = _asked(algorithm, "from_update", download, base, trained_model, 3, LR)
            uploads.append(
                sent(algorithm, "after_training", vectors, trained)
                | sent(algorithm, "from_update", released, [one for one in payloads.uploads if one.of_update])
            )
        server = _version(algorithm, server, clients, np.array(models), _rows(uploads, payloads.uploads), permuted)


def _check_training(algorithm: Algorithm, download: Mapping[str, Vector]) -> None:
    """Check `train` on a linear network, with 6 samples in batches of 3."""
    base = random(2).normal(0, 0.1, N_PARAMETERS).astype(np.float32)
    first, second, untouched = (_local_task(ClientState(), download, base.copy()) for _ in range(3))
    updates = [_update(algorithm, task) for task in (first, second)]
    require(same(updates[0], updates[1]), algorithm, "train must be a function of its task and torch's generator")
    for name in ("inputs", "labels", "base"):
        kept = np.array_equal(np.asarray(getattr(first, name)), np.asarray(getattr(untouched, name)))
        require(kept, algorithm, f"train must not change task.{name}")
    require(same(first.carried, second.carried), algorithm, "train must leave the same task.carried each time")
    unknown = {*first.carried.arrays, *first.carried.scalars} - {*algorithm.carries}
    require(not unknown, algorithm, f"task.carried must have {algorithm.carries} only", f"it has {unknown}")


def _update(algorithm: Algorithm, task: LocalTask) -> Vector:
    """Return the update (N_PARAMETERS,) that `train` makes of a task."""
    with seeded(1):
        return numbers(algorithm, "train", algorithm.train(task), (N_PARAMETERS,), finite=True).astype(np.float32)


def _local_task(state: ClientState, download: Mapping[str, Vector], base: Vector) -> LocalTask:
    import torch

    module, rng = torch.nn.Linear(INPUTS, OUTPUTS), random(1)
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(torch.from_numpy(base.copy()), module.parameters())
    inputs = torch.from_numpy(rng.normal(size=(6, INPUTS)).astype(np.float32))
    labels, batches = torch.tensor([0, 1, 0, 1, 1, 0]), [[torch.arange(3), torch.arange(3, 6)]]
    training = Training(lr=LR, batch_size=3)
    return LocalTask(module, inputs, labels, batches, training.rates(2), training, base, state, download)


def _trained(
    algorithm: Algorithm, state: ClientState, download: Mapping[str, Vector], base: Vector, model: Vector
) -> tuple[ClientState, Vector]:
    """Return a client's state and model after its training: as `train` leaves them, where it is defined, otherwise
    `state` and `model`."""
    if not algorithm.replaces_training:
        return state, model
    task = _local_task(state, download, base)
    update = _update(algorithm, task)
    return state.updated(task.carried), base + update


def _asked(algorithm: Algorithm, method: str, *arguments: Any) -> Any:
    """Return the answer of a method that must be a function of its arguments, and change none of them."""
    with unchanged(algorithm, f"{method} must not change its arguments", *arguments):
        answer = getattr(algorithm, method)(*arguments)
    first = pickle.loads(pickle.dumps(answer))
    law = f"{method} must be a function of its arguments"
    require(same(first, getattr(algorithm, method)(*arguments)), algorithm, law)
    return answer


def _task(
    algorithm: Algorithm,
    state: ClientState,
    another: ClientState,
    download: Mapping[str, Vector],
    base: Vector,
    trained: Vector,
) -> tuple[ClientState, Mapping[str, Vector]]:
    """Return a client's next state and its uploads. The task of `another` in between must change neither."""
    constant = _asked(algorithm, "correction", state, download)
    if constant is not None:
        numbers(algorithm, "correction", constant, base.shape, finite=True)
    arguments = state, download, base, trained, 3, LR
    vectors, after = with_state(algorithm, "after_training", _asked(algorithm, "after_training", *arguments), dict)
    right = isinstance(after, ClientState)
    require(right, algorithm, "after_training must return a ClientState", f"got {type(after).__name__}")
    unknown = {*after.arrays, *after.scalars} - {*algorithm.carries}
    require(not unknown, algorithm, f"a client's state must have {algorithm.carries} only", f"it has {unknown}")
    kept = pickle.loads(pickle.dumps((vectors, after)))
    if another or not algorithm.replaces_training:
        algorithm.after_training(another, download, trained, base, 3, LR)
    require(same((vectors, after), kept), algorithm, "clients must not share what they keep or send")
    return state.updated(after), vectors


def _rows(uploads: list[dict[str, Vector]], payloads: tuple[Payload, ...]) -> dict[str, Vector]:
    return {one.name: np.stack([vectors[one.name] for vectors in uploads]) for one in payloads}


def _server_state(algorithm: Algorithm, state: Any) -> ServerState:
    right = isinstance(state, Mapping)
    require(right, algorithm, "the server's state must be arrays by name", f"got {type(state).__name__}")
    return dict(state)


def _version(
    algorithm: Algorithm,
    server: ServerState,
    clients: list[int],
    updates: Vector,
    payloads: dict[str, Vector],
    permuted: bool,
) -> ServerState:
    """Return the server's state after a version with these updates."""
    n = len(clients)
    weights, staleness = np.arange(1, n + 1) / (n * (n + 1) / 2), np.arange(n)

    def accepted(order: Ints) -> AcceptedUpdates:
        rows = {name: vectors[order] for name, vectors in payloads.items()}
        read = updates[order] if algorithm.reads_updates else None
        return AcceptedUpdates(np.array(clients)[order], staleness[order], weights[order], 0.5, rows, read)

    step = np.asarray(0.5 * weights @ updates, dtype=np.float32)
    answer = _asked(algorithm, "apply", server, step, accepted(np.arange(n)))
    made, after = with_state(algorithm, "apply", answer, np.ndarray)
    numbers(algorithm, "apply: step", made, step.shape, finite=True)
    if permuted:
        other, _ = algorithm.apply(server, step, accepted(np.arange(n)[::-1]))
        require(close(made, other), algorithm, "a step must not depend on the order of the updates", (made, other))
    return _server_state(algorithm, after)
