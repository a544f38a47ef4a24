"""The learning task: scikit-learn's handwritten digits, shared evenly among the clients."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

TEST = 297


def net() -> nn.Module:
    """Build an untrained network; it has the same weights in each call."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def digits(client: int | None, clients: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images (n, 64) and labels (n,) of one client; `client=None`: of the test set."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    return (x[-TEST:], y[-TEST:]) if client is None else (x[:-TEST][client::clients], y[:-TEST][client::clients])


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int = 3) -> float:
    """Train with SGD, and return the mean loss of the last epoch."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    total = 0.0
    for _ in range(epochs):
        total = 0.0
        for part in torch.randperm(len(x)).split(20):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(x[part]), y[part])
            loss.backward()
            optimiser.step()
            total += float(loss) * len(part)
    return total / len(x)


def evaluate(model: nn.Module) -> dict[str, float]:
    """Return loss and accuracy on the test set."""
    x, y = digits(None)
    with torch.no_grad():
        logits = model(x)
    loss = float(nn.functional.cross_entropy(logits, y))
    return {"test_loss": loss, "test_accuracy": float((logits.argmax(1) == y).float().mean())}
