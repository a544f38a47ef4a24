import numpy as np
import pytest

from asyncfl.base.answers import flags, numbers, require, with_state
from asyncfl.base.component import Component
from asyncfl.base.errors import ComponentError


class Named(Component):
    kind: str = "my_module:Named"


class Nameless(Component):
    pass


def test_valid_answers_are_returned_unchanged() -> None:
    value = np.array([0.5, 0.0])
    assert numbers(Named(), "weight", value, (2,), finite=True, at_least=0) is value
    mask = np.array([True, False])
    assert flags(Named(), "flagged", mask, 2) is mask
    assert with_state(Named(), "judge", (3, "state"), int) == (3, "state")
    require(True, Named(), "judge", "must be right", None)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((2, 3)), r"craft must be \(2, 4\) numbers, got \(2, 3\) float64"),
        (np.array([["a"] * 4] * 2), r"craft must be \(2, 4\) numbers, got \(2, 4\) <U1"),
        (None, r"craft must be \(2, 4\) numbers, got NoneType None"),
        ([[0.0] * 4] * 2, r"craft must be \(2, 4\) numbers, got list \[\[0.0"),
        (list(range(1000)), r"craft must be \(2, 4\) numbers, got list \[0, .{,60}\.\.\. 998, 999\]$"),
    ],
)
def test_another_shape_or_another_thing_is_refused(value: object, said: str) -> None:
    with pytest.raises(ComponentError, match=rf"^my_module:Named: {said}"):
        numbers(Named(), "craft", value, (2, 4))


def test_numbers_out_of_range_are_refused_with_the_first_of_them() -> None:
    with pytest.raises(ComponentError, match=r"^Nameless: weight must be >= 0, got -2.0$"):
        numbers(Nameless(), "weight", np.array([1.0, -2.0, -3.0]), (3,), finite=True, at_least=0)
    with pytest.raises(ComponentError, match=r"^Nameless: weight must be finite, got nan$"):
        numbers(Nameless(), "weight", np.array([1.0, np.nan]), (2,), finite=True, at_least=0)


@pytest.mark.parametrize("value", [np.array([1, 0]), np.array([True]), [True, False], 3, (3,), ("3", None), (1, 2, 3)])
def test_flags_are_one_bool_per_row_and_an_answer_comes_with_a_state(value: object) -> None:
    with pytest.raises(ComponentError, match=r"flagged must be \(2,\) bool, got "):
        flags(Named(), "flagged", value, 2)
    with pytest.raises(ComponentError, match=r"judge must return \(int, state\), got "):
        with_state(Named(), "judge", value, int)
