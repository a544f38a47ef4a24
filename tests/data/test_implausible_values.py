"""Values that are valid numbers and yet cannot be meant: one message instead of a run that fails or eats memory."""

from pathlib import Path

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.data.own.samples import Samples, sample_faults
from asyncfl.data.own.table import TableFile

FEATURES = np.ones((6, 2))


def messages(features: np.ndarray, labels: np.ndarray, **fields: object) -> list[str]:
    return [str(fault) for fault in sample_faults(Samples(features, labels, **fields))]  # type: ignore[arg-type]


def test_labels_that_are_identifiers_are_refused_before_a_model_has_an_output_for_each() -> None:
    identifiers = np.array([0, 123_456_789, 5, 123_456_789, 0, 5])
    (message,) = messages(FEATURES, identifiers)
    assert message.startswith("labels: must be classes from 0 on, got 3 different numbers up to 123456789: ")
    assert messages(FEATURES, identifiers.astype(str)) == []
    # A model may have classes that no sample has, and the user may say how many there are.
    assert messages(FEATURES, np.array([0, 1, 99, 0, 1, 99])) == []
    assert messages(FEATURES, np.array([0, 1, 500, 0, 1, 500]), classes=1000) == []
    assert messages(np.ones((200, 2)), np.arange(200)) == []


@pytest.mark.parametrize("value", [1e39, -1e39, np.inf, np.nan])
def test_numbers_beyond_float32_are_refused_in_features_and_targets(value: float) -> None:
    features, targets = FEATURES.copy(), np.zeros(6)
    features[4, 1] = targets[2] = value
    within = " within float32" if np.isfinite(value) else ""
    (message,) = messages(features, np.arange(6) % 2)
    assert message == f"features: must be finite numbers{within}, got {value} in sample 4"
    assert messages(FEATURES, targets) == [f"labels: must be finite numbers{within}, got {value} in sample 2"]
    features[4, 1] = targets[2] = 3.4e38
    assert messages(features, targets) == []


def rows(path: Path, ages: list[object]) -> TableFile:
    path.write_text("age,income\n" + "".join(f"{age},{'high' if at % 2 else 'low'}\n" for at, age in enumerate(ages)))
    return TableFile(path=str(path), target="income")


def test_a_text_in_a_column_of_numbers_is_a_typo_and_not_a_category_per_number(tmp_path: Path) -> None:
    ages: list[object] = list(range(100))
    assert rows(tmp_path / "right.csv", ages).load().features.shape == (80, 1)
    ages[41] = "4l"
    with pytest.raises(DataError, match=r"age: must be numbers or text, got '4l' in row 42 among numbers; mend it"):
        rows(tmp_path / "typo.csv", ages).load()


def test_texts_with_few_numbers_among_them_are_categories(tmp_path: Path) -> None:
    codes: list[object] = [*(["12", "7", "3b"] * 20), "a"]
    assert rows(tmp_path / "codes.csv", codes).load().features.shape[1] == 4
