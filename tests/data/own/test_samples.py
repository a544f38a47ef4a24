from fnmatch import fnmatchcase

import numpy as np
import pytest

from asyncfl.data import Samples
from asyncfl.data.own.samples import caption_of_target, sample_faults, split_train_test, standardise

X = np.zeros((6, 2, 5))
Y = np.array([0, 1, 2, 0, 1, 2])
TEXTS = np.array(list("abcabc"))


def faults_of(**changed):
    return [str(fault) for fault in sample_faults(Samples(**{"features": X, "labels": Y, **changed}))]


def features_with(value):
    features = X.copy()
    features[3, 1, 2] = features[5, 0, 0] = value
    return features


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": X.tolist()}, "features: must be a NumPy array of numbers (n, ...), got list"),
        ({"features": X[:, 0, 0]}, "features: must be of shape (n, ...)*, got (6,); * make it (n, 1)"),
        ({"features": features_with(np.nan)}, "features: must be finite numbers, got nan in sample 3 (and 1 more *"),
        ({"labels": np.where(Y == 1, np.nan, Y)}, "labels: must be finite numbers, got nan in sample 1 (and 1 more *"),
        ({"labels": Y + 0.5, "test_features": X, "test_labels": Y},
         "test_labels: must be of the type and shape of labels (float64 (n)), got int64 (n)"),
        ({"labels": Y[:5]}, "labels: must have one label per sample (6), got 5"),
        ({"labels": Y - 1}, "labels: must be classes from 0 on, got -1..1 (sample 0 is the first outside)"),
        ({"classes": 2}, "labels: must be classes 0..1, got 0..2 (sample 2 is the first outside)"),
        ({"labels": Y * 0}, "labels: must be of at least two classes, got 1"),
        ({"labels": Y[:, None]}, "labels: must be a NumPy array of shape (n,), got shape (6, 1)"),
        ({"labels": Y / 2, "classes": 3}, "labels: must be whole numbers or text where classes are given, got float64"),
        ({"labels": Y * 1j}, "labels: must be whole numbers (classes from 0), text, or floats *, got complex128"),
        ({"labels": TEXTS, "classes": 3}, "labels: must be whole numbers 0..2 where classes is a number, got text"),
        ({"labels": TEXTS, "classes": ["a", "b"]}, "labels: must be of the 2 classes a, b, got c"),
        ({"test_features": X}, "test_labels: must be given too where test_features are"),
        ({"test_features": X[:, :, :4], "test_labels": Y},
         "test_features: must be of the shape and type of features (float64 (n, 2, 5)), got float64 (n, 2, 4)"),
        ({"test_features": X, "test_labels": Y.astype(str)},
         "test_labels: must be text or numbers as labels are, got <U21 and int64"),
        ({"columns": {"writer": Y[:2]}}, "columns.writer: must be a NumPy array of shape (6,), got shape (2,)"),
        ({"features": X[:1], "labels": Y[:1], "classes": 2}, "features: must be at least two samples, *, got 1"),
    ],
)  # fmt: skip
def test_invalid_samples_are_reported(changed, message):
    (found,) = faults_of(**changed)
    assert fnmatchcase(found, message)


def test_the_split_is_the_same_each_time():
    train, test = split_train_test(50)
    assert len(test) == 10
    assert sorted([*train, *test]) == list(range(50))
    for one, again in zip(split_train_test(50), (train, test), strict=True):
        np.testing.assert_array_equal(one, again)
    assert [len(part) for part in split_train_test(2)] == [1, 1]


def test_numbers_are_standardised_by_those_that_are_measured():
    measured = np.array([1.0, 3.0])
    assert standardise(np.array([1.0, 3.0, 7.0]), measured).tolist() == [-1, 1, 5]
    assert caption_of_target(measured) == "target minus 2, over 1"
    assert standardise(np.full((3, 1), 5.0), np.full((2, 1), 3.0)).tolist() == [[2], [2], [2]]
    assert caption_of_target(np.full(3, 3.0)) == "target minus 3, over 1"


def test_labels_that_are_identifiers_are_refused_before_a_model_has_an_output_for_each():
    identifiers = np.array([0, 123_456_789, 5, 123_456_789, 0, 5])
    (message,) = faults_of(labels=identifiers)
    assert message.startswith("labels: must be classes from 0 on, got 3 different numbers up to 123456789: ")
    assert faults_of(labels=identifiers.astype(str)) == []
    # A model may have classes that no sample has, and the user may say how many there are.
    assert faults_of(labels=np.array([0, 1, 99, 0, 1, 99])) == []
    assert faults_of(labels=np.array([0, 1, 500, 0, 1, 500]), classes=1000) == []
    assert faults_of(features=np.ones((200, 2)), labels=np.arange(200)) == []


@pytest.mark.parametrize("value", [1e39, -1e39, np.inf])
def test_numbers_beyond_float32_are_refused_in_features_and_targets(value):
    within = " within float32" if np.isfinite(value) else ""
    assert faults_of(features=features_with(value)) == [
        f"features: must be finite numbers{within}, got {value} in sample 3 (and 1 more samples)"
    ]
    assert faults_of(labels=np.array([0, 0, value, 0, 0, 0])) == [
        f"labels: must be finite numbers{within}, got {value} in sample 2"
    ]
    assert faults_of(features=features_with(3.4e38)) == []
