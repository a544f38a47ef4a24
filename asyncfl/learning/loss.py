"""The loss that training minimises: cross-entropy for classes, squared error for regression.

The labels decide: classes are (n,) int64, numbers to predict (n, outputs) float32. The squared error of a sample is the
mean over its outputs of (output - label)^2, without a factor of 1/2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Reduction = Literal["none", "mean", "sum"]


def is_regression(labels: NDArray[Any]) -> bool:
    """Whether the labels are numbers to predict instead of classes."""
    return labels.dtype.kind == "f"


def loss_of(outputs: torch.Tensor, labels: torch.Tensor, reduction: Reduction = "mean") -> torch.Tensor:
    """Compute the loss (n,) of each sample, or their mean or sum, from the model's outputs (n, outputs)."""
    from torch.nn.functional import cross_entropy

    if not labels.is_floating_point():
        return cross_entropy(outputs, labels, reduction=reduction)
    each = (outputs - labels).square().mean(1)
    return each if reduction == "none" else each.mean() if reduction == "mean" else each.sum()


def loss_slope(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute the derivative (n, outputs) of each sample's loss with respect to each output."""
    import torch

    if labels.is_floating_point():
        return (outputs - labels) * (2 / outputs.shape[1])
    return torch.softmax(outputs, 1) - torch.nn.functional.one_hot(labels, outputs.shape[1]).to(outputs.dtype)
