from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
