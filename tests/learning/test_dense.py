from __future__ import annotations

import pytest
import torch

from asyncfl.learning.dense import Stack, padded
from asyncfl.learning.direct import mean_loss
from asyncfl.learning.training import Training


def test_squared_norm_is_that_of_autograds_gradient() -> None:
    widths = (5, 4, 3)
    stack = Stack(widths, Training(), own_input=False)
    flat = torch.randn(39, generator=torch.Generator().manual_seed(0))
    stack.start(flat)
    x = torch.zeros(6, padded(5))
    x[:, :5] = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    x[:, 5] = 1
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    onehot = torch.eye(3)[labels]
    batch, logits = stack.batch(6), torch.empty(6, 3)
    with torch.no_grad():
        stack.forward(batch, x, logits)
        stack.backward(batch, logits, onehot)
        squared = stack.squared_norm(batch, x)

    weights = flat.clone().requires_grad_()
    hidden = (x[:, :5] @ weights[:20].view(4, 5).T + weights[20:24]).relu()
    out = hidden @ weights[24:36].view(3, 4).T + weights[36:]
    loss = torch.nn.functional.cross_entropy(out, labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, weights)
    assert squared == pytest.approx(float(gradient.square().sum()), rel=1e-5)
    assert mean_loss(logits, onehot, squared=False) == pytest.approx(loss.item() / 6, rel=1e-5)
