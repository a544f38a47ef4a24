"""A callback for each published model of a simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from asyncfl.base.messages import Vector
from asyncfl.federation import Federation
from asyncfl.server.aggregation import AggregationResult
from asyncfl.server.machine import ServerNoise

ModelCallback = Callable[[int, Vector], None]
"""Receives a version and its model, (n_parameters,), which it must not change."""


@dataclass(frozen=True)
class _ReportedNoise:
    """Server noise, if any, that passes each new model to `callback`."""

    noise: ServerNoise | None
    callback: ModelCallback

    def __call__(self, result: AggregationResult, version: int) -> tuple[Vector, float]:
        model, std = (result.model, 0.0) if self.noise is None else self.noise(result, version)
        self.callback(version, model)
        return model, std


def with_model_callback(federation: Federation, callback: ModelCallback) -> Federation:
    """Return the federation with a server that calls `callback` with each new model, noise included.

    The run is unchanged.
    """
    plan = federation.plan
    return replace(federation, plan=replace(plan, noise=_ReportedNoise(plan.noise, callback)))
