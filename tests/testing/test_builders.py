"""What the builders build, and the hypothesis strategies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import Buffer, Median
from asyncfl.testing import Lost, buffer, strategies, updates


def test_the_last_updates_are_poisoned() -> None:
    rows = updates(6, 3, poisoned=2)
    assert (rows.shape, rows.dtype) == ((6, 3), np.float32)
    assert np.abs(rows[:4] - 1).max() < 0.6
    assert np.abs(rows[4:] + 10).max() < 0.6
    np.testing.assert_array_equal(rows[:4], updates(6, 3)[:4])
    assert not np.array_equal(rows, updates(6, 3, poisoned=2, seed=1))
    exact = updates(2, 2, centre=[1, 2], spread=0, poisoned=1, poison=[0, 5])
    assert exact.tolist() == [[1, 2], [0, 5]]
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 0
    with pytest.raises(ValueError, match=r"0..n \(3\), got 4"):
        updates(3, poisoned=4)


def test_a_buffer_has_the_deltas_it_was_built_from_and_a_base_for_each_age() -> None:
    held = buffer([[1, 2], [3, 4], [5, 6]], staleness=[0, 2, 0], clients=[4, 1, 4], samples=[10, 20, 30], drift=0.5)
    assert held.version == 2
    assert held.staleness.tolist() == [0, 2, 0]
    assert [base.tolist() for base in held.bases] == [[-1, -1], [0, 0]]
    assert held.models.tolist() == [[1, 2], [2, 3], [5, 6]]
    np.testing.assert_array_equal(held.deltas, [[1, 2], [3, 4], [5, 6]])
    assert (held.clients.tolist(), held.samples.tolist()) == ([4, 1, 4], [10, 20, 30])
    assert not any(array.flags.writeable for array in (held.models, held.current, held.clients, *held.bases))
    assert len(buffer()) == 8
    assert buffer([[1.0]], current=2.0, version=7).current.tolist() == [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"deltas": [1, 2]}, "n_updates, n_parameters"),
        ({"deltas": [[1], [2]], "clients": [1]}, "each of 2 updates, got 1"),
        ({"deltas": [[1]], "staleness": 3, "version": 2}, r"0..version \(2\)"),
        ({"deltas": [[1]], "staleness": -1}, "staleness must be"),
    ],
)
def test_impossible_buffers_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        buffer(**arguments)


@given(strategies.updates(), strategies.updates(n=3, n_parameters=st.integers(2, 4), most=1))
def test_generated_updates(free: np.ndarray, bound: np.ndarray) -> None:
    assert (free.ndim, free.dtype) == (2, np.float32)
    assert (len(bound), 2 <= bound.shape[1] <= 4) == (3, True)
    assert np.abs(bound).max() <= 1
    assert not bound.flags.writeable


@given(strategies.weights(), strategies.staleness(5, oldest=3))
def test_weights_and_ages(weights: np.ndarray, ages: np.ndarray) -> None:
    assert 0 < weights.sum() <= 1 + 1e-9
    assert 1 <= len(weights) <= 12
    assert (len(ages), ages.dtype) == (5, np.int64)
    assert 0 <= ages.min() <= ages.max() <= 3


@given(strategies.buffers(clients=4, n=st.integers(2, 5), oldest=2))
def test_generated_buffers(held: Buffer) -> None:
    assert 2 <= len(held) <= 5
    assert held.base_versions.min() >= 0
    assert held.clients.max() < 4
    assert Median().combine(held, np.full(len(held), 0.1)).shape == held.current.shape


@given(strategies.arrivals(clients=3, losses=False), strategies.arrivals(clients=3))
def test_generated_arrivals(sound: list, lossy: list) -> None:
    assert all(isinstance(step, int) and step < 3 for step in sound)
    assert all(isinstance(step, int | Lost) for step in lossy)
