from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asyncfl.streams import PURPOSES, Streams

NAMES = st.tuples(st.sampled_from(sorted(PURPOSES)), st.integers(-1, 2**31 - 1), st.integers(-1, 2**31 - 1))


@given(st.integers(0, 2**40), NAMES, NAMES)
def test_a_stream_is_its_name_and_nothing_else(seed: int, name: tuple, other: tuple) -> None:
    streams = Streams(seed)
    first = streams.generator(*name).random(3)
    streams.generator(*other).random(100)
    np.testing.assert_array_equal(streams.generator(*name).random(3), first)
    assert (name == other) == (streams.generator(*other).random(3).tolist() == first.tolist())


def test_a_stream_never_changes_between_versions_of_the_program() -> None:
    assert Streams(7).generator("device", 3, 4).integers(1000, size=4).tolist() == [685, 801, 930, 248]


def test_groups_of_purposes_can_be_seeded_apart() -> None:
    plain, apart = Streams(1), Streams(1, data=9)
    for purpose, group in PURPOSES.items():
        same = plain.generator(purpose).random() == apart.generator(purpose).random()
        assert same == (group != "data")
    assert apart.generator("partition").random() == Streams(9).generator("partition").random()


def test_torch_streams_differ_by_client_and_task_and_repeat() -> None:
    streams = Streams(0)
    draws = {
        (client, task): streams.torch_generator("client_noise", client, task).initial_seed()
        for client in range(20)
        for task in range(20)
    }
    assert len(set(draws.values())) == 400
    assert streams.torch_generator("client_noise", 3, 5).initial_seed() == draws[3, 5]


def test_an_unknown_purpose_raises() -> None:
    with pytest.raises(KeyError):
        Streams(0).generator("coffee")


@given(st.integers(0, 2**32), st.integers(1, 2**32), st.lists(st.integers(0, 2**32), min_size=1))
def test_an_order_is_its_stream_and_nothing_else(number: int, n: int, numbers: list[int]) -> None:
    order, again = (Streams(3).order("selection", number=number % 2**31) for _ in range(2))
    proposed = list(order.proposals(n))
    assert proposed == list(again.proposals(n))
    assert len(proposed) == order.proposed(n)
    assert 0 <= min(proposed) <= max(proposed) < n
    together = order.ranks(np.array(numbers))
    one_by_one = [int(again.ranks(np.array([one]))[0]) for one in numbers]
    assert together.tolist() == one_by_one


def test_numbers_drawn_one_at_a_time_and_in_arrays_have_one_distribution() -> None:
    found = np.array([list(Streams(0).order("selection", number=k).proposals(64_000)) for k in range(400)])
    for part in (found[:, :32].ravel(), found[:, 32:].ravel()):
        assert stats.kstest((part + 0.5) / 64_000, "uniform").pvalue > 0.01
    ranks = np.concatenate([Streams(0).order("cohorts", number=k).ranks(np.arange(1000)) for k in range(20)])
    assert stats.kstest(ranks / 2.0**64, "uniform").pvalue > 0.01
    # Neighbours in number, and the same number in neighbouring orders, have nothing to do with each other.
    table = ranks.reshape(20, 1000) / 2.0**64
    assert abs(np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1]) < 4 / 20_000**0.5
    assert abs(np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]) < 4 / 20_000**0.5


def test_an_order_never_changes_between_versions_of_the_program() -> None:
    order = Streams(7).order("cohorts", number=3)
    assert [*islice(order.proposals(1000), 3)] == [836, 932, 256]
    assert order.ranks(np.arange(2)).tolist() == [3226773835379156091, 12418508392552174169]
