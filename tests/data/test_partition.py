"""Partitions: laws that hold for all of them, and the distribution that each one promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import DataError
from asyncfl.data.given_counts import GivenClassCounts
from asyncfl.data.partition import ByColumn, Dirichlet, Iid, InnerDirichlet, Pathological, Quantity, Shards, Similarity

LABELS = np.repeat(np.arange(10), 2000)
WRITERS = np.array(["ann", "bob", "ann", "cat", "bob", "ann", "dan"])


def counts(partition, clients, size, seed=0, labels=LABELS):
    shares = partition.assign(labels, clients, size, np.random.default_rng(seed))
    return np.array([np.bincount(labels[share], minlength=10) for share in shares])


def mixtures(partition, clients=20, size=100, seed=1):
    held = counts(partition, clients, size, seed, LABELS[::2])
    return held / held.sum(1, keepdims=True)


PARTITIONS = [
    Iid(),
    Quantity(min_samples=2),
    Quantity(distribution="power", spread=1.5, min_samples=1),
    Quantity(spread=0),
    Dirichlet(alpha=0.1),
    Dirichlet(alpha=100),
    Dirichlet(alpha=1.0, share_sizes="free", min_samples=1),
    Shards(shards_per_client=2),
    Similarity(gamma=0.33),
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


def test_clients_hold_runs_of_the_sorted_data():
    """24 samples with labels 23 to 0 in shards of 3: each shard holds the labels 3k, 3k + 1 and 3k + 2."""
    labels = np.arange(24)[::-1]
    shares = Shards(shards_per_client=2).assign(labels, 4, 6, np.random.default_rng(0))
    runs = [labels[share].reshape(2, 3) for share in shares]
    starts = [run[0] for client in runs for run in client]
    assert sorted(starts) == [0, 3, 6, 9, 12, 15, 18, 21] != starts
    assert all(run.tolist() == [run[0], run[0] + 1, run[0] + 2] for client in runs for run in client)


@pytest.mark.parametrize(("gamma", "own_class"), [(0.0, 100), (0.5, 55), (1.0, 10)])
def test_similar_clients_share_a_part_of_all_classes_and_hold_a_class_each(gamma, own_class):
    """Of 100 samples of a client, 100 gamma are of ten classes alike, and the others of the client's own class."""
    held = counts(Similarity(gamma=gamma), 10, 100, labels=np.repeat(np.arange(10), 100))
    assert (held.sum(1) == 100).all()
    assert held.diagonal().mean() == pytest.approx(own_class, abs=4)
    assert (gamma > 0) or (held == 100 * np.eye(10)).all()


def test_power_law_by_hand():
    partition = Quantity(distribution="power", spread=1.0, min_samples=1)
    sizes = partition.sizes(3, 23, np.random.default_rng(0))  # 66 above the minimum, as 1 : 1/2 : 1/3
    assert sorted(sizes) == [13, 19, 37]


def test_spread_is_the_standard_deviation_of_the_logarithm():
    sizes = Quantity(spread=0.5, min_samples=1).sizes(4000, 1000, np.random.default_rng(0))
    assert np.log(sizes).std() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("number", [1, 2, 3, 7, 10])
def test_each_client_holds_the_given_number_of_classes_in_equal_parts(number):
    labels = np.repeat(np.arange(10), 300)
    found = counts(Pathological(classes_per_client=number), 20, 42, number, labels)
    assert (found.sum(1) == 42).all()
    assert ((found > 0).sum(1) == number).all()
    held = [own[own > 0] for own in found]
    assert all(own.max() - own.min() <= 1 for own in held)
    holders = (found > 0).sum(0)
    assert holders.max() - holders.min() <= 1


def test_more_classes_than_exist_are_refused():
    with pytest.raises(DataError, match=r"classes_per_client: must be 1\.\.3 \(classes that occur\), got 4"):
        Pathological(classes_per_client=4).assign(np.arange(30) % 3, 2, 10, np.random.default_rng(0))


def test_a_class_with_too_few_samples_is_refused():
    labels = np.array([0] * 50 + [1] * 3)
    with pytest.raises(DataError, match="cannot be kept: 10 samples of class 1 are needed and 3 exist"):
        Pathological(classes_per_client=2).assign(labels, 2, 10, np.random.default_rng(0))


