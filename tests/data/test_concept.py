"""Concept shift: labels and images changed by groups of clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.concept import Relabelled, Restyled
from asyncfl.data.partition import Dirichlet


def small(**fields):
    return DataSpec(**{"clients": 4, "samples_per_client": 10, "test_samples": 12, "source": "embedded", **fields})


def messages(spec):
    with pytest.raises(DataError) as caught:
        spec.build(Streams(0))
    return [str(fault) for fault in caught.value.faults]


@given(groups=st.integers(2, 6), changed=st.integers(2, 10), seed=st.integers(0, 2**31))
def test_each_group_exchanges_the_given_number_of_classes(groups, changed, seed):
    concept = Relabelled(groups=groups, classes=changed)
    for group in range(groups):
        labels = np.arange(10)
        named = concept.labels(labels, np.full(10, group + groups), 10, Streams(seed))
        assert sorted(named) == list(range(10))
        assert (named != labels).sum() == (changed if group else 0)


def test_images_are_rotated_by_groups():
    images = np.zeros((3, 4, 4), np.uint8)
    images[:, 0, 1] = 200  # top, a little to the left
    seen = Restyled(groups=3).images(images, np.array([3, 1, 2]))
    assert [np.argwhere(image).tolist() for image in seen] == [[[0, 1]], [[2, 0]], [[3, 2]]]
    coloured = np.repeat(images[..., None], 3, axis=3)
    np.testing.assert_array_equal(Restyled(groups=3).images(coloured, np.array([3, 1, 2]))[..., 1], seen)


@pytest.mark.parametrize("fields", [{}, {"domains": ("mnist", "usps", "mnist_m", "svhn")}], ids=["one", "domains"])
def test_same_features_with_different_labels(fields):
    plain, other = (small(concept=concept, **fields).build(Streams(0)) for concept in (None, {"kind": "relabelled"}))
    np.testing.assert_array_equal(plain.images, other.images)
    np.testing.assert_array_equal(plain.test_images, other.test_images)
    for client in range(4):
        same = plain.client(client)[1] == other.client(client)[1]
        assert same.all() if client % 2 == 0 else not same.any()
    assert other.provenance.endswith("; 10 labels exchanged in all but one of 2 groups of clients")
    assert not other.original


def test_same_labels_with_different_features():
    spec = small(partition=Dirichlet(), scaling="unit")
    plain, other = (
        spec.model_copy(update={"concept": c}).build(Streams(0)) for c in (None, Restyled(change="inverted"))
    )
    np.testing.assert_array_equal(plain.labels, other.labels)
    for client in range(4):
        seen, kept = other.client(client)[0], plain.client(client)[0]
        np.testing.assert_allclose(seen, 1 - kept if client % 2 else kept, atol=1e-6)


def test_the_test_set_has_the_clients_concepts_in_turn():
    plain, other = (small(concept=c).build(Streams(0)) for c in (None, Relabelled()))
    np.testing.assert_array_equal(plain.test_labels[::2], other.test_labels[::2])
    assert (plain.test_labels[1::2] != other.test_labels[1::2]).all()
    domains = {"domains": ("mnist", "usps", "mnist_m", "svhn")}  # one client each: a domain has its client's names
    plain, other = (small(concept=c, **domains).build(Streams(0)) for c in (None, Relabelled()))
    same = [(plain.test_of(k)[1] == other.test_of(k)[1]).mean() for k in range(4)]
    assert same == [1, 0, 1, 0]


def test_impossible_concepts_are_refused():
    assert messages(small(concept=Relabelled(groups=5, classes=11))) == [
        "data.concept.groups: must be 2..data.clients (4), got 5",
        "data.concept.classes: must be 2..10 (classes), got 11",
    ]
    assert messages(small(concept=Restyled(groups=5))) == [
        "data.concept.groups: must be 2, 3, 4 with change: rotated, got 5"
    ]
    assert "must be 2 with change: inverted" in messages(small(concept=Restyled(groups=3, change="inverted")))[0]
