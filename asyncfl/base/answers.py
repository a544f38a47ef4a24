"""Check the values that components return, so that errors name the component that made them.

Users write components too. Without a check, an array of a wrong shape fails far from its origin, and a negative weight
silently moves the model backwards.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.component import Component, kind_of
from asyncfl.base.errors import ComponentError, shortened

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
    """Return `value` if it is an array of real numbers of `shape`; raise ComponentError otherwise.

    `what`: name of the method or of the field of its result, for the message. `finite`: refuse infinities and NaN.
    `at_least`: refuse smaller numbers.
    """
    right = isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.shape == shape
    require(right, component, what, f"must be {shape} numbers", value)
    if finite and np.count_nonzero(is_finite := np.isfinite(value)) < value.size:
        require(False, component, what, "must be finite", value[~is_finite][:1])
    if at_least is not None and np.count_nonzero(is_small := value < at_least):
        require(False, component, what, f"must be >= {at_least:g}", value[is_small][:1])
    return np.asarray(value)


def flags(component: Component, what: str, value: Any, rows: int) -> NDArray[np.bool_]:
    """Return `value` if it is an array of `rows` booleans; raise ComponentError otherwise. `what`: as in `numbers`."""
    right = isinstance(value, np.ndarray) and value.dtype == bool and value.shape == (rows,)
    require(right, component, what, f"must be ({rows},) bool", value)
    return np.asarray(value)


def with_state(component: Component, what: str, value: Any, kind: type[T]) -> tuple[T, Any]:
    """Return `value` if it is a pair of a `kind` and the component's next state; raise ComponentError otherwise."""
    right = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], kind)
    require(right, component, what, f"must return ({kind.__name__}, state)", value)
    return value[0], value[1]


def require(right: bool, component: Component, what: str, law: str, value: Any) -> None:
    """Raise ComponentError unless `right`, with the message "<kind>: <what> <law>, got <value>"."""
    if right:
        return
    shown = shortened(f"{type(value).__name__} {value!r}")
    if isinstance(value, np.ndarray):
        shown = f"{value[0]}" if value.shape == (1,) else f"{value.shape} {value.dtype}"
    raise ComponentError(f"{kind_of(component)}: {what} {law}, got {shown}")
