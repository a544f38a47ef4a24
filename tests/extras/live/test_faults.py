"""Settings that real clients cannot carry out are refused before a run begins."""

from typing import Any

import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.extras.live.clock import LiveTiming
from asyncfl.scenario import Scenario
from tests.extras.live.conftest import SMALL, hold_seed

DEADLINE = {"training.epochs": 3, "training.deadline_s": 5.0, "protocol.partial_work": "normalised"}
ONE_MACHINE = {"world.workers": 2, "world.processors": 1.5, "world.aggregate_alone": True}
PERSONAL = {"model.personal": ["3.*"]}


def nothing(*_: Any) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("here", "shape", "changes", "told"),
    [
        # Clients know nothing of each other.
        (True, False, {"privacy": {"kind": "nbafl", "epsilon": 60, "exposures": 1}},
         ["privacy.clip_norm: must be a number, no client knows the norms of the others"]),
        (True, False, {"threats": {"attack": {"kind": "alie"}, "attackers": 0.2}},
         ["threats.attack: must know its own update only"]),
        (True, False, {"evaluation.audit": {"clients": 1, "twins": 2}},
         ["evaluation.audit: must be null: it trains on clients' data"]),
        (True, False, {"protocol.secure_aggregation": {"kind": "lightsecagg", "threshold": 2}},
         ["protocol.secure_aggregation: must be null, live clients do not mask their updates, got lightsecagg"]),
        # Whoever trains all epochs and claims one would count for three.
        (True, False, DEADLINE, ["protocol.partial_work: must be whole or work where clients stop by"]),
        # Nor do they share resources.
        (True, True, ONE_MACHINE | {"world.uplink.server_bandwidth_bps": 1e6},
         ["world.workers: must be null, real clients wait each for itself, got 2",
          "world.processors: must be null, real clients compute each for itself, got 1.5",
          "world.aggregate_alone: must be false, a real server hears its clients while it waits as the world says",
          "world.uplink.server_bandwidth_bps: must be .inf, no client knows what others send, got 1e+06"]),
        # Nor its own layers.
        (False, False, PERSONAL | {"evaluation.keep": "last"},
         ["evaluation.keep: must be none where model.personal is set"]),
        (False, False, PERSONAL | {"evaluation.metrics": {"mine": "tests.extras.live.test_faults:nothing"}},
         ["evaluation.metrics: must be empty"]),
        (False, False, PERSONAL | {"evaluation.clients_every": 1},
         ["evaluation.clients_every: must be 0 where model.personal is set, got 1"]),
    ],
)  # fmt: skip
def test_what_needs_knowledge_of_other_clients_is_refused(
    here: bool, shape: bool, changes: dict[str, Any], told: list[str]
) -> None:
    async def scene(*_: Any) -> None:
        raise AssertionError("it began")

    with pytest.raises(ScenarioError) as caught:
        hold_seed(Scenario.read(SMALL).override(changes), scene, timing=LiveTiming(shape=shape), here=here)
    faults = [str(fault) for fault in caught.value.faults]
    assert len(faults) == len(told)
    assert all(fault.startswith(start) for fault, start in zip(faults, told, strict=True)), faults
