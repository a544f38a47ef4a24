import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.data.partition import Pathological


@pytest.mark.parametrize("number", [1, 2, 3, 7, 10])
def test_each_client_holds_the_given_number_of_classes_in_equal_parts(number):
    labels = np.repeat(np.arange(10), 300)
    shares = Pathological(classes_per_client=number).assign(labels, 20, 42, np.random.default_rng(number))
    counts = np.array([np.bincount(labels[share], minlength=10) for share in shares])
    assert (counts.sum(1) == 42).all()
    assert ((counts > 0).sum(1) == number).all()
    held = [own[own > 0] for own in counts]
    assert all(own.max() - own.min() <= 1 for own in held)
    holders = (counts > 0).sum(0)
    assert holders.max() - holders.min() <= 1
    assert len(np.unique(np.concatenate(shares))) == 20 * 42


def test_more_classes_than_exist_are_refused():
    with pytest.raises(DataError, match=r"classes_per_client: must be 1\.\.3 \(classes that occur\), got 4"):
        Pathological(classes_per_client=4).assign(np.arange(30) % 3, 2, 10, np.random.default_rng(0))


def test_a_class_with_too_few_samples_is_refused():
    labels = np.array([0] * 50 + [1] * 3)
    with pytest.raises(DataError, match="cannot be kept: 10 samples of class 1 are needed and 3 exist"):
        Pathological(classes_per_client=2).assign(labels, 2, 10, np.random.default_rng(0))
