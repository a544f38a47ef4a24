"""The data that a simulation uses: each client's samples in one array, the test set, the server's samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from asyncfl.data.canaries import PlantedCanaries, farthest_label
from asyncfl.data.sample_source import Array, Floats, Ints, Rng

_ROWS = 4096  # samples that are processed at once

Source = Literal["real", "embedded"]


@dataclass(frozen=True)
class FederatedData:
    """Samples of all clients, one client after another, and the test set.

    Simulations in one process may share the arrays: code that changes samples (an attack) must copy them first.
    """

    images: Floats
    """(n_samples, *shape), for images (n_samples, channels, height, width); scaled, C-contiguous. Samples that stay on
    disk are read when rows are indexed (`MappedRows`)."""
    labels: Array
    """(n_samples,) int64, 0..classes-1; for a regression (n_samples, outputs) float32."""
    offsets: Ints
    """(clients + 1,): client i holds samples offsets[i] to offsets[i + 1] - 1."""
    test_images: Floats
    """(n_test, *shape), scaled in the same way."""
    test_labels: Array
    """(n_test,), or (n_test, outputs)."""
    classes: int
    """Number of classes; 0 for a regression."""
    source: Source
    provenance: str
    """Origin of the samples in one line, for captions."""
    original: bool
    """Whether the samples come from the complete data set on which the papers report results."""
    domains: tuple[str, ...]
    """Names of the domains; a single data set is one domain, and so are mixed domains."""
    client_domains: Ints
    """(clients,): index of each client's domain."""
    test_offsets: Ints
    """(domains + 1,): domain k is tested on samples test_offsets[k] to test_offsets[k + 1] - 1."""
    root: tuple[Floats, Array] | None = None
    """Images and labels of the server's own trusted samples, which no client holds and no test uses; None: none."""
    canaries: PlantedCanaries | None = None
    """Canaries among the samples or the clients; None: no canaries."""

    @property
    def zeroed_clients(self) -> frozenset[int]:
        """Clients whose updates count as zero: canary clients that are left out."""
        return frozenset() if self.canaries is None else self.canaries.zeroed

    def left_out(self, client: int) -> Ints | None:
        """Return the numbers of the client's samples that count as zero in each Poisson batch; None for none."""
        return None if self.canaries is None else self.canaries.left_out.get(client)

    @property
    def clients(self) -> int:
        return len(self.offsets) - 1

    @property
    def outputs(self) -> int:
        """Number of model outputs: one per class, or the numbers that a regression predicts."""
        return self.classes or int(self.labels.shape[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample; for an image channels, height and width."""
        return self.images.shape[1:]

    @property
    def inputs_are_constant(self) -> bool:
        """Whether all samples of the clients have the same inputs."""
        first = self.images[:1]
        starts = range(0, len(self.images), _ROWS)
        return len(self.images) > 1 and all((self.images[at : at + _ROWS] == first).all() for at in starts)

    def feature_range(self) -> tuple[Floats, Floats]:
        """Return the smallest and the largest number that clients hold, per channel (first axis of a sample), in a
        shape that broadcasts over samples: (channels, 1, 1) for images."""
        wide = (-1, *(1 for _ in self.shape[1:]))
        axes = tuple(axis for axis in range(self.images.ndim) if axis != 1)
        ends = []
        for start in range(0, len(self.images), _ROWS):
            part = self.images[start : start + _ROWS]
            ends.append((part.min(axes), part.max(axes)))
        low, high = (np.array(end) for end in zip(*ends, strict=True))
        return low.min(0).reshape(wide), high.max(0).reshape(wide)

    def random_wrong_label(self, label: Any, random: Rng) -> Any:
        """Draw another class uniformly; for a regression return the end of the clients' range that is farther away."""
        if self.classes:
            return (label + int(random.integers(1, max(2, self.classes)))) % self.classes
        return farthest_label(np.asarray(label), self.labels)

    @property
    def extreme_labels(self) -> list[Any]:
        """All classes; for a regression the smallest and the largest numbers that clients hold."""
        return list(range(self.classes)) if self.classes else [self.labels.min(0), self.labels.max(0)]

    def samples(self, client: int) -> int:
        """Return the number of samples of a client."""
        return int(self.offsets[client + 1] - self.offsets[client])

    @property
    def sizes(self) -> Ints:
        """(clients,): number of samples of each client."""
        return np.diff(self.offsets)

    def client(self, client: int) -> tuple[Floats, Array]:
        """Return images (m, *shape) and labels (m,) of a client, as views."""
        part = slice(int(self.offsets[client]), int(self.offsets[client + 1]))
        return self.images[part], self.labels[part]

    def test_of(self, domain: int) -> tuple[Floats, Array]:
        """Return test images and labels of one domain, as views."""
        part = slice(int(self.test_offsets[domain]), int(self.test_offsets[domain + 1]))
        return self.test_images[part], self.test_labels[part]


def concatenate(parts: list[Array]) -> Array:
    """Concatenate arrays; a single array is returned itself, not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def offsets_from_sizes(sizes: list[int]) -> Ints:
    """Return the start (n + 1,) of each of n consecutive parts of these sizes, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
