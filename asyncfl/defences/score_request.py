"""The request of a detector that a client scores models."""

from __future__ import annotations

from typing import Annotated

from asyncfl.base.arrays import Vector
from asyncfl.base.disclosure import Released
from asyncfl.base.message import ClientNumber, Message, ServerNumber


class ScoreRequest(Message, frozen=True):
    """Ask `client` to score `models` by their accuracy on its data; `ScoresArrived` answers it.

    `models`: (n_models, n_parameters) float32, buffered models and decoys in the order in which they are sent.
    `request`: number of the request, which its answer repeats; the server gives it.
    """

    client: ClientNumber
    models: Annotated[Vector, Released("the updates with the noise of their clients")]
    request: ServerNumber = -1
