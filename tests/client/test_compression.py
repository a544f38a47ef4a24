"""Compression of updates: stochastic rounding to few levels, and the largest numbers with a memory of the others."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from asyncfl.base.client_state import ClientStates
from asyncfl.base.streams import Streams
from asyncfl.client.compress import REMAINDER, Compress
from asyncfl.client.compression import Downloads, NoCompression, Quantised, TopK

vectors = arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e3, 1e3, width=32))


def test_sizes_worked_out_by_hand() -> None:
    assert NoCompression().payload_bytes(1000) == 4000
    assert Quantised(bits=8).payload_bytes(1000) == 1004
    assert Quantised(bits=4).payload_bytes(1001) == 501 + 4
    assert Quantised(bits=8, bucket=100).payload_bytes(1001) == 1001 + 4 * 11
    assert (Quantised(bits=8).levels, Quantised(bits=4).levels, Quantised(bits=2).levels) == (127, 7, 1)


def test_numbers_on_a_level_stay_and_others_go_to_a_neighbour() -> None:
    update = np.array([7, -3, 0, 1.25], np.float32)
    read = np.stack([Quantised(bits=4).decoded(update, np.random.default_rng(k)) for k in range(4000)])
    assert (read[:, :3] == update[:3]).all()
    assert set(read[:, 3].tolist()) == {1.0, 2.0}
    assert read[:, 3].mean() == pytest.approx(1.25, abs=0.03)


@pytest.mark.parametrize("scale", ["largest", "l2"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_mean_is_right_and_the_variance_that_of_a_coin(scale: str, bits: int) -> None:
    update = np.random.default_rng(1).normal(size=20).astype(np.float32)
    quantised = Quantised(bits=bits, scale=scale)
    read = np.stack([quantised.decoded(update, np.random.default_rng(k)) for k in range(6000)]).astype(float)
    norm = np.abs(update).max() if scale == "largest" else np.linalg.norm(update)
    step = norm / quantised.levels
    part = np.abs(update) / step % 1
    np.testing.assert_allclose(read.var(axis=0), part * (1 - part) * step**2, atol=0.03 * step**2)
    np.testing.assert_allclose(read.mean(axis=0), update, atol=5 * step / math.sqrt(6000))


@given(update=vectors, bits=st.integers(2, 16), scale=st.sampled_from(["largest", "l2"]), seed=st.integers(0, 99))
def test_no_number_moves_further_than_a_step(update: np.ndarray, bits: int, scale: str, seed: int) -> None:
    quantised = Quantised(bits=bits, scale=scale)
    read = quantised.decoded(update, np.random.default_rng(seed))
    norm = float(np.abs(update).max()) if scale == "largest" else float(np.linalg.norm(update.astype(float)))
    assert read.dtype == np.float32
    assert np.abs(read.astype(float) - update).max() <= norm / quantised.levels * (1 + 1e-5) + 1e-6 * norm
    assert np.abs(read).max() <= norm * (1 + 1e-6)
    assert (read == quantised.decoded(update, np.random.default_rng(seed))).all()


@given(update=vectors, size=st.integers(1, 50))
def test_buckets_have_scales_of_their_own(update: np.ndarray, size: int) -> None:
    read = Quantised(bits=16, bucket=size).decoded(update, np.random.default_rng(0))
    for start in range(0, len(update), size):
        part = update[start : start + size]
        assert np.abs(read[start : start + size] - part).max() <= np.abs(part).max() * 1e-4


def test_what_is_not_finite_stays_so() -> None:
    update = np.array([1, np.nan, 2, 3], np.float32)
    assert np.isnan(Quantised().decoded(update, np.random.default_rng(0))).all()
    read = Quantised(bucket=2).decoded(update, np.random.default_rng(0))
    assert np.isnan(read).tolist() == [True, True, False, False]
    assert Quantised().decoded(np.zeros(3, np.float32), np.random.default_rng(0)).tolist() == [0.0] * 3


@given(update=vectors, bits=st.integers(2, 16), scale=st.sampled_from(["largest", "l2"]), bucket=st.integers(1, 50))
def test_what_is_sent_has_the_bytes_that_are_counted_and_is_read_the_same_by_all(
    update: np.ndarray, bits: int, scale: str, bucket: int
) -> None:
    quantised = Quantised(bits=bits, scale=scale, bucket=bucket)
    payload = quantised.packed(update, np.random.default_rng(3))
    assert len(payload) == quantised.payload_bytes(len(update))
    read = quantised.unpacked(payload, len(update))
    assert (read == quantised.unpacked(bytearray(payload), len(update))).all()
    assert (read == quantised.decoded(update, np.random.default_rng(3))).all()


def test_bytes_worked_out_by_hand() -> None:
    """Scale 7 as float32; levels 7, -3, 0 and 7 lie at 14, 4, 7 and 14 of 0..14, the lowest bits first."""
    payload = Quantised(bits=4).packed(np.array([7, -3, 0, 7], np.float32), np.random.default_rng(0))
    assert payload == np.float32(7).tobytes() + bytes([14 | 4 << 4, 7 | 14 << 4])
    assert Quantised(bits=4).unpacked(payload, 4).tolist() == [7, -3, 0, 7]
    three = Quantised(bits=3, bucket=2).packed(np.array([3, -3, 0], np.float32), np.random.default_rng(0))
    assert three == np.array([3, 0], np.float32).tobytes() + (6 | 0 << 3 | 3 << 6).to_bytes(2, "little")


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"\0" * 5, "a payload must have 6 bytes, got 5"),
        (np.float32(1).tobytes() + b"\xff\0", "a number of 4 bits must be at most 14, got 15"),
        (np.float32(-1).tobytes() + b"\0\0", "a scale must be >= 0, got -1"),
    ],
)
def test_what_nobody_sends_is_not_read(payload: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Quantised(bits=4).unpacked(payload, 4)


def test_nothing_is_sent_of_a_model_of_no_numbers() -> None:
    """The clock alone has no model."""
    nothing = np.empty(0, np.float32)
    assert Quantised().packed(nothing, np.random.default_rng(0)) == b""
    for bits in (5, 8):
        assert len(Quantised(bits=bits, bucket=3).decoded(nothing, np.random.default_rng(0))) == 0


MODEL = np.linspace(-1, 1, 50, dtype=np.float32)


def test_a_version_is_the_same_whenever_it_is_made_and_no_two_are_rounded_alike() -> None:
    downloads = Downloads(Quantised(bits=4), Streams(3))
    one = downloads(MODEL, 7)
    assert (one.model == Downloads(Quantised(bits=4), Streams(3))(MODEL, 7).model).all()
    assert (one.model != downloads(MODEL, 8).model).any()
    assert (one.model != Downloads(Quantised(bits=4), Streams(4))(MODEL, 7).model).any()
    assert not one.model.flags.writeable
    assert one.payload is not None
    assert (Quantised(bits=4).unpacked(one.payload, 50) == one.model).all()


def test_what_is_not_compressed_is_the_model_itself() -> None:
    made = Downloads(NoCompression(), Streams(3))(MODEL, 7)
    assert made.model is MODEL
    assert made.payload is None


def compressor_of(compression: TopK) -> Compress:
    facts: Any = SimpleNamespace(streams=Streams(0), states=ClientStates())
    return Compress(facts, compression)


RANDOM = np.random.default_rng(0)


def test_sizes_of_the_largest_by_hand() -> None:
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
    kept = np.linalg.norm(compressor.facts.states.of(3).arrays[REMAINDER])
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
    assert not forgetful.facts.states.of(0)


def test_what_is_not_finite_is_not_remembered() -> None:
    compressor = compressor_of(TopK(share=0.5))
    row = np.array([np.nan, np.nan, np.inf, 1], np.float32)
    compressor.compress(row, np.zeros(4, np.float32), 0, 0)
    assert not compressor.facts.states.of(0).arrays[REMAINDER].any()


@given(update=vectors, share=st.floats(0.01, 1))
def test_what_is_sent_has_the_bytes_that_are_counted(update: np.ndarray, share: float) -> None:
    top = TopK(share=share)
    payload = top.packed(update, RANDOM)
    assert len(payload) == top.payload_bytes(len(update))
    largest = set(np.sort(np.abs(update))[len(update) - top.k(len(update)) :].tolist())
    read = top.unpacked(payload, len(update))
    assert set(np.abs(read).tolist()) <= largest | {0.0}
    assert (read[read != 0] == update[read != 0]).all()


def test_bytes_of_the_largest_by_hand() -> None:
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
