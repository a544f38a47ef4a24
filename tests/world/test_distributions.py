import math

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.world.distributions import (
    Amount,
    AnyDistribution,
    ClientAmount,
    ClientRate,
    Exponential,
    Fixed,
    Listed,
    Lognormal,
    Pareto,
    Period,
    PositiveAmount,
    Uniform,
)

SPREAD = [
    Uniform(low=1, high=4),
    Exponential(mean=2),
    Exponential(mean=1.2, minimum=0.2),
    Lognormal(median=2, sigma=0.5),
    Pareto(minimum=1, alpha=6),
]


def second_moment(d) -> float:
    match d:
        case Fixed():
            return d.value**2
        case Uniform():
            return (d.low**2 + d.low * d.high + d.high**2) / 3
        case Exponential():
            return d.mean**2 + (d.mean - d.minimum) ** 2
        case Lognormal():
            return d.median**2 * math.exp(2 * d.sigma**2)
        case Pareto():
            return d.alpha * d.minimum**2 / (d.alpha - 2)


def close(sample, mean: float) -> bool:
    """Whether the mean of the sample is within four standard errors."""
    return abs(sample.mean() - mean) < 4 * sample.std() / math.sqrt(sample.size)


@pytest.mark.parametrize(
    ("distribution", "mean"),
    [
        (Fixed(value=3), 3),
        (Uniform(low=1, high=4), 2.5),
        (Exponential(mean=1.2, minimum=0.2), 1.2),
        (Lognormal(median=2, sigma=0.5), 2.26629691),
        (Pareto(minimum=1, alpha=3), 1.5),
        (Pareto(minimum=1, alpha=1), math.inf),
    ],
)
def test_expected_values_worked_out_by_hand(distribution, mean) -> None:
    assert distribution.expected() == pytest.approx(mean)


@pytest.mark.parametrize("distribution", SPREAD)
def test_draws_have_their_first_two_moments(distribution) -> None:
    draws = distribution.draw(np.random.default_rng(1), 100_000)
    assert close(draws, distribution.expected())
    assert close(draws**2, second_moment(distribution))


@pytest.mark.parametrize("distribution", SPREAD)
def test_a_period_met_at_random_is_long_in_the_mean_and_half_over(distribution) -> None:
    biased = distribution.length_biased(np.random.default_rng(2), 100_000)
    met = second_moment(distribution) / distribution.expected()  # E[X^2] / E[X]: the inspection paradox
    assert close(biased, met)
    assert close(distribution.residual(np.random.default_rng(3), 100_000), met / 2)


def test_what_is_left_of_a_fixed_period_is_uniform() -> None:
    left = Fixed(value=8).residual(np.random.default_rng(0), 50_000)
    assert 0 <= left.min() < left.max() < 8
    assert close(left, 4)
    assert close(left**2, 64 / 3)


@pytest.mark.parametrize("distribution", [Fixed(value=2), *SPREAD])
def test_a_single_value_is_the_first_of_many(distribution) -> None:
    one = distribution.draw_one(np.random.default_rng(5))
    assert one == pytest.approx(distribution.draw(np.random.default_rng(5), 3)[0], rel=1e-12)


@pytest.mark.parametrize("distribution", SPREAD)
def test_a_larger_sample_begins_with_the_smaller_one(distribution) -> None:
    few, many = (distribution.draw(np.random.default_rng(9), n) for n in (10, 100))
    np.testing.assert_array_equal(few, many[:10])


def test_a_parameter_rescales_the_same_luck() -> None:
    narrow = np.log(Lognormal(median=1, sigma=0.1).draw(np.random.default_rng(0), 50))
    wide = np.log(Lognormal(median=1, sigma=1).draw(np.random.default_rng(0), 50))
    np.testing.assert_allclose(wide, 10 * narrow)


@pytest.mark.parametrize(("given", "value"), [(0.05, 0.05), (3, 3.0), (10e6, 1e7), ({"kind": "fixed", "value": 2}, 2)])
def test_a_number_is_a_fixed_amount_and_is_written_as_a_number(given, value) -> None:
    adapter = TypeAdapter(Amount)
    amount = adapter.validate_python(given)
    assert amount == Fixed(value=value)
    assert adapter.dump_python(amount, mode="json") == value


def test_a_distribution_survives_being_written() -> None:
    adapter = TypeAdapter(Amount)
    for distribution in SPREAD:
        assert adapter.validate_python(adapter.dump_python(distribution, mode="json")) == distribution


@pytest.mark.parametrize(
    ("field", "given"),
    [
        (Amount, -1),
        (Amount, math.nan),
        (Amount, math.inf),
        (Amount, True),
        (Amount, "fast"),
        (PositiveAmount, 0),
        (PositiveAmount, {"kind": "uniform", "low": 0, "high": 0}),
        (ClientRate, 0),
        (Period, {"kind": "pareto", "minimum": 1, "alpha": 1}),
        (AnyDistribution, {"kind": "uniform", "low": 2, "high": 1}),
        (AnyDistribution, {"kind": "exponential", "mean": 1, "minimum": 2}),
        (AnyDistribution, {"kind": "lognormal", "median": 1, "sigma": -0.1}),
        (AnyDistribution, {"kind": "pareto", "minimum": 1, "alpha": 0}),
        (AnyDistribution, {"kind": "gamma", "mean": 1}),
        (AnyDistribution, {"kind": "lognormal", "median": math.inf, "sigma": 1}),
    ],
)
def test_illegal_amounts_are_faults(field, given) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(field).validate_python(given)


def test_a_rate_may_be_unlimited() -> None:
    assert TypeAdapter(ClientRate).validate_python(math.inf).expected() == math.inf


def test_a_list_gives_each_client_its_own_value_and_survives_yaml() -> None:
    adapter = TypeAdapter(ClientAmount)
    listed = adapter.validate_python([0.1, 0.3])
    assert listed == Listed(values=(0.1, 0.3))
    assert listed.draw(np.random.default_rng(0), 5).tolist() == [0.1, 0.3, 0.1, 0.3, 0.1]
    assert listed.expected() == pytest.approx(0.2)
    assert adapter.dump_python(listed, mode="json") == [0.1, 0.3]
    assert close(listed.length_biased(np.random.default_rng(0), 100_000), 0.25)


@pytest.mark.parametrize(
    ("field", "given"),
    [(Amount, [1.0, 2.0]), (Period, [1.0]), (ClientRate, [1.0, 0.0]), (ClientAmount, []), (ClientAmount, [math.inf])],
)
def test_lists_of_what_is_drawn_per_message_or_out_of_range_are_faults(field, given) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(field).validate_python(given)
