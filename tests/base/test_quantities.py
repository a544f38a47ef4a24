import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.quantities import quantity, scale_of, with_interval, with_unit


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.66e7, "bytes", "36.6 MB"),
        (999.7, "bytes", "1 kB"),
        (512, "bytes", "512 B"),
        (2.5e16, "bytes", "25000 TB"),
        (12.2, "s", "12.2 s"),
        (0.012, "s", "12 ms"),
        (90, "s", "1.5 min"),
        (5040, "s", "1.4 h"),
        (2 * 86400, "s", "2 d"),
        (-5040, "s", "-1.4 h"),
        (1e300, "s", "1.16e+295 d"),
        (0, "s", "0 s"),
        (0, "bytes", "0 B"),
        (math.inf, "s", "∞"),
        (math.nan, "bytes", "–"),
        (0.43876, "share", "0.4388"),
        (12.3456, "", "12.35"),
        (0.00012, "", "0.00012"),
        (123456.0, "", "1.23e+05"),
    ],
)
def test_a_quantity_has_a_unit_that_a_person_reads(value, unit, text):
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("mean", "half", "unit", "text"),
    [
        (0.8123, 0.4391, "", "0.81 ± 0.44"),
        (0.4525, 0.002, "", "0.4525 ± 0.0020"),
        (0.71943, 0.00002, "", "0.7194 ± 2e-05"),
        (0.7, 0.0, "", "0.7 ± 0"),
        (0.7, math.nan, "", "0.7 ± –"),
        (0.0, 0.1, "", "0.00 ± 0.10"),
        (123.4, 45.6, "", "123 ± 46"),
        (0.9, 12.0, "", "1 ± 12"),
        (3.66e7, 1.2e6, "bytes", "36.6 ± 1.2 MB"),
        (5040.0, math.nan, "s", "1.4 ± – h"),
        (5040.0, 360.0, "s", "1.40 ± 0.10 h"),
        (math.nan, 1.0, "s", "–"),
        (3e8, 1e8, "", "3e+08 ± 1e+08"),
    ],
)
def test_an_interval_says_how_many_digits_of_its_mean_mean_something(mean, half, unit, text):
    assert with_interval(mean, half, unit) == text


def test_values_of_one_axis_share_a_scale():
    scale = scale_of([1e3, 4e9, math.inf, math.nan], "bytes")
    assert with_unit("traffic", scale) == "traffic (GB)"
    assert with_unit("accuracy", scale_of([0.5], "share")) == "accuracy"


@given(st.floats(1e-7, 1e15), st.sampled_from(["s", "bytes"]))
def test_quantities_are_written_to_three_digits(value, unit):
    digits, symbol = quantity(value, unit).split()
    [factor] = {scale_of([value], unit).factor}
    assert scale_of([value], unit).symbol == symbol
    assert float(digits) * factor == pytest.approx(value, rel=5.1e-3)
