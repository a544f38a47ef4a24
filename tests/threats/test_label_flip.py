"""Wrong labels."""

import numpy as np
import pytest

from asyncfl.threats import LabelFlip

IMAGES = np.zeros((4, 1, 2, 2), np.float32)
LABELS = np.array([0, 3, 9, 3])


def flip(attack, classes=10):
    images, labels = attack.poison(IMAGES, LABELS, classes, np.random.default_rng(0))
    assert images is IMAGES
    return labels.tolist()


def test_all_classes_are_mirrored():
    assert flip(LabelFlip()) == [9, 6, 0, 6]


def test_one_class_becomes_another():
    assert flip(LabelFlip(source_class=3, target_class=7)) == [0, 7, 9, 7]


@pytest.mark.parametrize("fields", [{"source_class": 1}, {"target_class": 1}, {"source_class": 1, "target_class": 1}])
def test_incomplete_or_equal_class_pairs_are_refused(fields):
    with pytest.raises(ValueError, match="target_class"):
        LabelFlip(**fields)


def test_missing_classes_are_faults():
    faults = list(LabelFlip(source_class=3, target_class=10).faults(10, (1, 28, 28)))
    assert [str(fault) for fault in faults] == ["target_class: must be 0..9 (the data set has 10 classes), got 10"]
    assert list(LabelFlip().faults(2, (1, 28, 28))) == []
