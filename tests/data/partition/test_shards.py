import numpy as np

from asyncfl.data.partition import Shards


def test_clients_see_as_many_classes_as_shards_when_these_fit():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 100))
    shares = Shards(shards_per_client=2).assign(labels, 50, 20, np.random.default_rng(0))
    seen = [len(np.unique(labels[share])) for share in shares]
    assert max(seen) == 2
    assert np.mean(seen) > 1.5


def test_shards_must_divide_the_share():
    (fault,) = Shards(shards_per_client=3).faults(5, 10)
    assert str(fault) == "shards_per_client: must divide samples_per_client (10), got 3"
    assert not list(Shards(shards_per_client=5).faults(5, 10))
