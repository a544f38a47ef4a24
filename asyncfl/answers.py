"""What a component answered, looked at before it is used: a mistake in it is told by its name, where it was made.

Components are written by users too, and what they return goes far before it fails: an array of a wrong shape becomes a
message about operands somewhere else, a negative weight a model that moves backwards.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.component import Component, kind_of
from asyncfl.errors import ComponentError, shortened

T = TypeVar("T")


def numbers(
    component: Component,
    what: str,
    value: Any,
    shape: tuple[int, ...],
    *,
    finite: bool = False,
    at_least: float | None = None,
) -> NDArray[Any]:
    """`value`, an array of real numbers of that shape. Raises ComponentError with what came.

    `what`: the method, or the field of its answer, as the user knows it. `finite`: infinities and NaN are refused;
    `at_least`: so are smaller numbers.
    """
    right = isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.shape == shape
    require(right, component, what, f"must be {shape} numbers", value)
    if finite:
        strange = value[~np.isfinite(value)]
        require(not len(strange), component, what, "must be finite", strange[:1])
    if at_least is not None:
        small = value[value < at_least]
        require(not len(small), component, what, f"must be >= {at_least:g}", small[:1])
    return np.asarray(value)


def flags(component: Component, what: str, value: Any, rows: int) -> NDArray[np.bool_]:
    """`value`, an array of one bool per row. Raises ComponentError with what came."""
    right = isinstance(value, np.ndarray) and value.dtype == bool and value.shape == (rows,)
    require(right, component, what, f"must be ({rows},) bool", value)
    return np.asarray(value)


def with_state(component: Component, what: str, value: Any, kind: type[T]) -> tuple[T, Any]:
    """`value`, a pair of an answer of that kind and the component's next state. Raises ComponentError."""
    right = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], kind)
    require(right, component, what, f"must return ({kind.__name__}, state)", value)
    return value[0], value[1]


def require(right: bool, component: Component, what: str, law: str, value: Any) -> None:
    """Raise ComponentError unless what the component answered is `right`: what it must be, and what came."""
    if not right:
        raise ComponentError(f"{kind_of(component)}: {what} {law}, got {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.shape == (1,):
        return f"{value[0]}"
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.dtype}"
    return shortened(f"{type(value).__name__} {value!r}")
