"""Coefficients of banded factorisations: by hand, and against jax-privacy 2.0.

Numbers of jax-privacy are those of `jax_privacy.matrix_factorization.toeplitz`: `optimize_banded_toeplitz` (divided by
its first coefficient), `per_query_error`, `inverse_coef` and `minsep_sensitivity_squared`, in float64.
"""

import numpy as np
import pytest

from asyncfl.privacy.correlation.streaming_matrix import inverse_of_banded, prefix_sums
from asyncfl.privacy.correlation.toeplitz import (
    inverse_coefficients,
    is_decreasing,
    optimal_coefficients,
    sensitivity,
    square_root_coefficients,
    sum_error,
)


def test_prefix_sums_are_cumulative_sums() -> None:
    matrix, x = prefix_sums(), np.array([[3.0, 0.0], [1.0, 1.0], [2.0, 5.0]])
    state, products = matrix.init(2), []
    for row in x:
        product, state = matrix.next(state, row)
        products.append(product)
    np.testing.assert_array_equal(products, np.cumsum(x, axis=0))
    np.testing.assert_array_equal(matrix.dense(3), np.tril(np.ones((3, 3))))


def test_the_square_root_squared_is_the_matrix_of_prefix_sums() -> None:
    c = square_root_coefficients(8)
    assert c.tolist() == [1.0, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375, 0.2255859375, 0.20947265625]
    np.testing.assert_allclose(np.convolve(c, c)[:8], np.ones(8))


def test_a_banded_inverse_needs_one_vector_per_band() -> None:
    matrix, c = inverse_of_banded(np.array([2.0, 1.0, 0.5])), np.array([2.0, 1.0, 0.5])
    encoder = sum(np.diag(np.full(6 - below, c[below]), -below) for below in range(3))
    np.testing.assert_allclose(matrix.dense(6) @ encoder, np.eye(6), atol=1e-12)
    state, x = matrix.init(3), np.ones(3)
    for _ in range(5):
        before = x.copy()
        _, state = matrix.next(state, x)
        np.testing.assert_array_equal(x, before)
        assert len(state) <= 2


def test_inverse_coefficients_are_those_of_jax_privacy() -> None:
    theirs = [1.0, -0.5, -0.125, 0.25, -0.078125, -0.0546875, 0.056640625, -0.0078125]
    np.testing.assert_allclose(inverse_coefficients(square_root_coefficients(3), 8), theirs, atol=1e-12)


@pytest.mark.parametrize(
    ("bands", "steps", "theirs", "error", "squares"),
    [
        (
            4,
            64,
            [1.0, 0.6702148021775155, 0.5617383420175213, 0.4794543535981325],
            5.264900958172326,
            1.994614323134643,
        ),
        (8, 32, [1.0, 0.5466583464954358, 0.42508034839521597], 2.4217819976217356, 1.890228306413422),
        (16, 256, [1.0, 0.5926137736105214, 0.49248859268639306], 4.3417250556427875, 3.0476235039101263),
        (2, 10, [1.0, 0.550517884222124], 2.7666047496215005, 1.3030699408484037),
    ],
)
def test_optimal_coefficients_are_as_good_as_those_of_jax_privacy(
    bands: int, steps: int, theirs: list[float], error: float, squares: float
) -> None:
    ours = optimal_coefficients(bands, steps)
    np.testing.assert_allclose(ours[: len(theirs)], theirs, atol=2e-4)
    assert sum_error(ours, steps) * float(ours @ ours) == pytest.approx(error * squares, rel=1e-6)
    root = square_root_coefficients(bands)
    assert sum_error(ours, steps) * float(ours @ ours) < sum_error(root, steps) * float(root @ root)
    assert is_decreasing(ours)


def test_no_coefficient_near_the_optimal_ones_is_better() -> None:
    best = optimal_coefficients(5, 40)
    for place in range(1, 5):
        for step in (-0.01, 0.01):
            other = best.copy()
            other[place] += step
            assert sum_error(other, 40) * float(other @ other) > sum_error(best, 40) * float(best @ best)


@pytest.mark.parametrize(
    ("steps", "separation", "participations", "squared"),
    [(10, 3, 2, 3.6015625), (10, 2, 4, 9.140625), (16, 4, 4, 5.953125), (9, 1, 9, 35.4765625), (12, 5, 3, 4.2265625)],
)
def test_sensitivities_are_those_of_jax_privacy(
    steps: int, separation: int, participations: int, squared: float
) -> None:
    found = sensitivity(square_root_coefficients(4), steps, participations, separation)
    assert found**2 == pytest.approx(squared)


def test_the_error_of_prefix_sums_is_that_of_jax_privacy() -> None:
    assert sum_error(square_root_coefficients(4), 10) == pytest.approx(1.906136180460453)


def test_coefficients_that_rise_have_no_closed_form() -> None:
    with pytest.raises(ValueError, match="must not be negative and not increase"):
        sensitivity(np.array([1.0, 0.2, 0.3]), 5, 2, 1)


def test_one_step_or_one_band_needs_no_correlation() -> None:
    assert optimal_coefficients(8, 1).tolist() == [1.0]
    assert optimal_coefficients(1, 8).tolist() == [1.0]
