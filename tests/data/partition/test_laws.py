"""Laws that hold for every partition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.data.partition import Dirichlet, Iid, InnerDirichlet, Quantity, Shards

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
