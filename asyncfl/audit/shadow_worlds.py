"""Shadow worlds of one upload: the same task, from the same model, on other samples.

An attacker who wants to know whether a sample was among those of an upload imitates the task: it draws as many samples
as the client has from a pool of the client's own and of others of the same labels, trains from the model that the
client was sent, clips, adds noise and compresses as the client did, with random numbers of its own. In some worlds
a sample is in, in the others it is out, which is how it learns what either looks like (Carlini et al. 2022, online
attack).

It knows the norm that the upload was clipped to and the budget that its noise was drawn for: what is measured is an
attacker who knows the scheme and its settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.audit.recorded_state import RecordedState
from asyncfl.client import Assignment, TaskPath
from asyncfl.compression import Compressor
from asyncfl.data import FederatedData
from asyncfl.messages import Vector
from asyncfl.privacy.upload_records import Upload
from asyncfl.streams import Streams


def train_shadow(
    path: TaskPath,
    assignment: Assignment,
    upload: Upload,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    world: int,
) -> Vector:
    """(n_parameters,) what the client of `assignment` would upload with these samples, in its world number `world`.

    `upload`: the record of the real one. `images` (m, channels, height, width), `labels` (m,): as many as it has.
    Nothing of the run changes.
    """
    streams = path.streams
    own = f"{streams.seed}/{assignment.client}/{assignment.task}/{world}".encode()
    elsewhere = Streams(int.from_bytes(hashlib.sha256(own).digest()[:7], "little"))
    held = np.zeros(path.data.clients + 1, dtype=np.int64)
    held[assignment.client + 1 :] = len(labels)
    data = replace(path.data, images=images, labels=labels, offsets=held, canaries=None)
    # What the client had not sent before, where its compression remembers that, nobody else knows.
    compressor = None if path.compressor is None else Compressor(path.compressor.compression, elsewhere)
    imitated = TaskPath(data, path.learner, path.training, path.scheme, path.context, elsewhere, compressor=compressor)
    imitated.state = RecordedState(upload.clip_norm, upload.contribution.epsilon)
    model: Vector = imitated.carry_out([assignment], assignment.base_version, assignment.base).models[0].copy()
    return model


@dataclass(frozen=True)
class ShadowPool:
    """Samples of which some are a client's own, and the others of nobody."""

    images: NDArray[np.float32]
    """(p, channels, height, width)."""
    labels: NDArray[np.int64]
    """(p,)."""
    member: NDArray[np.bool_]
    """(p,) True for the client's own."""


def shadow_pool(data: FederatedData, client: int, left: NDArray[np.bool_], wanted: int) -> ShadowPool:
    """The samples of `client` and up to `wanted` test samples of its domain with its labels, of those that are `left`;
    of a regression with any labels.

    left: (n_test,) True for test samples that nobody has used yet; those that are taken become False.
    """
    images, labels = data.client(client)
    domain = int(data.client_domains[client])
    start, stop = (int(data.test_offsets[domain + end]) for end in (0, 1))
    chosen: list[int] = []
    # One for each of its samples in turn, so that the labels of both have the same shares.
    own, others = (labels, data.test_labels) if data.classes else (np.zeros(len(labels)), np.zeros(len(left)))
    free = {
        label: iter(start + np.flatnonzero(left[start:stop] & (others[start:stop] == label)))
        for label in np.unique(own).tolist()
    }
    for place in range(wanted):
        found = next(free[own[place % len(own)]], None)
        if found is not None:
            chosen.append(int(found))
    left[chosen] = False
    return ShadowPool(
        np.concatenate([images, data.test_images[chosen]]),
        np.concatenate([labels, data.test_labels[chosen]]),
        np.arange(len(labels) + len(chosen)) < len(labels),
    )


def draw_worlds(pool: ShadowPool, number: int, random: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    """(p,) which samples are in, world by world: as many as the client has, and each sample in about as many worlds."""
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
