import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.errors import DataError
from asyncfl.world.devices import AnyDevice, CsvDevice, FixedDevice

DEVICE = TypeAdapter(AnyDevice)


@pytest.mark.parametrize(
    ("description", "low", "median"),
    [
        ({"kind": "fixed", "s_per_sample": 0.5}, 0.5, 0.5),
        ({"kind": "uniform", "low_s_per_sample": 1, "high_s_per_sample": 3}, 1, 2),
        ({"kind": "exponential", "mean_s_per_sample": 1.2, "minimum_s_per_sample": 0.2}, 0.2, 0.2 + np.log(2)),
        ({"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 0.5}, 0, 0.002),
        ({"kind": "pareto", "minimum_s_per_sample": 1, "alpha": 2}, 1, np.sqrt(2)),
    ],
)
def test_populations_have_their_minimum_and_median(description, low, median) -> None:
    speeds = DEVICE.validate_python(description).draw(20_001, np.random.default_rng(0))
    assert speeds.shape == (20_001,)
    assert speeds.dtype == np.float64
    assert speeds.min() >= low
    assert np.median(speeds) == pytest.approx(median, rel=0.03)


def test_measured_devices_come_from_the_file(tmp_path) -> None:
    path = tmp_path / "devices.csv"
    path.write_text("model,s\na,0.1\nb,0.4\n")
    rng = np.random.default_rng(0)
    assert CsvDevice(path=str(path), column="s", rows="in_order").draw(3, rng).tolist() == [0.1, 0.4, 0.1]
    assert set(CsvDevice(path=str(path), column="s").draw(50, rng)) == {0.1, 0.4}


def test_a_device_of_no_time_is_a_fault_of_its_file(tmp_path) -> None:
    path = tmp_path / "devices.csv"
    path.write_text("s_per_sample\n0.1\n0\n")
    with pytest.raises(DataError, match="line 3, column s_per_sample: must be a number > 0, got '0'"):
        CsvDevice(path=str(path)).draw(2, np.random.default_rng(0))


@pytest.mark.parametrize(
    "description",
    [
        {"kind": "fixed", "s_per_sample": 0},
        {"kind": "fixed", "s_per_sample": float("inf")},
        {"kind": "uniform", "low_s_per_sample": 3, "high_s_per_sample": 1},
        {"kind": "exponential", "mean_s_per_sample": 1, "minimum_s_per_sample": 2},
        {"kind": "lognormal", "median_s_per_sample": 1},
        {"kind": "pareto", "minimum_s_per_sample": 1, "alpha": float("nan")},
        {"kind": "fixed", "jitter": 0},
        {"kind": "quantum"},
    ],
)
def test_illegal_devices_are_faults(description) -> None:
    with pytest.raises(ValidationError):
        DEVICE.validate_python(description)


def test_jitter_is_a_number_or_a_distribution() -> None:
    assert FixedDevice(jitter=2).jitter.expected() == 2
    shifted = FixedDevice(jitter={"kind": "exponential", "mean": 1.2, "minimum": 0.2})
    assert DEVICE.validate_python(shifted.model_dump(mode="json")) == shifted


def test_listed_devices_are_the_clients_own() -> None:
    device = DEVICE.validate_python({"kind": "listed", "s_per_sample": [0.1, 0.4]})
    assert device.draw(3, np.random.default_rng(0)).tolist() == [0.1, 0.4, 0.1]
    with pytest.raises(ValidationError):
        DEVICE.validate_python({"kind": "listed", "s_per_sample": [0.1, 0.0]})
