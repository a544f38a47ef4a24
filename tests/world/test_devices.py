"""Each device population against the closed form of its law: quantiles, mean, and distribution function."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from asyncfl.base.errors import DataError
from asyncfl.world.devices import AnyDevice, CsvDevice

DEVICE = TypeAdapter(AnyDevice)
CLIENTS = 20_000

LAWS = [
    # Uniform on 1..3 s.
    ({"kind": "uniform", "low_s_per_sample": 1, "high_s_per_sample": 3}, stats.uniform(loc=1, scale=2)),
    # 0.2 s and an exponential of mean 1.2 - 0.2 = 1 s above it.
    ({"kind": "exponential", "mean_s_per_sample": 1.2, "minimum_s_per_sample": 0.2}, stats.expon(loc=0.2, scale=1)),
    # The logarithm is normal about log(0.002 s).
    ({"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5}, stats.lognorm(s=0.5, scale=0.002)),
    # P(X > x) = (1 s / x)^2.
    ({"kind": "pareto", "minimum_s_per_sample": 1, "alpha": 2.5}, stats.pareto(b=2.5, scale=1)),
]


@pytest.mark.parametrize(("description", "law"), LAWS)
def test_speeds_follow_the_law_of_their_device(description: dict[str, Any], law: Any) -> None:
    speeds = DEVICE.validate_python(description).draw(CLIENTS, np.random.default_rng(0))
    assert (speeds.shape, speeds.dtype) == ((CLIENTS,), np.float64)
    assert stats.kstest(speeds, law.cdf).pvalue > 1e-3
    assert abs(speeds.mean() - law.mean()) < 4 * law.std() / math.sqrt(CLIENTS)


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
        ({"kind": "fixed", "s_per_sample": 0}, "greater than 0"),
        ({"kind": "fixed", "s_per_sample": math.inf}, "finite"),
        ({"kind": "uniform", "low_s_per_sample": 3, "high_s_per_sample": 1}, r"must be <= high_s_per_sample \(1\)"),
        ({"kind": "exponential", "mean_s_per_sample": 1, "minimum_s_per_sample": 2}, r"<= mean_s_per_sample \(1\)"),
        ({"kind": "listed", "s_per_sample": [0.1, 0.0]}, "greater than 0"),
        ({"kind": "fixed", "jitter": 0}, "must be > 0"),
        ({"kind": "quantum"}, "quantum"),
    ],
)
def test_illegal_devices_are_refused(description: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DEVICE.validate_python(description)
