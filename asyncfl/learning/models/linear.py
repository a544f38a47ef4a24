"""Linear models for classification (logistic regression) and regression."""

from __future__ import annotations

from typing import Literal

from asyncfl.learning.models.mlp import Layered


class Linear(Layered):
    """One linear layer on the flattened input: softmax (logistic) regression for classes, least squares for numbers.

    A client's loss is convex in the parameters, as most theorems on federated learning require.
    """

    kind: Literal["linear"] = "linear"
