"""Who looks on is shown each model as it is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from asyncfl.federation import Federation
from asyncfl.messages import Vector
from asyncfl.server.aggregation import AggregationResult
from asyncfl.server.plan import ServerNoise

Tell = Callable[[int, Vector], None]
"""Is told version and model, (n_parameters,), which it must not change."""


@dataclass(frozen=True)
class _Shown:
    noise: ServerNoise | None
    tell: Tell

    def __call__(self, made: AggregationResult, version: int) -> tuple[Vector, float]:
        model, std = (made.model, 0.0) if self.noise is None else self.noise(made, version)
        self.tell(version, model)
        return model, std


def with_model_callback(federation: Federation, tell: Tell) -> Federation:
    """The federation, whose server tells each model that updates entered, with its noise; the run is the same."""
    plan = federation.plan
    return replace(federation, plan=replace(plan, noise=_Shown(plan.noise, tell)))
