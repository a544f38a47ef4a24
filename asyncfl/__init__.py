"""asyncfl: simulate federated learning that is private, attacked and late.

>>> from asyncfl import Scenario, simulate
>>> run = simulate(Scenario.load("scenario.yaml"))
>>> run.rounds
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncfl.base.errors import AsyncflError, DataError, Fault, OutputError, RunError, ScenarioError

if TYPE_CHECKING:
    from asyncfl.api import execute, simulate, timeline
    from asyncfl.base.instrument import Instrument
    from asyncfl.results.storage import Run
    from asyncfl.scenario import Scenario

_ELSEWHERE = {
    "Instrument": "asyncfl.base.instrument",
    "RowCallback": "asyncfl.base.instrument",
    "Run": "asyncfl.results.storage",
    "Scenario": "asyncfl.scenario",
    "execute": "asyncfl.api",
    "simulate": "asyncfl.api",
    "timeline": "asyncfl.api",
}

__all__ = [
    "AsyncflError",
    "DataError",
    "Fault",
    "Instrument",
    "OutputError",
    "RowCallback",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "execute",
    "simulate",
    "timeline",
]


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet: notebooks complete them."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import and return a public name at its first use, so that `import asyncfl` stays fast."""
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'asyncfl' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE[name]), name)
