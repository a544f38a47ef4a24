import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.data.partition import Dirichlet

LABELS = np.repeat(np.arange(10), 1000)


def mixtures(partition, clients=20, size=100):
    shares = partition.assign(LABELS, clients, size, np.random.default_rng(1))
    counts = np.array([np.bincount(LABELS[share], minlength=10) for share in shares])
    return counts / counts.sum(1, keepdims=True)


@pytest.mark.parametrize("sizes", ["equal", "free"])
def test_smaller_alpha_leaves_fewer_classes(sizes):
    def classes(alpha):
        shares = mixtures(Dirichlet(alpha=alpha, share_sizes=sizes, min_samples=1))
        return (1 / (shares**2).sum(1)).mean()  # effective number of classes

    few, some, many = classes(0.1), classes(1.0), classes(100.0)
    assert few < 3 < some < 7.5 < many


def test_mixtures_have_the_variance_of_the_dirichlet_distribution():
    shares = mixtures(Dirichlet(alpha=0.5), clients=90)
    exact = 0.1 * 0.9 / 6  # of Dirichlet(.5, ..., .5), ten classes
    multinomial = 0.1 * 0.9 / 100
    assert shares.var() == pytest.approx(exact + multinomial, rel=0.15)


def test_used_up_classes_are_replaced():
    shares = Dirichlet(alpha=0.01).assign(LABELS[:5000], 50, 100, np.random.default_rng(0))
    assert sum(map(len, shares)) == 5000


def test_free_sizes_differ():
    shares = Dirichlet(alpha=0.5, share_sizes="free").assign(LABELS, 20, 100, np.random.default_rng(0))
    assert len({len(share) for share in shares}) > 5
    assert min(map(len, shares)) >= 10


def test_an_impossible_minimum_is_refused():
    partition = Dirichlet(alpha=0.01, share_sizes="free", min_samples=90)
    with pytest.raises(DataError, match=r"data\.partition\.min_samples: no split.*lower min_samples"):
        partition.assign(LABELS, 20, 100, np.random.default_rng(0))
