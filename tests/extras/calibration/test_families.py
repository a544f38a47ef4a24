"""Which distribution a sample comes from."""

import numpy as np
import pytest

from asyncfl.extras.calibration.families import fit_distribution
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Lognormal, Pareto, Uniform


@pytest.mark.parametrize(
    "truth",
    [
        Uniform(low=1, high=4),
        Exponential(mean=2, minimum=0.5),
        Lognormal(median=2, sigma=0.5),
        Pareto(minimum=1, alpha=3),
    ],
)
def test_the_family_and_its_parameters_are_found(truth: Distribution) -> None:
    found = fit_distribution(truth.draw(np.random.default_rng(0), 4000))
    assert type(found.distribution) is type(truth)
    for name in set(type(truth).model_fields) - {"kind"}:
        assert getattr(found.distribution, name) == pytest.approx(getattr(truth, name), rel=0.05)
    assert found.gap < 0.03
    assert min(found.compared, key=found.compared.__getitem__) == found.distribution.kind  # type: ignore[attr-defined]


def test_equal_values_are_fitted_as_a_constant() -> None:
    assert fit_distribution(np.full(50, 0.2) + 1e-6 * np.arange(50) / 50).distribution.expected() == pytest.approx(
        0.2, rel=1e-5
    )
    assert fit_distribution(np.zeros(5)).gap == 0


def test_few_values_are_fitted_as_their_mean() -> None:
    assert fit_distribution(np.array([1.0, 2.0, 6.0])).distribution == Fixed(value=3.0)


def test_periods_are_fitted_by_a_law_with_a_finite_mean() -> None:
    heavy = Pareto(minimum=1, alpha=0.8).draw(np.random.default_rng(2), 2000)
    assert isinstance(fit_distribution(heavy).distribution, Pareto)
    assert np.isfinite(fit_distribution(heavy, periods=True).distribution.expected())
