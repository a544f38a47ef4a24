"""The sample that moves a model furthest, found by gradient ascent.

What a replaced sample changes in an update is, to first order, the sum over the steps that it takes part in of what its
gradient differs by from that of the sample it replaces. So

    f(x, y) = |grad l(w; x, y) - grad l(w; x_j, y_j)|^2

is climbed by steps of its sign within the range of pixels, at w, the model that was trained on the recorded data, from
the label with the largest f. The twin that is found is then trained and measured as all others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.learning import Learner
from asyncfl.learning.loss import loss_of

STEPS = 12
"""Steps of ascent."""
PART = 0.25
"""Length of the first step in parts of the pixels' range; the last is a tenth as long."""


def furthest(
    learner: Learner,
    model: NDArray[np.float32],
    replaced: tuple[NDArray[np.float32], Any],
    start: NDArray[np.float32],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    labels: Sequence[Any],
) -> tuple[NDArray[np.float32], Any]:
    """Image (channels, height, width) and label that differ most from the sample `replaced` in their gradients at
    `model` (n_parameters,), found from the image `start`.

    `low`, `high`: (channels, 1, 1) range of pixels, see `FederatedData.feature_range`. `labels`: those that are tried.
    The best point on the way is taken, the start included. Where no gradient reaches the sample, as with the characters
    of a text, that is the start, with the label that is furthest there.
    """
    import torch

    with torch.random.fork_rng(devices=[]):  # its initial values are drawn from a generator that is not ours
        module = learner.model.module(learner.shape, learner.n_outputs)
    flat, place = torch.from_numpy(model.copy()), 0
    weights = list(module.parameters())
    with torch.no_grad():
        for weight in weights:
            weight.copy_(flat[place : place + weight.numel()].view_as(weight))
            place += weight.numel()

    def gradient(image: torch.Tensor, label: Any, graph: bool) -> tuple[torch.Tensor, ...]:
        loss = loss_of(module(image[None]), torch.from_numpy(np.asarray(label)[None]))
        return torch.autograd.grad(loss, weights, create_graph=graph)

    away = gradient(torch.from_numpy(replaced[0].copy()), replaced[1], False)

    def squared(image: torch.Tensor, label: Any, graph: bool) -> torch.Tensor:
        parts = gradient(image, label, graph)
        return torch.stack([(g - a).square().sum() for g, a in zip(parts, away, strict=True)]).sum()

    first = torch.from_numpy(start.copy())
    label = max(labels, key=lambda one: squared(first, one, False).item())
    least, most = (torch.from_numpy(np.asarray(edge, np.float32)) for edge in (low, high))
    image, best, found = first, -1.0, first
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
