import numpy as np

from asyncfl.data.partition import Iid


def test_all_clients_have_the_same_mixture():
    labels = np.repeat(np.arange(10), 1000)
    shares = Iid().assign(labels, 10, 1000, np.random.default_rng(0))
    counts = np.array([np.bincount(labels[share], minlength=10) for share in shares])
    assert (counts.sum(1) == 1000).all()
    assert np.abs(counts - 100).max() < 50
