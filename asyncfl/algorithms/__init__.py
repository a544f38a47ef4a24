"""Algorithms: the vectors that clients and server exchange beside model and update, and their use on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.algorithms.adaptive_server import FedAdagrad, FedAdam, FedYogi
from asyncfl.algorithms.algorithm import AcceptedUpdates, Algorithm, FedAvg, Payload, Payloads
from asyncfl.algorithms.ca2fl import Ca2fl
from asyncfl.algorithms.ditto import Ditto
from asyncfl.algorithms.dp_scaffold import DpScaffold
from asyncfl.algorithms.fadas import Fadas
from asyncfl.algorithms.feddyn import FedDyn
from asyncfl.algorithms.fednova import FedNova
from asyncfl.algorithms.local_task import LocalTask
from asyncfl.algorithms.mifa import Mifa
from asyncfl.algorithms.scaffold import Scaffold
from asyncfl.algorithms.server_momentum import FedAvgM
from asyncfl.base.component import choice

ALGORITHMS: tuple[type[Algorithm], ...] = (
    *(FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi, Fadas),
    *(Scaffold, DpScaffold, FedNova, FedDyn, Mifa, Ca2fl, Ditto),
)
"""All algorithms of ours; each can be made without settings."""

if TYPE_CHECKING:
    AnyAlgorithm = Algorithm
else:
    AnyAlgorithm: Any = choice(Algorithm, *ALGORITHMS)

__all__ = ["ALGORITHMS", "AcceptedUpdates", "Algorithm", "AnyAlgorithm", "FedAvg", "LocalTask", "Payload", "Payloads"]
