"""Which distribution a sample comes from."""

from __future__ import annotations

import numpy as np
import pytest

from asyncfl.calibration import families
from asyncfl.calibration.families import fit_distribution
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


@pytest.mark.parametrize("truth", [Exponential(mean=2), Lognormal(median=2, sigma=0.5), Uniform(low=1, high=4)])
def test_values_that_were_cut_off_count_as_longer(truth: Distribution) -> None:
    rng = np.random.default_rng(1)
    values, ends = truth.draw(rng, 6000), 4 * rng.random(6000) + 1
    exact, cut_off = values[values <= ends], ends[values > ends]
    found = fit_distribution(exact, cut_off)
    assert type(found.distribution) is type(truth)
    assert found.distribution.expected() == pytest.approx(truth.expected(), rel=0.05)
    assert exact.mean() < 0.95 * truth.expected()


def test_the_exponential_by_hand() -> None:
    # scale (0 + 1 + ... + 7 + 4) / 8 above the least, 1: what was cut off at 5 adds to the time, not to the ends
    found = fit_distribution(np.arange(1.0, 9.0), np.array([5.0]))
    assert found.compared["exponential"] == pytest.approx(4 + 2 * (8 * np.log(4) + 32 / 4))


def test_what_is_the_same_each_time_is_constant() -> None:
    assert fit_distribution(np.full(50, 0.2) + 1e-6 * np.arange(50) / 50).distribution.expected() == pytest.approx(
        0.2, rel=1e-5
    )
    assert fit_distribution(np.zeros(5)).gap == 0


def test_of_few_values_only_the_mean_is_kept() -> None:
    assert fit_distribution(np.array([1.0, 2.0, 6.0])).distribution == Fixed(value=3.0)


def test_periods_have_a_finite_mean() -> None:
    heavy = Pareto(minimum=1, alpha=0.8).draw(np.random.default_rng(2), 2000)
    assert isinstance(fit_distribution(heavy).distribution, Pareto)
    assert np.isfinite(fit_distribution(heavy, periods=True).distribution.expected())


def test_what_was_cut_off_at_once_tells_nothing() -> None:
    exact = np.sort(Lognormal(median=2, sigma=0.5).draw(np.random.default_rng(3), 40))
    later = np.array([2.0, 5.0])
    with_nothing = families._lognormal(exact, np.append(later, 0.0))
    without = families._lognormal(exact, later)
    assert with_nothing is not None
    assert without is not None
    assert with_nothing[0] == without[0]


def test_shapes_are_no_wider_than_components_can_be() -> None:
    wide = families._lognormal(np.exp(np.linspace(-40.0, 40.0, 9)), np.empty(0))
    assert wide is not None
    assert wide[0] == Lognormal(median=1.0, sigma=10.0)
    heavy = families._pareto(np.exp(20.0 * np.arange(8)), np.empty(0))
    assert heavy is not None
    assert heavy[0] == Pareto(minimum=1.0, alpha=0.1)
