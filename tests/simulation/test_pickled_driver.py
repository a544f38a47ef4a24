"""A driver that is pickled between two steps of the clock goes on to the same events."""

import pickle
import random
from collections.abc import Callable
from typing import Any

import pytest

from asyncfl.defences import Safl, Strikes
from asyncfl.protocol import Buffered, Sync
from asyncfl.protocol.dispatch import CohortDispatch, ContinuousDispatch, OpenDeadline, OpenPoll
from asyncfl.simulation.driver import Driver

LOSSY = {"latency_s": 0.1, "bandwidth_bps": 64.0, "mtu_bytes": 4, "loss": {"kind": "independent", "probability": 0.2}}
AWAY = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 8.0}, "off_s": 2.0}
TAP = {"uplink": True, "downlink": True, "scoring": True, "packet_loss": 0.1}
DEVICE = {"kind": "exponential", "mean_s_per_sample": 0.02}
OWN: dict[str, Any] = {"device": DEVICE, "uplink": LOSSY, "downlink": LOSSY, "availability": AWAY, "tap": TAP}
SHARED: dict[str, Any] = {
    **OWN,
    **{way: {**LOSSY, "server_bandwidth_bps": 128.0} for way in ("uplink", "downlink")},
    "dropout_per_s": 0.02,
    "processors": 2.5,
    "workers": 2,
    "turnaround_s": 0.1,
    "aggregate_s": 0.5,
    "evaluate_s": 0.5,
    "evaluate_beside": True,
}
SERIAL = Buffered(rounds=8, buffer=2, dispatch=ContinuousDispatch(), scoring="serial", time_limit_s=300.0)


@pytest.mark.parametrize(
    ("protocol", "world", "defence"),
    [
        (Sync(rounds=8, participants=4, open=OpenDeadline(seconds=4.0)), OWN, {}),
        (Sync(rounds=8, open=OpenPoll(at_least=2, poll_s=3.0), late="carry", per_client=1), OWN, {}),
        (Buffered(rounds=8, buffer=2, dispatch=CohortDispatch(participants=4)), {**OWN, "dropout": 0.2}, {}),
        (Buffered(rounds=12, buffer=1, dispatch=ContinuousDispatch()), OWN, {"every_task": True}),
        (SERIAL, OWN, {"detector": Safl(), "strikes": Strikes(), "loud": (1,)}),
        (SERIAL, SHARED, {"detector": Safl(), "broken": (2,)}),
        (SERIAL, {**SHARED, "aggregate_alone": True, "evaluate_beside": False}, {}),
        (SERIAL, {**SHARED, "evaluate_at": "clients", "evaluate_beside": False}, {}),
    ],
    ids=["deadline", "poll", "cohorts", "every-task", "scores", "shared", "aggregates-alone", "clients-evaluate"],
)
def test_a_pickled_driver_goes_on_to_the_same_events(
    federation: Callable[..., Driver], protocol: Any, world: dict[str, Any], defence: dict[str, Any]
) -> None:
    undisturbed = federation(protocol, world, **defence)
    reason, steps = undisturbed.run(), 0
    driver = federation(protocol, world, **defence)
    driver.begin()
    pickled: set[str] = set()
    while driver.goes_on:
        if steps % 17 == 0:
            pickled |= {type(process).__name__ for process in driver.clock.processes}
            driver = pickle.loads(pickle.dumps(driver))
        driver.clock.step()
        steps += 1
    assert driver.end() == reason
    assert steps > 100
    assert ("ClientEvaluation" in pickled) == (world.get("evaluate_at") == "clients")
    ours, theirs = (one.clock.recorder.table().to_pandas() for one in (driver, undisturbed))
    assert ours.equals(theirs)
    assert driver.traffic == undisturbed.traffic


TIED: dict[str, Any] = {
    "device": {"kind": "fixed", "s_per_sample": 0.01},
    "uplink": {"latency_s": 0.5},
    "downlink": {"latency_s": 0.5},
    "availability": {"kind": "alternating", "on_s": 9.0, "off_s": 2.0},
    "failure_detection": {"kind": "lease", "seconds": 1.0},
    "workers": 3,
    "turnaround_s": 0.5,
    "aggregate_s": 0.5,
}
COHORTS = Sync(rounds=8, participants=6, open=OpenDeadline(seconds=4.0), time_limit_s=200.0)
WORLDS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (SERIAL, SHARED, {"detector": Safl(), "broken": (2,)}),
    (SERIAL, TIED, {"detector": Safl(), "strikes": Strikes()}),
    (SERIAL, {**TIED, "processors": 2.0, "evaluate_s": 0.5, "evaluate_beside": True}, {"detector": Safl()}),
    (COHORTS, {**TIED, "failure_detection": {"kind": "instant"}}, {}),
    (COHORTS, {**SHARED, "availability": {"kind": "always"}, "dropout": 0.2}, {}),
]


@pytest.mark.parametrize("number", [*range(25), *(pytest.param(one, marks=pytest.mark.long) for one in range(25, 150))])
def test_a_driver_pickled_at_random_steps_goes_on_to_the_same_events(
    federation: Callable[..., Driver], number: int
) -> None:
    protocol, world, more = WORLDS[number % len(WORLDS)]
    undisturbed, driver = (federation(protocol, world, seed=number, **more) for _ in range(2))
    reason, chosen = undisturbed.run(), random.Random(number)
    driver.begin()
    while driver.goes_on:
        if chosen.random() < 0.2:
            driver = pickle.loads(pickle.dumps(driver))
        driver.clock.step()
    assert (driver.end(), driver.clock.now) == (reason, undisturbed.clock.now)
    ours, theirs = (one.clock.recorder.table().to_pandas() for one in (driver, undisturbed))
    assert ours.equals(theirs)
    assert driver.traffic == undisturbed.traffic
