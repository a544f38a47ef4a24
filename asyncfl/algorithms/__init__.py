"""Algorithms: the vectors that clients and server exchange beside model and update, and their use on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.algorithms.algorithm import Algorithm, FedAvg, Payload, Payloads
from asyncfl.base.component import choice

if TYPE_CHECKING:
    AnyAlgorithm = Algorithm
else:
    AnyAlgorithm: Any = choice(Algorithm, FedAvg)

__all__ = ["Algorithm", "AnyAlgorithm", "FedAvg", "Payload", "Payloads"]
