"""Hypothesis strategies, and that only they need hypothesis."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import find, given, settings
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


def test_neither_hypothesis_nor_torch_is_needed_for_the_rest() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import asyncfl.testing; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("strategy", "smallest"),
    [
        (strategies.updates(), (1, 1)),
        (strategies.weights(), (1,)),
        (strategies.staleness(), (0,)),
        (strategies.updates(n=st.integers(3, 5), n_parameters=2), (3, 2)),
    ],
)
def test_the_smallest_of_each_is_found_and_up_to_a_dozen_are_drawn(strategy: Any, smallest: tuple[int, ...]) -> None:
    assert find(strategy, lambda _: True).shape == smallest
    if smallest[0] < 3:
        assert len(find(strategy, lambda array: len(array) == 12)) == 12


def test_sequences_of_arrivals_fit_their_clients() -> None:
    with_losses, without = strategies.arrivals(3, most=4), strategies.arrivals(3, losses=False)
    assert find(with_losses, lambda steps: any(isinstance(one, Lost) for one in steps))
    assert len(find(with_losses, lambda steps: len(steps) == 4)) == 4
    assert find(without, lambda steps: 2 in steps) == [2]

    @given(with_losses, without)
    def fit(some: list[Any], plain: list[Any]) -> None:
        clients = [one.client if isinstance(one, Lost) else one for one in some]
        assert len(some) <= 4
        assert set(clients) <= {0, 1, 2}
        assert {one.fate for one in some if isinstance(one, Lost)} <= set(strategies.LOSSES)
        assert set(plain) <= {0, 1, 2}

    fit()


def test_the_smallest_buffer_is_of_the_first_version_and_the_first_client() -> None:
    least = find(strategies.buffers(clients=3, n=2, n_parameters=1, oldest=2), lambda _: True)
    assert (least.version, least.clients.tolist(), least.samples.tolist()) == (0, [0, 0], [1, 1])
    assert (least.base_versions.tolist(), least.current.tolist()) == ([0, 0], [0.0])


@settings(max_examples=200, database=None)
@given(strategies.buffers(clients=3, n=2, n_parameters=1, oldest=2))
def test_buffers_keep_to_their_bounds(held: Buffer) -> None:
    assert 0 <= held.clients.min() <= held.clients.max() < 3
    assert 1 <= held.samples.min() <= held.samples.max() <= 1000
    assert 0 <= held.base_versions.min() <= 3
    assert 0 <= (held.version - held.base_versions).max() <= 2
    assert np.abs(held.current).max() <= 1
