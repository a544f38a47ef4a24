"""Roots of functions of one variable."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import brentq

from asyncfl.privacy.accounting.root_finding import brent_root

FUNCTIONS: dict[str, Callable[[float, float], float]] = {
    "line": lambda x, a: x - a,
    "cubic": lambda x, a: (x - a) ** 3,
    "exponential": lambda x, a: math.exp(x) - math.exp(a),
    "hyperbola": lambda x, a: 1 / a - 1 / x,
    "steps": lambda x, a: math.floor(8 * (x - a)) + 0.5,
    "flat": lambda x, a: math.copysign(min(abs(x - a), 1e-200), x - a),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("relative", [1e-15, 1e-6, 0.01])
def test_the_root_has_the_bits_of_scipys(name: str, relative: float) -> None:
    draws = np.random.default_rng(1)
    for _ in range(300):
        a, width = draws.uniform(0.1, 5.0), draws.uniform(0.01, 5.0)
        low, high = max(a - width * draws.random(), 0.01), a + width * draws.random()

        def function(x: float, a: float = a) -> float:
            return FUNCTIONS[name](x, a)

        expected = brentq(function, low, high, xtol=relative * low, rtol=relative, maxiter=2000)
        assert brent_root(function, low, high, relative * low, relative, 2000) == expected


def test_an_end_may_be_the_root() -> None:
    assert brent_root(lambda x: x - 1, 1.0, 2.0, 1e-15, 1e-15) == 1.0
    assert brent_root(lambda x: x - 2, 1.0, 2.0, 1e-15, 1e-15) == 2.0


def test_an_interval_without_a_change_of_sign_and_too_few_steps_are_errors() -> None:
    with pytest.raises(ValueError, match="different signs"):
        brent_root(lambda x: x, 1.0, 2.0, 1e-15, 1e-15)
    with pytest.raises(RuntimeError, match="within 2 steps"):
        brent_root(lambda x: x**3 - 2, 1.0, 2.0, 1e-15, 1e-15, 2)
