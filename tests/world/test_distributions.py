"""Each distribution against its closed forms: its law, its mean, the period met at an arbitrary moment; and devices."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from asyncfl.base.errors import DataError
from asyncfl.world.devices import AnyDevice, CsvDevice
from asyncfl.world.distributions import (
    Amount,
    AnyDistribution,
    ClientAmount,
    ClientRate,
    Distribution,
    Exponential,
    Fixed,
    Listed,
    Lognormal,
    Pareto,
    Period,
    PositiveAmount,
    Uniform,
)

LAWS: list[tuple[Distribution, Any]] = [
    (Uniform(low=1, high=4), stats.uniform(loc=1, scale=3)),
    (Exponential(mean=2), stats.expon(scale=2)),
    (Exponential(mean=1.2, minimum=0.2), stats.expon(loc=0.2, scale=1)),
    (Lognormal(median=2, sigma=0.5), stats.lognorm(s=0.5, scale=2)),
    (Pareto(minimum=1, alpha=6), stats.pareto(b=6)),
]
SPREAD = [distribution for distribution, _ in LAWS]


def close(sample: NDArray[np.float64], mean: float) -> bool:
    """Whether the mean of the sample is within four standard errors."""
    return bool(abs(sample.mean() - mean) < 4 * sample.std() / math.sqrt(sample.size))


@pytest.mark.parametrize(("distribution", "law"), LAWS)
def test_draws_follow_the_law(distribution: Distribution, law: Any) -> None:
    assert stats.kstest(distribution.draw(np.random.default_rng(1), 20_000), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("distribution", "mean"),
    [
        (Fixed(value=3), 3),
        (Uniform(low=1, high=4), 2.5),
        (Exponential(mean=1.2, minimum=0.2), 1.2),
        (Lognormal(median=2, sigma=0.5), 2 * math.exp(0.125)),
        (Pareto(minimum=1, alpha=3), 1.5),
        (Pareto(minimum=1, alpha=1), math.inf),
        (Listed(values=(0.1, 0.3)), 0.2),
    ],
)
def test_expected_values_worked_out_by_hand(distribution: Distribution, mean: float) -> None:
    assert distribution.expected() == pytest.approx(mean)


@pytest.mark.parametrize(("distribution", "law"), LAWS)
def test_a_period_met_at_an_arbitrary_moment_is_long_and_half_over(distribution: Distribution, law: Any) -> None:
    """The inspection paradox: its density is x f(x) / E[X], so its mean is E[X^2] / E[X] and half of it is left."""
    met_mean = law.moment(2) / law.mean()
    assert close(distribution.length_biased(np.random.default_rng(2), 100_000), met_mean)
    assert close(distribution.residual(np.random.default_rng(3), 100_000), met_mean / 2)


def test_listed_values_are_met_in_proportion_to_their_length() -> None:
    met = Listed(values=(0.1, 0.3)).length_biased(np.random.default_rng(0), 100_000)
    assert close(met, 0.25), "0.1 s with probability 1/4, 0.3 s with 3/4"


@pytest.mark.parametrize("distribution", [Fixed(value=2), *SPREAD])
def test_a_single_value_is_the_first_of_many(distribution: Distribution) -> None:
    single, many = distribution.draw_one(np.random.default_rng(5)), distribution.draw(np.random.default_rng(5), 30)
    assert single == pytest.approx(many[0], rel=1e-12)
    np.testing.assert_array_equal(distribution.draw(np.random.default_rng(5), 3), many[:3])


def test_a_parameter_rescales_the_same_standard_draws() -> None:
    narrow = np.log(Lognormal(median=1, sigma=0.1).draw(np.random.default_rng(0), 50))
    wide = np.log(Lognormal(median=1, sigma=1).draw(np.random.default_rng(0), 50))
    np.testing.assert_allclose(wide, 10 * narrow)


@pytest.mark.parametrize(("given", "value"), [(0.05, 0.05), (3, 3.0), ({"kind": "fixed", "value": 2}, 2)])
def test_a_number_is_a_fixed_amount_and_is_written_as_a_number(given: object, value: float) -> None:
    amount = TypeAdapter(Amount).validate_python(given)
    assert amount == Fixed(value=value)
    assert TypeAdapter(Amount).dump_python(amount, mode="json") == value


@pytest.mark.parametrize(
    ("field", "given"),
    [
        (Amount, -1),
        (Amount, math.inf),
        (Amount, True),
        (Amount, [1.0, 2.0]),
        (PositiveAmount, 0),
        (PositiveAmount, {"kind": "uniform", "low": 0, "high": 0}),
        (ClientRate, [1.0, 0.0]),
        (ClientAmount, [math.inf]),
        (Period, {"kind": "pareto", "minimum": 1, "alpha": 1}),
        (AnyDistribution, {"kind": "uniform", "low": 2, "high": 1}),
        (AnyDistribution, {"kind": "exponential", "mean": 1, "minimum": 2}),
        (AnyDistribution, {"kind": "lognormal", "median": 1, "sigma": -0.1}),
    ],
)
def test_illegal_amounts_are_refused(field: Any, given: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(field).validate_python(given)


@pytest.mark.parametrize(
    ("given", "told"), [("50ms", "a number alone"), ("0.5", "without quotes"), ("lognorm", "kind: lognormal")]
)
def test_a_number_is_asked_for_without_unit_and_quotes(given: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        TypeAdapter(Amount).validate_python(given)


DEVICE = TypeAdapter(AnyDevice)


@pytest.mark.parametrize(
    ("description", "law"),
    [
        ({"kind": "uniform", "low_s_per_sample": 1, "high_s_per_sample": 3}, Uniform(low=1, high=3)),
        (
            {"kind": "exponential", "mean_s_per_sample": 1.2, "minimum_s_per_sample": 0.2},
            Exponential(mean=1.2, minimum=0.2),
        ),
        ({"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5}, Lognormal(median=0.002, sigma=0.5)),
        ({"kind": "pareto", "minimum_s_per_sample": 1, "alpha": 2.5}, Pareto(minimum=1, alpha=2.5)),
    ],
)
def test_speeds_follow_the_law_of_their_device(description: dict[str, Any], law: Distribution) -> None:
    speeds = DEVICE.validate_python(description).draw(30, np.random.default_rng(0))
    np.testing.assert_array_equal(speeds, law.draw(np.random.default_rng(0), 30))


def test_measured_devices_come_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "devices.csv"
    path.write_text("model,s\na,0.1\nb,0.4\n")
    rng = np.random.default_rng(0)
    assert CsvDevice(path=str(path), column="s", rows="in_order").draw(3, rng).tolist() == [0.1, 0.4, 0.1]
    assert set(CsvDevice(path=str(path), column="s").draw(50, rng)) == {0.1, 0.4}
    path.write_text("s_per_sample\n0.1\n0\n")
    with pytest.raises(DataError, match="line 3, column s_per_sample: must be a number > 0, got '0'"):
        CsvDevice(path=str(path)).draw(2, rng)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"kind": "fixed", "s_per_sample": math.inf}, "finite"),
        ({"kind": "uniform", "low_s_per_sample": 3, "high_s_per_sample": 1}, r"must be <= high_s_per_sample \(1\)"),
        ({"kind": "exponential", "mean_s_per_sample": 1, "minimum_s_per_sample": 2}, r"<= mean_s_per_sample \(1\)"),
        ({"kind": "listed", "s_per_sample": [0.1, 0.0]}, "greater than 0"),
        ({"kind": "fixed", "jitter": 0}, "must be > 0"),
    ],
)
def test_illegal_devices_are_refused(description: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DEVICE.validate_python(description)
