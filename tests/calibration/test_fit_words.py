"""How a fitted world is written down and told, of values made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from asyncfl.calibration.fit import _clients, _device, _listed, _plain
from asyncfl.world.devices import (
    ExponentialDevice,
    FixedDevice,
    LognormalDevice,
    ParetoDevice,
    UniformDevice,
)  # fmt: skip
from asyncfl.world.distributions import Exponential, Fixed, Listed, Lognormal, Pareto, Uniform


def test_clients_are_named_up_to_five() -> None:
    assert _clients([3]) == "client 3"
    assert _clients([3, 5]) == "clients 3, 5"
    assert _clients(range(5)) == "clients 0, 1, 2, 3, 4"
    assert _clients(range(7)) == "clients 0, 1, 2, 3, 4 and 2 more"


def test_values_that_are_nearly_the_same_are_one() -> None:
    assert _listed(np.array([2.0, 2.0])) == Fixed(value=2.0)
    assert _listed(np.array([1.0, 1 + 0.9e-4, 1.0])) == Fixed(value=1.0)
    assert _listed(np.array([1.0, 1 + 1.1e-4])) == Listed(values=(1.0, 1 + 1.1e-4))
    assert _listed(np.array([np.inf, np.inf])) == Fixed(value=np.inf)
    assert _listed(np.array([1.0, np.inf])) == Listed(values=(1.0, np.inf))


def test_numbers_have_six_digits() -> None:
    assert _plain({"a": [0.123456789, 3, "x"], "b": (1234567.8,)}) == {"a": [0.123457, 3, "x"], "b": [1234570.0]}
    assert _plain(Uniform(low=1 / 3, high=2)) == {"kind": "uniform", "low": 0.333333, "high": 2.0}


def test_devices_are_those_of_the_distribution_of_their_speeds() -> None:
    assert _device(Fixed(value=2.0)) == FixedDevice(s_per_sample=2.0)
    assert _device(Uniform(low=1, high=3)) == UniformDevice(low_s_per_sample=1, high_s_per_sample=3)
    exponential = ExponentialDevice(mean_s_per_sample=4, minimum_s_per_sample=1)
    assert _device(Exponential(mean=4, minimum=1)) == exponential
    assert _device(Lognormal(median=3, sigma=0.5)) == LognormalDevice(median_s_per_sample=3, sigma=0.5)
    assert _device(Pareto(minimum=2, alpha=3)) == ParetoDevice(minimum_s_per_sample=2, alpha=3)
    with pytest.raises(ValueError, match="no device has"):
        _device(Listed(values=(1.0, 2.0)))
