"""One generator moved between streams draws as a generator of each stream's own would."""

import numpy as np

from asyncfl.base.streams import Streams
from asyncfl.world.keyed_stream import KeyedStream


def test_phase_0_begins_as_the_tasks_own_stream() -> None:
    stream = KeyedStream(Streams(5), "task_clock")
    for client, number in [(0, 0), (7, 3), (2**31 - 1, 2**31 - 1), (7, 3)]:
        own = Streams(5).generator("task_clock", client, number)
        rng = stream.at(client, number, 0)
        np.testing.assert_array_equal(rng.random(9), own.random(9))
        assert rng.standard_normal() == own.standard_normal()


def test_earlier_draws_do_not_change_later_ones() -> None:
    stream = KeyedStream(Streams(5), "task_clock")
    first = stream.at(1, 1, 2).random(3)
    stream.at(9, 9, 0).integers(5, size=3, dtype=np.uint32)  # leaves half a word in the generator's buffer
    again = stream.at(1, 1, 2)
    assert again.integers(2**32, dtype=np.uint32) is not None
    np.testing.assert_array_equal(stream.at(1, 1, 2).random(3), first)


def test_tasks_phases_and_seeds_differ() -> None:
    stream, other = KeyedStream(Streams(5), "task_clock"), KeyedStream(Streams(6), "task_clock")
    draws = [stream.at(c, n, p).random() for c in range(5) for n in range(5) for p in range(8)]
    draws += [other.at(c, 0, 0).random() for c in range(5)]
    assert len(set(draws)) == 205
