"""Hypothesis strategies, and that only they need hypothesis."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.defences import Buffer, Median
from asyncfl.testing import Lost, strategies


@given(strategies.updates(), strategies.updates(n=3, n_parameters=st.integers(2, 4), most=1))
def test_updates(free: np.ndarray, bound: np.ndarray) -> None:
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
def test_buffers(held: Buffer) -> None:
    assert 2 <= len(held) <= 5
    assert held.base_versions.min() >= 0
    assert held.clients.max() < 4
    assert Median().combine(held, np.full(len(held), 0.1)).shape == held.current.shape


@given(strategies.arrivals(clients=3, losses=False), strategies.arrivals(clients=3))
def test_arrivals(sound: list, lossy: list) -> None:
    assert all(isinstance(step, int) and step < 3 for step in sound)
    assert all(isinstance(step, int | Lost) for step in lossy)
