import numpy as np

from asyncfl.data.partition import Shards


def test_clients_hold_runs_of_the_sorted_data():
    """24 samples with labels 23 to 0 in shards of 3: each shard holds the labels 3k, 3k + 1 and 3k + 2."""
    labels = np.arange(24)[::-1]
    shares = Shards(shards_per_client=2).assign(labels, 4, 6, np.random.default_rng(0))
    runs = [labels[share].reshape(2, 3) for share in shares]
    starts = [run[0] for client in runs for run in client]
    assert sorted(starts) == [0, 3, 6, 9, 12, 15, 18, 21] != starts
    assert all(run.tolist() == [run[0], run[0] + 1, run[0] + 2] for client in runs for run in client)