def test_each_client_holds_the_listed_number_of_each_class():
    listed = [[3, 0, 1], [0, 7, 1]]
    partition, labels = GivenClassCounts(counts=listed), np.arange(30) % 3
    shares = partition.assign(labels, 2, 6, np.random.default_rng(0))
    assert [np.bincount(labels[share], minlength=3).tolist() for share in shares] == listed
    assert len(np.unique(np.concatenate(shares))) == 12
    assert partition.sizes(2, 6, np.random.default_rng(0)).tolist() == [4, 8]
    other = partition.assign(labels, 2, 6, np.random.default_rng(1))
    assert sorted(np.concatenate(shares)) != sorted(np.concatenate(other))


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([[5, 5]], "counts: must have a row for each of 2 clients, got 1"),
        ([[5, 5], [10]], "counts: must have rows of equal length, got 1 to 2 classes"),
        ([[10, 10], [0, 0]], "counts: must give each client a sample, got none for client 1"),
        ([[5, 5], [5, 4]], "counts: must sum to 20 (clients x samples_per_client), got 19"),
    ],
)
def test_class_counts_that_do_not_fit_the_clients_are_refused(listed, message):
    assert [str(fault) for fault in GivenClassCounts(counts=listed).faults(2, 10)] == [message]


def test_class_counts_that_do_not_fit_the_labels_are_refused():
    partition, random = GivenClassCounts(counts=[[10, 0], [5, 5]]), np.random.default_rng(0)
    with pytest.raises(DataError, match=r"at most the 14 samples \(class 0\) that exist, got 15"):
        partition.assign(np.repeat([0, 1], [14, 6]), 2, 10, random)
    with pytest.raises(DataError, match="a number for each of 3 classes, got 2"):
        partition.assign(np.arange(30) % 3, 2, 10, random)


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


def test_values_with_too_few_samples_are_not_used():
    shares = assign(2, min_samples=2)
    assert {WRITERS[share[0]] for share in shares} == {"ann", "bob"}


def test_more_clients_than_values_are_refused():
    with pytest.raises(DataError, match=r"data\.clients: must be at most 4 \(values of writer, of 4\) where .* got 5"):
        assign(5)
    with pytest.raises(DataError, match=r"at most 2 \(values of writer of at least 2 samples, of 4\)"):
        assign(3, min_samples=2)


@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_smaller_alpha_leaves_fewer_classes(sizes):
    def classes(alpha):
        shares = mixtures(Dirichlet(alpha=alpha, share_sizes=sizes, min_samples=1))
        return (1 / (shares**2).sum(1)).mean()  # effective number of classes

    few, some, many = classes(0.1), classes(1.0), classes(100.0)
    assert few < 3 < some < 7.5 < many


def test_an_impossible_minimum_is_refused():
    partition = Dirichlet(alpha=0.01, share_sizes="free", min_samples=90)
    with pytest.raises(DataError, match=r"data\.partition\.min_samples: no split.*lower min_samples"):
        partition.assign(LABELS[::2], 20, 100, np.random.default_rng(0))


def test_sizes_follow_quantity_for_any_alpha():
    sizes = Quantity(spread=1.5, min_samples=3).sizes(40, 50, np.random.default_rng(0))
    for alpha in (0.05, 1.0, 100.0):
        held = counts(InnerDirichlet(alpha=alpha, spread=1.5, min_samples=3), 40, 50)
        np.testing.assert_array_equal(held.sum(1), sizes)


def test_mixtures_have_the_variance_of_the_dirichlet_distribution_and_do_not_depend_on_size():
    # A share drawn from Dirichlet(a, ..., a) over k classes has variance (k - 1) / (k^2 (k a + 1)).
    held = np.concatenate([counts(InnerDirichlet(alpha=0.5, spread=0), 40, 400, seed) for seed in range(10)])
    shares = held / held.sum(1, keepdims=True)
    assert abs(shares.var() - 9 / (100 * (10 * 0.5 + 1))) < 0.0015
    skewed = counts(InnerDirichlet(alpha=0.5, spread=1.0, min_samples=20), 60, 100)
    largest = (skewed / skewed.sum(1, keepdims=True)).max(1)
    assert abs(np.corrcoef(np.log(skewed.sum(1)), largest)[0, 1]) < 0.3
