"""Data, model and training of a federation that trains a hundred times per minute: 8 x 8 digits and a tiny network.

There is no clock and no privacy scheme: the clients of a buffer and the staleness of their models are drawn, and noise
of a given standard deviation is added to each upload. Data are scikit-learn's digits; attacks and defences are those of
real runs. All clients of a buffer are trained at once by batched matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.messages import Bools, Ints, Vector
from asyncfl.base.streams import Streams
from asyncfl.data.label_skew import Dirichlet, Shards
from asyncfl.data.partition import Iid, Partition, Quantity

Skew = Literal["IID", "Dirichlet 1", "Dirichlet .5", "Dirichlet .3", "Dirichlet .1", "shards", "quantity", "domains"]
"""Heterogeneity of the clients' data. `domains`: the digits of each quarter of the clients are rotated by another
multiple of 90 degrees."""

PARTITIONS: dict[str, Partition] = {
    "IID": Iid(),
    "Dirichlet 1": Dirichlet(alpha=1),
    "Dirichlet .5": Dirichlet(alpha=0.5),
    "Dirichlet .3": Dirichlet(alpha=0.3),
    "Dirichlet .1": Dirichlet(alpha=0.1),
    "shards": Shards(),
    "quantity": Quantity(),
    "domains": Iid(),
}
SIDE, CLASSES, HIDDEN = 8, 10, 16
PIXELS = SIDE * SIDE
N_PARAMETERS = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
SAMPLES = 60
"""Mean number of training samples per client."""
ROOT, TESTED = 100, 400
"""Samples in the server's root set and in the test set. No client has any of them."""
STEPS, BATCH, LR, CLIP = 5, 20, 0.3, 1.0
"""Training of a task: steps of SGD, samples per step, learning rate, L2 norm to which each gradient is clipped."""


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 8, 8) and labels (n,) of each client, of the server's root set and of the test set."""

    images: tuple[NDArray[np.float32], ...]
    labels: tuple[Ints, ...]
    root: tuple[NDArray[np.float32], Ints]
    test: tuple[NDArray[np.float32], Ints]

    @property
    def sizes(self) -> Ints:
        return np.array([len(labels) for labels in self.labels], dtype=np.int64)


@cache
def _all_digits() -> tuple[NDArray[np.float32], Ints]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return (digits.images / 16 - 0.5).astype(np.float32)[:, None], digits.target.astype(np.int64)


@lru_cache(maxsize=64)
def partition_digits(skew: Skew, clients: int, seed: int) -> Digits:
    """Split the digits into the root set, the test set, and the training sets of `clients` clients.

    A digit of the clients is used up to five times: as it is, and shifted by a pixel. With the skew `domains`, the
    images of each quarter of the clients, and of the test set, are also rotated.
    """
    (images, labels), streams = _all_digits(), Streams(seed)
    order = streams.generator("test_split").permutation(len(labels))
    root, test, rest = np.split(order, [ROOT, ROOT + TESTED])
    moves = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))
    more = np.concatenate([np.roll(images[rest], move, axis=(2, 3)) for move in moves])
    classes = np.tile(labels[rest], len(moves))
    shares = PARTITIONS[skew].assign(classes, clients, SAMPLES, streams.generator("partition"))

    def turned(images: NDArray[np.float32], turn: int) -> NDArray[np.float32]:
        return np.ascontiguousarray(np.rot90(images, turn % 4 if skew == "domains" else 0, axes=(2, 3)))

    return Digits(
        tuple(turned(more[share], client) for client, share in enumerate(shares)),
        tuple(classes[share] for share in shares),
        (images[root], labels[root]),
        (
            np.concatenate([turned(images[test[part::4]], part) for part in range(4)]),
            np.concatenate([labels[test[part::4]] for part in range(4)]),
        ),
    )


def initial_model(streams: Streams) -> Vector:
    """Draw the initial model, (N_PARAMETERS,): weights from N(0, 1 / inputs), biases 0."""
    random = streams.generator("initial_model")
    first = random.standard_normal(PIXELS * HIDDEN) / np.sqrt(PIXELS)
    second = random.standard_normal(HIDDEN * CLASSES) / np.sqrt(HIDDEN)
    parts = (first, np.zeros(HIDDEN), second, np.zeros(CLASSES))
    return np.concatenate(parts).astype(np.float32)


def _layers(models: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Split `models` (n, N_PARAMETERS) into the weights and biases of both layers, with n as first dimension."""
    cuts = np.cumsum([PIXELS * HIDDEN, HIDDEN, HIDDEN * CLASSES])
    one, first, two, second = np.split(models, cuts, axis=1)
    n = len(models)
    return one.reshape(n, PIXELS, HIDDEN), first[:, None], two.reshape(n, HIDDEN, CLASSES), second[:, None]


def gradients(models: Vector, images: NDArray[np.float32], labels: Ints) -> Vector:
    """Compute the gradients of the mean cross-entropy of `models`, both (n, N_PARAMETERS).

    `images`: (n, batch, PIXELS); `labels`: (n, batch).
    """
    one, first, two, second = _layers(models)
    hidden = np.maximum(images @ one + first, 0)
    scores = hidden @ two + second
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))
    wrong = scores / scores.sum(axis=2, keepdims=True)
    np.put_along_axis(wrong, labels[:, :, None], np.take_along_axis(wrong, labels[:, :, None], axis=2) - 1, axis=2)
    wrong /= labels.shape[1]
    back = (wrong @ two.transpose(0, 2, 1)) * (hidden > 0)
    n = len(models)
    parts = (
        (images.transpose(0, 2, 1) @ back).reshape(n, -1),
        back.sum(axis=1),
        (hidden.transpose(0, 2, 1) @ wrong).reshape(n, -1),
        wrong.sum(axis=1),
    )
    return np.concatenate(parts, axis=1).astype(np.float32)


def train_clients(bases: Vector, images: NDArray[np.float32], labels: Ints) -> Vector:
    """Train `bases` for STEPS steps and return the updates, both (n, N_PARAMETERS).

    `images`: (n, STEPS, BATCH, PIXELS). `labels`: (n, STEPS, BATCH).
    """
    models = bases.copy()
    for step in range(STEPS):
        descent = gradients(models, images[:, step], labels[:, step])
        lengths = np.sqrt(np.einsum("ij,ij->i", descent, descent))
        models -= (LR / np.maximum(lengths / CLIP, 1.0))[:, None].astype(np.float32) * descent
    return models - bases


def gradient_on(images: NDArray[np.float32], labels: Ints) -> Callable[[Vector], Vector]:
    """Return a function from a model (N_PARAMETERS,) to its gradient on these samples, images (n, 1, 8, 8)."""
    rows = images.reshape(1, len(images), PIXELS)
    return lambda model: gradients(model[None], rows, labels[None])[0]


def correct_predictions(models: Vector, images: NDArray[np.float32], labels: Ints) -> Bools:
    """Return which of `images` (m, 1, 8, 8) each of `models` (n, N_PARAMETERS) classifies correctly, (n, m)."""
    one, first, two, second = _layers(np.asarray(models, dtype=np.float32))
    hidden = np.maximum(images.reshape(1, len(images), PIXELS) @ one + first, 0)
    return np.asarray((hidden @ two + second).argmax(axis=2) == labels)
