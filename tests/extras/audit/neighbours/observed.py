"""Runs with an observer of twins."""

from typing import Any

from asyncfl.extras.audit.neighbours import TwinsObserver
from asyncfl.extras.audit.neighbours.observer import AuditedTask
from asyncfl.measurements import TwinAudit
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_seed

TINY: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 2, "samples_per_client": 10, "source": "embedded", "test_samples": 20},
    "model": {"kind": "mlp", "hidden": []},
    "training": {"lr": 0.1, "batch_size": "full"},
    "protocol": {"kind": "sync", "rounds": 1},
}


def observed(changes: dict[str, Any], **audit: Any) -> tuple[TwinsObserver, Any]:
    observer = TwinsObserver(TwinAudit(**audit))
    return observer, simulate_seed(Scenario.read(TINY).override(changes), 0, [observer])


def first_task(observer: TwinsObserver) -> AuditedTask:
    return next(iter(observer.clients[0].tasks.values()))
