from __future__ import annotations

import math

import pytest

from asyncfl.privacy.accounting import MechanismEvent, Neighbours, epsilon_by, smallest_epsilon
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.accounting.revealed import is_revealing, revealed_epsilon


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("multiplier", [1e-9, 1e-5, 2e-4])
@pytest.mark.parametrize("rate", [1e-300, 1e-5, 0.5])
@pytest.mark.parametrize("count", [1, 1000, 10**9])
def test_noise_that_hides_next_to_nothing_has_an_epsilon_too(
    neighbours: Neighbours, multiplier: float, rate: float, count: int
) -> None:
    parts = [MechanismEvent("gaussian", multiplier, count, rate)]
    found = smallest_epsilon(parts, 1e-5, neighbours)
    assert 0 <= found <= epsilon_by("basic", parts, 1e-5, neighbours) * (1 + 1e-5)
    assert (found == 0) == (count * rate <= 1e-5)


def test_one_release_is_amplified_exactly() -> None:
    # delta(e) = q delta_1(ln(1 + (e^e - 1)/q)): at z = 1e-3, q = 1e-3, delta = 1e-6 that is ln(1e-3) less than
    # epsilon of the plain release at delta 1e-3, 1e6/2 + 3.09e3.
    expected = exact_epsilon(1e6, 1e-3) + math.log(1e-3)
    assert revealed_epsilon(MechanismEvent("gaussian", 1e-3, 1, 1e-3), 1e-6, "add_remove") == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize(("multiplier", "rate", "count"), [(0.05, 0.01, 1), (0.01, 0.01, 40), (0.02, 0.3, 10)])
def test_it_is_an_upper_bound_that_is_close_where_noise_hides_little(
    multiplier: float, rate: float, count: int
) -> None:
    part = MechanismEvent("gaussian", multiplier, count, rate)
    exact = smallest_epsilon([part], 1e-5)
    assert not is_revealing(part, 0.1)
    assert exact * (1 - 1e-4) <= revealed_epsilon(part, 1e-5, "add_remove") <= exact * 1.08


def test_several_sorts_share_delta() -> None:
    open_, plain = MechanismEvent("gaussian", 1e-6, 3, 0.01), MechanismEvent("gaussian", 2.0, 4)
    found = smallest_epsilon([open_, plain], 1e-5)
    assert found == revealed_epsilon(open_, 5e-6, "add_remove") + smallest_epsilon([plain], 5e-6)
    more = smallest_epsilon([open_, plain, MechanismEvent("gaussian", 1e-6, 3, 0.02)], 1e-5)
    assert math.isfinite(more)
    assert more > found


def test_laplace_noise_that_hides_nothing_is_added_up_beside_other_releases() -> None:
    open_, plain = MechanismEvent("laplace", 1e-9, 3), MechanismEvent("gaussian", 2.0, 4)
    assert smallest_epsilon([open_, plain], 1e-5) == pytest.approx(3e9 + smallest_epsilon([plain], 1e-5), rel=1e-15)
