"""The largest numbers, and the memory of the others."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from asyncfl.base.streams import Streams
from asyncfl.client.compress import Compress
from asyncfl.client.compression import TopK


def compressor_of(compression: TopK) -> Compress:
    facts: Any = SimpleNamespace(streams=Streams(0))
    return Compress(facts, compression)


RANDOM = np.random.default_rng(0)
vectors = arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e3, 1e3, width=32))


def test_sizes_worked_out_by_hand() -> None:
    assert TopK(share=0.01).payload_bytes(1000) == 10 * 4 + 10 * 4
    # A bit for each of 1000 parameters is less than four bytes for each of 100 places.
    assert TopK(share=0.1).payload_bytes(1000) == 100 * 4 + 125
    assert TopK(share=1e-9).payload_bytes(1000) == 8
    assert TopK(share=1.0).k(7) == 7


def test_the_largest_are_sent_as_they_are() -> None:
    update = np.array([0.1, -5, 3, 0, -0.2], np.float32)
    assert TopK(share=0.4).decoded(update, RANDOM).tolist() == pytest.approx([0, -5, 3, 0, 0])
    assert np.isnan(TopK(share=0.2).decoded(np.array([1, np.nan, 9], np.float32), RANDOM)).sum() == 1


@given(update=vectors, share=st.floats(0.01, 1))
def test_it_is_a_contraction(update: np.ndarray, share: float) -> None:
    """Stich et al. 2018, definition 2.1: |x - top_k(x)|^2 <= (1 - k/n) |x|^2."""
    top = TopK(share=share)
    read, x = top.decoded(update, RANDOM).astype(float), update.astype(float)
    k = top.k(len(update))
    assert np.count_nonzero(read) <= k
    assert ((x - read) ** 2).sum() <= (1 - k / len(x)) * (x**2).sum() * (1 + 1e-9) + 1e-9


@given(
    updates=arrays(np.float32, st.tuples(st.integers(1, 8), st.just(10)), elements=st.floats(-10, 10, width=32)),
    share=st.sampled_from([0.1, 0.3, 1.0]),
)
def test_with_error_feedback_nothing_is_lost(updates: np.ndarray, share: float) -> None:
    """What was sent and what is kept add up to what there was to send."""
    compressor = compressor_of(TopK(share=share))
    base, sent = np.full(10, 2.0, np.float32), np.zeros(10)
    for turn, update in enumerate(updates):
        row = base + update
        compressor.compress(row, base, 3, turn)
        assert np.count_nonzero(np.abs(row - base) > 1e-6) <= max(1, round(10 * share))
        sent += row - base
    kept = np.linalg.norm(compressor.left_of(3))
    assert np.linalg.norm(updates.sum(axis=0, dtype=float) - sent) == pytest.approx(kept, abs=1e-3)


def test_clients_have_memories_of_their_own_and_without_feedback_none() -> None:
    base = np.zeros(4, np.float32)
    compressor = compressor_of(TopK(share=0.25))
    for client in (0, 1):
        row = np.array([1, 2, 3, 4], np.float32) * (client + 1)
        compressor.compress(row, base, client, 0)
        assert row.tolist() == [0, 0, 0, 4 * (client + 1)]
    row = np.zeros(4, np.float32)
    compressor.compress(row, base, 0, 1)
    assert row.tolist() == [0, 0, 3, 0]
    forgetful = compressor_of(TopK(share=0.25, error_feedback=False))
    forgetful.compress(np.array([1, 2, 3, 4], np.float32), base, 0, 0)
    assert forgetful.left_of(0) is None


def test_what_is_not_finite_is_not_remembered() -> None:
    compressor = compressor_of(TopK(share=0.5))
    row = np.array([np.nan, np.nan, np.inf, 1], np.float32)
    compressor.compress(row, np.zeros(4, np.float32), 0, 0)
    assert not compressor.left_of(0).any()


@given(update=vectors, share=st.floats(0.01, 1))
def test_what_is_sent_has_the_bytes_that_are_counted(update: np.ndarray, share: float) -> None:
    top = TopK(share=share)
    payload = top.packed(update, RANDOM)
    assert len(payload) == top.payload_bytes(len(update))
    largest = set(np.sort(np.abs(update))[len(update) - top.k(len(update)) :].tolist())
    read = top.unpacked(payload, len(update))
    assert set(np.abs(read).tolist()) <= largest | {0.0}
    assert (read[read != 0] == update[read != 0]).all()


def test_bytes_worked_out_by_hand() -> None:
    update = np.zeros(100, np.float32)
    update[[3, 70]] = 2, -1
    assert (
        TopK(share=0.02).packed(update, RANDOM)
        == np.array([3, 70], "<u4").tobytes() + np.array([2, -1], "<f4").tobytes()
    )
    few = np.array([0, 5, 0, 0, 1], np.float32)
    assert TopK(share=0.4).packed(few, RANDOM) == bytes([1 << 1 | 1 << 4]) + np.array([5, 1], "<f4").tobytes()


@pytest.mark.parametrize("places", [[70, 3], [3, 3], [3, 100]])
def test_places_that_are_none_are_not_read(places: list[int]) -> None:
    payload = np.array(places, "<u4").tobytes() + bytes(8)
    with pytest.raises(ValueError, match="must hold 2 different positions among 100"):
        TopK(share=0.02).unpacked(payload, 100)
