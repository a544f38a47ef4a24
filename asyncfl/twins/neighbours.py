"""Neighbouring data of a client: which sample is replaced, and by what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.data import FederatedData
from asyncfl.evaluation import OF_SAMPLES, Twin

Image = NDArray[np.float32]

MOST_OF_ASCENT = 8
"""Twins that gradient ascent finds for a client: each costs many times what another costs."""
MOST_PARTNERS = 8
"""Other clients with whom a client exchanges its data."""


@dataclass(frozen=True, eq=False)
class Neighbour:
    """Data that a client might have had instead of its own."""

    kind: Twin
    number: int
    """Among those of the client, in the order in which they are tried."""
    sample: int = -1
    """Which of the client's samples is another; -1: all are."""
    image: Image | None = None
    """(channels, height, width) what stands in its place."""
    label: Any = -1
    """Its label: a class, or (outputs,) numbers of a regression."""
    partner: int = -1
    """Client whose data it has instead of its own; -1: it has those of nobody."""

    @property
    def unit(self) -> str:
        """What is another: `sample` or `client`."""
        return "sample" if self.kind in OF_SAMPLES else "client"

    def data(self, federated: FederatedData, client: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Images (m, channels, height, width) and labels (m,) that the client trains on, as many as its own.

        Those of a partner with fewer samples come several times, of those of one with more the first are taken.
        """
        images, labels = federated.client(client)
        if self.partner >= 0:
            theirs, named = federated.client(self.partner)
            places = np.arange(len(labels)) % len(named)
            return theirs[places], named[places]
        if self.image is not None:
            images, labels = images.copy(), labels.copy()
            images[self.sample], labels[self.sample] = self.image, self.label
        return images, labels

    @property
    def said(self) -> str:
        """What is another, in words."""
        if self.kind == "zeroed":
            return "all data are left out, so that the update is zero"
        if self.partner >= 0:
            return f"all data are those of client {self.partner}"
        return f"sample {self.sample} is replaced ({self.kind}), the other one has label {shown(self.label)}"


def shown(label: Any) -> str:
    """A class, or the numbers of a regression, in words."""
    return str(label) if isinstance(label, int) else ", ".join(f"{one:g}" for one in np.atleast_1d(label).tolist())


def neighbours(
    federated: FederatedData, client: int, kinds: Sequence[Twin], twins: int, random: np.random.Generator
) -> Iterator[Neighbour]:
    """About `twins` neighbouring data sets of a client, as many of each kind in `kinds` but for those there are fewer
    of; at least one of each. Those of `ascent` are where ascent begins.

    Images come from the test set of the client's domain, which no client holds.
    """
    each = max(1, twins // len(kinds))
    own = federated.samples(client)
    others = np.delete(np.arange(federated.clients), client)
    pool = federated.test_of(int(federated.client_domains[client]))
    low, high = federated.feature_range()
    number = 0
    for kind in kinds:
        if kind == "zeroed":
            yield Neighbour(kind, number)
            number += 1
            continue
        if kind == "exchanged":
            for partner in random.permutation(others)[: min(each, MOST_PARTNERS)].tolist():
                yield Neighbour(kind, number, partner=partner)
                number += 1
            continue
        for _ in range(min(each, MOST_OF_ASCENT) if kind == "ascent" else each):
            sample, drawn = int(random.integers(own)), int(random.integers(len(pool[1])))
            label = int(pool[1][drawn]) if federated.classes else pool[1][drawn]
            wrong = federated.random_wrong_label(label, random)
            image, given = pool[0][drawn], label
            if kind == "mislabelled":
                given = wrong
            elif kind == "noise":
                image = random.uniform(low, high, image.shape).astype(np.float32)
                given = wrong
            elif kind in ("brightest", "ascent"):
                image = np.broadcast_to(high, image.shape).astype(np.float32)
                given = wrong
            yield Neighbour(kind, number, sample, image, given)
            number += 1
