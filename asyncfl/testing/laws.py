"""Common parts of the checks: name the violated law, and detect changed inputs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from asyncfl.base.component import Component


def require(condition: bool | np.bool_, component: Component, law: str, seen: str = "") -> None:
    """Raise AssertionError unless `condition`, with the message "<class>: <law>; <seen>"."""
    if not condition:
        raise AssertionError(f"{type(component).__name__}: {law}{f'; {seen}' if seen else ''}")


def check_description(component: Component, base: type[Component]) -> None:
    """Raise AssertionError unless the component derives from `base`, has a kind, is frozen, and survives writing."""
    require(isinstance(component, base), component, f"must derive from {base.__name__}")
    kind = getattr(component, "kind", None)
    require(isinstance(kind, str) and bool(kind), component, "must have a field kind: str", f"got {kind!r}")
    require(type(component).model_config.get("frozen") is True, component, "must stay frozen; keep memory in a state")
    written = component.model_dump(mode="json")
    try:
        again = type(component).model_validate(written)
    except ValidationError as error:
        raise AssertionError(
            f"{type(component).__name__}: must be readable from its own description; {error}"
        ) from None
    require(
        same(again, component), component, "must be the same after it is written and read", f"{component} -> {again}"
    )


def close(one: NDArray[np.floating], other: NDArray[np.floating]) -> bool:
    """Return whether two float32 vectors are equal up to rounding."""
    return np.allclose(one, other, rtol=1e-4, atol=1e-5)


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal: arrays and dataclasses by content, generators by their state."""
    if isinstance(left, np.random.Generator) and isinstance(right, np.random.Generator):
        return same(left.bit_generator.state, right.bit_generator.state)
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        left, right = np.asarray(left), np.asarray(right)
        if left.shape != right.shape or left.dtype != right.dtype:
            return False
        return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))
    if type(left) is not type(right):
        return False
    if is_dataclass(left):
        return all(same(getattr(left, one.name), getattr(right, one.name)) for one in fields(left))
    if isinstance(left, Mapping):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(one, other) for one, other in zip(left, right, strict=True))
    return bool(left == right) or (left != left and right != right)


def deep_copies(values: Iterable[Any]) -> list[Any]:
    """Return deep copies of values, to detect later changes. Functions are not copied."""
    return [copy.deepcopy(value) for value in values]
