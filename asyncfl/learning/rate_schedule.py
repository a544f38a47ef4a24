"""RateSchedule: factor of the learning rate over the steps of a task, or over the versions of a run."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn


class RateSchedule(Described):
    """Factor of the learning rate at time t = 0, 1, ... (steps of a task, or versions), 0 to 1.

    With W times of warm-up and n = length - W times after it, of which u = (t - W) / n have passed, at most 1:

        t < W       (t + 1) / W
        constant    1
        step        drop^floor((t - W) / every)
        cosine      end + (1 - end) (1 + cos(pi u)) / 2     Loshchilov and Hutter 2017 (SGDR), equation 5
        linear      1 - (1 - end) u
    """

    shape: Literal["constant", "step", "cosine", "linear"] = "constant"
    """Course after the warm-up, see above."""
    warm_up: Annotated[int, Field(ge=0, le=1_000_000_000), MeasuredIn("steps or versions")] = 0
    """W: times at the beginning in which the rate rises in equal steps to the full one."""
    every: Annotated[int, Field(ge=1, le=1_000_000_000), MeasuredIn("steps or versions")] | None = None
    """Times between two drops, for `step`, which needs it."""
    drop: Annotated[float, Field(gt=0, le=1), MeasuredIn("factor")] = 0.1
    """Factor of each drop, for `step`."""
    end: Annotated[float, Field(ge=0, le=1), MeasuredIn("factor")] = 0.0
    """Factor at the end, for `cosine` and `linear`."""
    length: Annotated[int, Field(ge=1, le=1_000_000_000), MeasuredIn("steps or versions")] | None = None
    """Times after which the end is reached, warm-up included; null: all steps of the task, or `protocol.rounds`."""

    @model_validator(mode="after")
    def _check_shape(self) -> RateSchedule:
        if (self.every is None) == (self.shape == "step"):
            wanted = "needs every" if self.shape == "step" else "does not use every, which must be null"
            raise ValueError(f"shape: {self.shape} {wanted}, got {self.every}")
        declines = self.shape in ("cosine", "linear")
        unused = {"drop": self.shape != "step", "end": not declines, "length": not declines}
        for name, useless in unused.items():
            got, default = getattr(self, name), type(self).model_fields[name].default
            if useless and got != default:
                raise ValueError(f"shape: {self.shape} does not use {name}; leave it out, got {got:g}")
        if self.length is not None and self.length <= self.warm_up:
            raise ValueError(f"length must be above warm_up ({self.warm_up}), got {self.length}")
        return self

    @property
    def is_constant(self) -> bool:
        """Whether the factor is always 1."""
        return self.shape == "constant" and not self.warm_up

    def factor(self, t: int, times: int) -> float:
        """Return the factor at time `t` >= 0. `times`: all steps of the task, or versions of the run."""
        if t < self.warm_up:
            return (t + 1) / self.warm_up
        passed = t - self.warm_up
        if self.shape == "step":
            return float(self.drop ** (passed // (self.every or 1)))
        if self.shape == "constant":
            return 1.0
        share = min(1.0, passed / max(1, (self.length or times) - self.warm_up))
        if self.shape == "linear":
            return 1 - (1 - self.end) * share
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * share)) / 2
