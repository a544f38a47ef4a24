"""Costs of a task in computation and traffic."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.compression import BYTES_PER_NUMBER
from asyncfl.federation.tasks_in_flight import Workload
from asyncfl.scenario import Scenario


def workload_of(scenario: Scenario, sizes: NDArray[np.int64]) -> Workload:
    """Return the costs of a task in `scenario`. `sizes`: (clients,) training samples of each client."""
    n_parameters = scenario.n_parameters
    return Workload(
        samples=sizes,
        epochs=scenario.training.epochs,
        payload_bytes=BYTES_PER_NUMBER * n_parameters,
        download_bytes=scenario.download_compression.payload_bytes(n_parameters),
        upload_bytes=scenario.compression.payload_bytes(n_parameters),
        deadline_s=scenario.training.deadline_s,
    )
