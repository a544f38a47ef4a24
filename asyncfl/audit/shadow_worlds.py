"""Shadow worlds of one upload: the same task, from the same model, trained on other samples.

The attacker repeats the task in many worlds. In each world it draws as many samples as the client has, from a pool of
the client's samples and others with the same labels. It trains from the model that the client was sent, and clips, adds
noise and compresses like the client, with random numbers of its own. Each sample is included in some worlds and left
out in others, which shows how its confidence depends on membership (Carlini et al. 2022, online attack).

The attacker knows the scheme and its settings, the clip norm and the budget of the upload.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.audit.finished_run import RecordedState
from asyncfl.base.messages import Vector
from asyncfl.base.streams import Streams
from asyncfl.client import Assignment, TaskPath
from asyncfl.data import FederatedData
from asyncfl.privacy.upload_records import Upload


def train_shadow(
    path: TaskPath,
    assignment: Assignment,
    upload: Upload,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    world: int,
) -> Vector:
    """Train the shadow model (n_parameters,) of one world for the attacked task and its upload. The run is unchanged.

    `images`, `labels`: (m, channels, height, width) and (m,) samples of the world, as many as the client has. `world`:
    number of the world, which seeds its random numbers.
    """
    streams = path.streams
    own = f"{streams.seed}/{assignment.client}/{assignment.task}/{world}".encode()
    shadow_streams = Streams(int.from_bytes(hashlib.sha256(own).digest()[:7], "little"))
    held = np.zeros(path.data.clients + 1, dtype=np.int64)
    held[assignment.client + 1 :] = len(labels)
    data = replace(path.data, images=images, labels=labels, offsets=held, canaries=None)
    # The attacker does not know the client's memory of compression errors.
    shadow = TaskPath(
        data, path.learner, path.training, path.scheme, path.context, shadow_streams, compression=path.compression
    )
    shadow.state = RecordedState(upload.clip_norm, upload.contribution.epsilon)
    model: Vector = shadow.carry_out([assignment], assignment.base_version, assignment.base).models[0].copy()
    return model


@dataclass(frozen=True)
class ShadowPool:
    """Samples of a client together with test samples, which belong to no client."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    member: NDArray[np.bool_]
    """(p,) whether the sample is the client's."""


def shadow_pool(data: FederatedData, client: int, unused: NDArray[np.bool_], wanted: int) -> ShadowPool:
    """Return the samples of `client` together with up to `wanted` unused test samples of its domain and labels.

    In a regression, test samples with any label are taken.

    unused: (n_test,) whether a test sample is unused; set to False for those that are taken.
    """
    images, labels = data.client(client)
    domain = int(data.client_domains[client])
    start, stop = (int(data.test_offsets[domain + end]) for end in (0, 1))
    chosen: list[int] = []
    # One for each of the client's samples in turn, so that both have the same shares of labels.
    own, others = (labels, data.test_labels) if data.classes else (np.zeros(len(labels)), np.zeros(len(unused)))
    free = {
        label: iter(start + np.flatnonzero(unused[start:stop] & (others[start:stop] == label)))
        for label in np.unique(own).tolist()
    }
    for place in range(wanted):
        found = next(free[own[place % len(own)]], None)
        if found is not None:
            chosen.append(int(found))
    unused[chosen] = False
    return ShadowPool(
        np.concatenate([images, data.test_images[chosen]]),
        np.concatenate([labels, data.test_labels[chosen]]),
        np.arange(len(labels) + len(chosen)) < len(labels),
    )


def draw_worlds(pool: ShadowPool, number: int, random: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    """Yield for each of `number` worlds (p,) whether a sample is included.

    A world includes as many samples as the client has, and every sample is included in about as many worlds.
    """
    size = int(pool.member.sum())
    order, at = np.array([], dtype=np.int64), 0
    for _ in range(number):
        chosen: list[int] = []
        taken = np.zeros(len(pool.labels), dtype=bool)
        while len(chosen) < size:
            if at == len(order):
                order, at = random.permutation(len(pool.labels)), 0
            if not taken[order[at]]:
                taken[order[at]] = True
                chosen.append(int(order[at]))
            at += 1
        yield taken
