"""State of an algorithm at the server of one run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asyncfl.algorithms import AcceptedUpdates, Algorithm, Payloads
from asyncfl.algorithms.algorithm import ServerState, declared, sent
from asyncfl.base.answers import numbers, require, with_state
from asyncfl.base.arrays import Vector


class AlgorithmState:
    """Server's half of an algorithm, with its state. It is pickled with the server."""

    def __init__(self, algorithm: Algorithm, n_parameters: int, clients: int) -> None:
        self.algorithm = algorithm
        self.payloads = Payloads() if algorithm.off else declared(algorithm, n_parameters)
        """Declaration of the vectors that are exchanged."""
        self._state: ServerState = {} if algorithm.off else algorithm.start(n_parameters, clients)
        require(isinstance(self._state, Mapping), algorithm, "start", "must return arrays by name", self._state)

    def apply(self, model: Vector, current: Vector, accepted: AcceptedUpdates) -> Vector:
        """Return the next model in place of `model`, and store the next state.

        `model`: (n_parameters,) that follows `current` with the aggregate and the server's noise.
        """
        algorithm = self.algorithm
        answer = algorithm.apply(self._state, model - current, accepted)
        step, state = with_state(algorithm, "apply", answer, np.ndarray)
        require(isinstance(state, Mapping), algorithm, "apply: state", "must be arrays by name", state)
        self._state = state
        return np.asarray(current + numbers(algorithm, "apply: step", step, current.shape), dtype=np.float32)

    def download(self) -> dict[str, Vector]:
        """Return the vectors that are sent with the next version, read-only."""
        if self.algorithm.off:
            return {}
        vectors = sent(self.algorithm, "download", self.algorithm.download(self._state), self.payloads.downloads)
        # Clients keep them while the state goes on, whose arrays they may be.
        vectors = {name: vector.copy() for name, vector in vectors.items()}
        for vector in vectors.values():
            vector.flags.writeable = False
        return vectors
