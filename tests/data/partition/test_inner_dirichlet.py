import numpy as np

from asyncfl.data.partition import InnerDirichlet, Quantity

LABELS = np.repeat(np.arange(10), 2000)


def counts(partition, clients=40, size=50, seed=0):
    shares = partition.assign(LABELS, clients, size, np.random.default_rng(seed))
    return np.array([np.bincount(LABELS[share], minlength=10) for share in shares])


def test_sizes_follow_quantity_for_any_alpha():
    sizes = Quantity(spread=1.5, min_samples=3).sizes(40, 50, np.random.default_rng(0))
    for alpha in (0.05, 1.0, 100.0):
        held = counts(InnerDirichlet(alpha=alpha, spread=1.5, min_samples=3))
        np.testing.assert_array_equal(held.sum(1), sizes)


def test_mixtures_have_the_variance_of_the_dirichlet_distribution_and_do_not_depend_on_size():
    # A share drawn from Dirichlet(a, ..., a) over k classes has variance (k - 1) / (k^2 (k a + 1)).
    held = np.concatenate([counts(InnerDirichlet(alpha=0.5, spread=0), size=400, seed=seed) for seed in range(10)])
    shares = held / held.sum(1, keepdims=True)
    assert abs(shares.var() - 9 / (100 * (10 * 0.5 + 1))) < 0.0015
    skewed = counts(InnerDirichlet(alpha=0.5, spread=1.0, min_samples=20), clients=60, size=100)
    largest = (skewed / skewed.sum(1, keepdims=True)).max(1)
    assert abs(np.corrcoef(np.log(skewed.sum(1)), largest)[0, 1]) < 0.3
