"""Laws that hold for every partition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.data.partition import Dirichlet, Iid, InnerDirichlet, Pathological, Quantity, Shards

PARTITIONS = [
    Iid(),
    Quantity(min_samples=2),
    Quantity(distribution="power", spread=1.5, min_samples=1),
    Quantity(spread=0),
    Dirichlet(alpha=0.1),
    Dirichlet(alpha=100),
    Dirichlet(alpha=1.0, share_sizes="free", min_samples=1),
    Shards(shards_per_client=2),
    InnerDirichlet(alpha=0.1, min_samples=1),
    InnerDirichlet(alpha=100, min_samples=2, distribution="power"),
]


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@settings(max_examples=20, deadline=None)
@given(clients=st.integers(1, 12), half=st.integers(5, 15), spare=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_shares_are_disjoint_complete_and_reproducible(partition, clients, half, spare, seed):
    size = 2 * half
    labels = np.random.default_rng(seed).integers(0, 10, clients * size + spare)
    before = labels.copy()
    shares = partition.assign(labels, clients, size, np.random.default_rng(seed))
    together = np.concatenate(shares)
    assert len(shares) == clients
    assert min(map(len, shares)) >= 1
    assert len(together) == clients * size == len(np.unique(together))
    assert together.min() >= 0
    assert together.max() < len(labels)
    np.testing.assert_array_equal(labels, before)
    again = partition.assign(labels, clients, size, np.random.default_rng(seed))
    for one, other in zip(shares, again, strict=True):
        np.testing.assert_array_equal(one, other)
    sizes = partition.sizes(clients, size, np.random.default_rng(seed))
    if sizes is not None:
        np.testing.assert_array_equal(sizes, [len(share) for share in shares])


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (Quantity(min_samples=11), "min_samples: must be 1..samples_per_client (10), got 11"),
        (Shards(shards_per_client=3), "shards_per_client: must divide samples_per_client (10), got 3"),
        (Pathological(classes_per_client=11), "classes_per_client: must be 1..samples_per_client (10), got 11"),
        (Shards(shards_per_client=5), None),
    ],
    ids=str,
)
def test_partitions_that_cannot_divide_ten_samples_are_refused(partition, message):
    assert [str(fault) for fault in partition.faults(5, 10)] == ([] if message is None else [message])


def test_iid_clients_have_the_same_mixture():
    labels = np.repeat(np.arange(10), 1000)
    shares = Iid().assign(labels, 10, 1000, np.random.default_rng(0))
    counts = np.array([np.bincount(labels[share], minlength=10) for share in shares])
    assert np.abs(counts - 100).max() < 50
