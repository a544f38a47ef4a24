"""Users' own metrics: functions of a model's outputs on the test set, named by import path.

def balanced_accuracy(outputs, labels): ...      # logits (m, classes) float32, labels (m,) -> a number
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, field_validator, model_validator

from asyncfl.base.component import Component
from asyncfl.base.errors import ComponentError
from asyncfl.base.own_classes import describe_exception, own_class


class Metric(Component):
    """A user's function; fields beside `kind` are passed to it as keyword arguments."""

    model_config = ConfigDict(extra="allow")

    kind: Annotated[str, Field(examples=["my_metrics:top5"])]
    """Import path of the function, `my_module:my_metric`."""

    @model_validator(mode="before")
    @classmethod
    def _named_alone(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("kind")
    @classmethod
    def _check_kind(cls, value: str) -> str:
        try:
            found = own_class(value)
        except ImportError as error:
            raise ValueError(str(error)) from None
        if not callable(found):
            raise ValueError(f"must name a function of outputs and labels, got {type(found).__name__} {value}")
        return value

    @property
    def code_modules(self) -> tuple[str, ...]:
        """Name of the module that defines the function."""
        return (self.kind.partition(":")[0],)

    def value(self, outputs: NDArray[np.float32], labels: NDArray[Any]) -> float:
        """Return the value of the function on a model's outputs (m, classes) and the labels (m,); NaN: undefined.

        Raises ComponentError where the function fails or returns no number.
        """
        function: Callable[..., Any] = own_class(self.kind)  # type: ignore[assignment]
        arrays = [outputs.view(), labels.view()]
        for array in arrays:
            array.setflags(write=False)
        try:
            found = function(*arrays, **(self.model_extra or {}))
        except Exception as error:
            raise ComponentError(f"the metric {self.kind} fails: {describe_exception(error)}") from error
        if isinstance(found, np.ndarray) and found.shape == ():
            found = found.item()
        if isinstance(found, bool | np.bool_) or not isinstance(found, numbers.Real):
            raise ComponentError(f"the metric {self.kind} must return a number, got {type(found).__name__}")
        return float(found)
