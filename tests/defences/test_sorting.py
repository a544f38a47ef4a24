import itertools

import numpy as np
import pytest

from asyncfl.defences.sorting import NETWORK_LIMIT, middle_mean, network


@pytest.mark.parametrize("n", range(1, 13))
def test_network_sorts_all_zero_one_inputs(n):
    # A network that is right for all zeros and ones is right for all numbers (Knuth's 0-1 principle).
    bits = np.array(list(itertools.product([0, 1], repeat=n)), dtype=np.float32).T
    for drop in range(n // 2 + 1):
        rows = [row.copy() for row in bits]
        for low, high in network(n, drop):
            rows[low], rows[high] = np.minimum(rows[low], rows[high]), np.maximum(rows[low], rows[high])
        done, wanted = np.array(rows), np.sort(bits, axis=0)
        np.testing.assert_array_equal(np.sort(done[:drop], axis=0), wanted[:drop])
        np.testing.assert_array_equal(np.sort(done[n - drop :], axis=0), wanted[n - drop :])


@pytest.mark.parametrize("n", [1, 2, 5, 10, 33, NETWORK_LIMIT + 1])
def test_middle_mean_is_the_mean_of_the_sorted_middle(n, random):
    updates = random.normal(size=(n, 20_000 if n < 11 else 50))
    for drop in {0, (n - 1) // 4, (n - 1) // 2}:
        wanted = np.sort(updates, axis=0)[drop : n - drop].mean(axis=0)
        np.testing.assert_allclose(middle_mean(updates, drop), wanted, rtol=1e-12, atol=1e-14)
