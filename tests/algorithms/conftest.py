from typing import Any

import pytest

from asyncfl.scenario import Scenario
from tests.algorithms.control_variate import ControlVariate


@pytest.fixture
def description() -> dict[str, Any]:
    """Four clients with control variates, asynchronously."""
    return {
        "data": {"dataset": "digits", "clients": 4, "samples_per_client": 24},
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {"batch_size": 8, "epochs": 2, "lr": 0.05},
        "protocol": {"kind": "fedbuff", "rounds": 4, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 3}},
        "algorithm": ControlVariate(),
    }


@pytest.fixture
def scenario(description: dict[str, Any]) -> Scenario:
    return Scenario.read(description)
