"""A patch of pixels and the class it stands for."""

import numpy as np
import pytest

from asyncfl.threats import Backdoor, LabelFlip, backdoor_test_set

IMAGES = np.linspace(-1, 2.5, 10 * 2 * 6 * 5, dtype=np.float32).reshape(10, 2, 6, 5)
LABELS = np.arange(10)


@pytest.mark.parametrize(
    ("corner", "rows", "columns"),
    [
        ("top_left", slice(1, 3), slice(1, 3)),
        ("top_right", slice(1, 3), slice(2, 4)),
        ("bottom_left", slice(3, 5), slice(1, 3)),
        ("bottom_right", slice(3, 5), slice(2, 4)),
    ],
)
def test_trigger_is_placed_in_its_corner(corner, rows, columns):
    marked = Backdoor(side=2, corner=corner, value=9.0).triggered(IMAGES)
    changed = marked != IMAGES
    assert changed[:, :, rows, columns].all()
    assert changed.sum() == 10 * 2 * 4
    assert (marked[changed] == 9).all()


def test_a_share_of_the_samples_gets_trigger_and_target():
    attack = Backdoor(target_class=3, poison_share=0.4, side=2, value=9.0)
    images, labels = attack.poison(IMAGES, LABELS, 10, np.random.default_rng(0))
    poisoned = (images != IMAGES).any(axis=(1, 2, 3))
    assert poisoned.sum() == 4
    assert (labels[poisoned] == 3).all()
    np.testing.assert_array_equal(labels[~poisoned], LABELS[~poisoned])
    np.testing.assert_array_equal(images[poisoned], attack.triggered(IMAGES)[poisoned])


def test_success_is_measured_on_triggered_images_of_other_classes():
    attack = Backdoor(target_class=7, side=2)
    images, labels = backdoor_test_set(attack, IMAGES, LABELS)
    assert labels.tolist() == [7] * 9
    np.testing.assert_array_equal(images, attack.triggered(IMAGES)[LABELS != 7])
    assert attack.target == 7
    assert backdoor_test_set(LabelFlip(), IMAGES, LABELS) is None


def test_missing_class_and_oversized_trigger_are_faults():
    faults = list(Backdoor(target_class=10, side=28).faults(10, (1, 28, 28)))
    assert [fault.field for fault in faults] == ["target_class", "side"]
    assert "must be 1..27" in faults[1].message
    assert list(Backdoor(target_class=9, side=27).faults(10, (1, 28, 28))) == []
