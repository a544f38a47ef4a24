import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.data.partition import ByColumn

WRITERS = np.array(["ann", "bob", "ann", "cat", "bob", "ann", "dan"])


def assign(clients, most=100, seed=0, **fields):
    partition = ByColumn(column="writer", **fields)
    return partition.assign(WRITERS, clients, most, np.random.default_rng(seed))


def test_each_client_holds_all_samples_of_one_value():
    for seed in range(5):
        shares = assign(3, seed=seed)
        held = [set(WRITERS[share]) for share in shares]
        assert all(len(own) == 1 for own in held)
        assert len(set.union(*held)) == 3
        for share, (name,) in zip(shares, held, strict=True):
            np.testing.assert_array_equal(np.sort(share), np.flatnonzero(name == WRITERS))
    assert len({tuple(WRITERS[share[0]] for share in assign(3, seed=seed)) for seed in range(20)}) > 5


def test_joined_values_are_all_distributed():
    shares = assign(2, joined=True)
    assert sorted(np.concatenate(shares)) == list(range(7))
    assert [len(set(WRITERS[share])) for share in shares] == [2, 2]


def test_samples_per_client_is_an_upper_limit():
    shares = assign(4, most=2)
    assert sorted(map(len, shares)) == [1, 1, 2, 2]


def test_values_with_too_few_samples_are_not_used():
    shares = assign(2, min_samples=2)
    assert {WRITERS[share[0]] for share in shares} == {"ann", "bob"}


def test_more_clients_than_values_are_refused():
    with pytest.raises(DataError, match=r"data\.clients: must be at most 4 \(values of writer, of 4\) where .* got 5"):
        assign(5)
    with pytest.raises(DataError, match=r"at most 2 \(values of writer of at least 2 samples, of 4\)"):
        assign(3, min_samples=2)
