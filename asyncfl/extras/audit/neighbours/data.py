"""Neighbouring data of a client: which sample is replaced, and by what.

A replaced sample changes an update, to first order, by the sum over its steps of the difference of its gradient from
that of the sample it replaces. So gradient ascent climbs

    f(x, y) = |grad l(w; x, y) - grad l(w; x_j, y_j)|^2

by steps of its sign within the range of pixels, at w, the model that was trained on the recorded data, from the label
with the largest f.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.data import FederatedData
from asyncfl.learning import Learner
from asyncfl.learning.loss import loss_of
from asyncfl.learning.weights import module_with_parameters
from asyncfl.measurements import OF_SAMPLES, Twin

if TYPE_CHECKING:
    import torch

Image = NDArray[np.float32]

MOST_OF_ASCENT = 8  # twins that gradient ascent finds for a client: each costs many times as much as another
MOST_PARTNERS = 8
STEPS = 12
PART = 0.25  # length of the first step in parts of the pixels' range; the last is a tenth as long


@dataclass(frozen=True, eq=False)
class Neighbour:
    """Data that a client might have had instead of its own."""

    kind: Twin
    number: int  # number among the client's neighbours, in the order in which they are tried
    sample: int = -1  # index of the client's sample that is replaced; -1: all are
    image: Image | None = None  # (channels, height, width) image in its place
    label: Any = -1  # label in its place: a class, or (outputs,) numbers of a regression
    partner: int = -1  # client whose data it has instead of its own; -1: none

    def data(self, federated: FederatedData, client: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return images (m, channels, height, width) and labels (m,) to train on, as many as the client's own.

        The samples of a partner with fewer are repeated; of a partner with more the first are taken.
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
    def description(self) -> str:
        """Sentence on the data that differ."""
        if self.kind == "zeroed":
            return "all data are left out, so that the update is zero"
        if self.partner >= 0:
            return f"all data are those of client {self.partner}"
        label = self.label
        named = str(label) if isinstance(label, int) else ", ".join(f"{x:g}" for x in np.atleast_1d(label).tolist())
        return f"sample {self.sample} is replaced ({self.kind}), the other one has label {named}"


def neighbours(
    federated: FederatedData, client: int, kinds: Sequence[Twin], twins: int, random: np.random.Generator
) -> list[Neighbour]:
    """Return about `twins` neighbouring data sets of a client, shared among `kinds`, at least one of each.

    Those of `ascent` are where ascent begins. Images come from the test set of the client's domain, which no client
    holds.
    """
    each = max(1, twins // len(kinds))
    images, labels = federated.test_of(int(federated.client_domains[client]))
    low, high = federated.feature_range()
    found: list[Neighbour] = []
    for kind in kinds:
        if kind not in OF_SAMPLES:
            partners = (
                random.permutation(np.delete(np.arange(federated.clients), client)) if kind == "exchanged" else [-1]
            )
            some = partners[: min(each, MOST_PARTNERS)]
            found += [Neighbour(kind, len(found) + place, partner=int(one)) for place, one in enumerate(some)]
            continue
        for _ in range(min(each, MOST_OF_ASCENT) if kind == "ascent" else each):
            sample, drawn = int(random.integers(federated.samples(client))), int(random.integers(len(labels)))
            label = int(labels[drawn]) if federated.classes else labels[drawn]
            wrong = federated.random_wrong_label(label, random)
            image = images[drawn]
            if kind == "noise":
                image = random.uniform(low, high, image.shape).astype(np.float32)
            elif kind in ("brightest", "ascent"):
                image = np.broadcast_to(high, image.shape).astype(np.float32)
            found.append(Neighbour(kind, len(found), sample, image, label if kind == "ordinary" else wrong))
    return found


def furthest(
    learner: Learner,
    model: NDArray[np.float32],
    replaced: tuple[Image, Any],
    start: Image,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    labels: Sequence[Any],
) -> tuple[Image, Any]:
    """Find the image (channels, height, width) and label whose gradient at `model` is furthest from that of `replaced`.

    Ascent begins at the image `start`, stays within `low` and `high`, (channels, 1, 1) each, and tries `labels`. The
    best point on the way is returned, the start included. Where no gradient reaches the sample, as with the characters
    of a text, that is the start, with the label that is furthest there.
    """
    import torch

    module = module_with_parameters(learner.model, learner.shape, learner.n_outputs, model)
    weights = list(module.parameters())

    def gradient(image: torch.Tensor, label: Any, graph: bool) -> tuple[torch.Tensor, ...]:
        loss = loss_of(module(image[None]), torch.from_numpy(np.asarray(label)[None]))
        return torch.autograd.grad(loss, weights, create_graph=graph)

    away = gradient(torch.from_numpy(replaced[0].copy()), replaced[1], False)

    def squared(image: torch.Tensor, label: Any, graph: bool) -> torch.Tensor:
        pairs = zip(gradient(image, label, graph), away, strict=True)
        return torch.stack([(g - a).square().sum() for g, a in pairs]).sum()

    image = found = torch.from_numpy(start.copy())
    label = max(labels, key=lambda one: squared(image, one, False).item())
    least, most = (torch.from_numpy(np.asarray(edge, np.float32)) for edge in (low, high))
    best = -1.0
    for step in range(STEPS + 1):
        image = image.detach().requires_grad_()
        value = squared(image, label, True)
        if value.item() > best:
            best, found = value.item(), image.detach()
        if step < STEPS:
            [slope] = torch.autograd.grad(value, image, allow_unused=True)
            if slope is None:
                break
            length = PART * (most - least) * 0.1 ** (step / STEPS)
            image = torch.minimum(torch.maximum(image + length * slope.sign(), least), most)
    return found.numpy().copy(), label
