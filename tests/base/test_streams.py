import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from asyncfl.base.streams import PURPOSES, RandomOrder, Streams, unknown_seed

NAMES = st.tuples(st.sampled_from(sorted(PURPOSES)), st.integers(-1, 2**31 - 1), st.integers(-1, 2**31 - 1))


@given(st.integers(0, 2**40), NAMES, NAMES)
def test_a_stream_is_its_name_and_nothing_else(seed: int, name: tuple, other: tuple) -> None:
    streams = Streams(seed)
    first = streams.generator(*name).random(3)
    streams.generator(*other).random(100)
    np.testing.assert_array_equal(streams.generator(*name).random(3), first)
    assert (name == other) == (streams.generator(*other).random(3).tolist() == first.tolist())


def test_unknown_seeds_cannot_be_guessed() -> None:
    drawn = {unknown_seed() for _ in range(40)}
    assert len(drawn) == 40
    assert 2**120 < max(drawn) < 2**128


def test_groups_of_purposes_can_be_seeded_apart() -> None:
    plain, apart = Streams(1), Streams(1, data=9)
    for purpose, group in PURPOSES.items():
        same = plain.generator(purpose).random() == apart.generator(purpose).random()
        assert same == (group != "data")
    assert apart.generator("partition").random() == Streams(9).generator("partition").random()


def test_torch_generators_use_all_bits_of_their_stream() -> None:
    """Of 20,000 generators that use 32 bits of a seed, some pair is the same once in 22; of 300,000, always."""
    streams = Streams(0)
    states = {streams.torch_generator("initial_model", n % 40, n).get_state().numpy().tobytes() for n in range(20_000)}
    assert len(states) == 20_000
    first, again = (torch.rand(5, generator=streams.torch_generator("initial_model", 3, 5)) for _ in range(2))
    assert torch.equal(first, again)


def test_bits_are_the_whole_digest_of_their_stream() -> None:
    streams = Streams(0)
    first = {streams.bits("client_noise", n % 40, n).random_raw() for n in range(30_000)}
    assert len(first) == 30_000
    assert (
        streams.bits("client_noise", 1, 2).random_raw(3).tolist()
        == streams.bits("client_noise", 1, 2).random_raw(3).tolist()
    )
    # As many ones as zeros, in each of the 64 places, from the very first word on.
    words = np.array(sorted(first), np.uint64)
    ones = np.array([(words >> np.uint64(place) & np.uint64(1)).mean() for place in range(64)])
    assert np.abs(ones - 0.5).max() < 4.5 * 0.5 / 30_000**0.5


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


def _mixed(word: int) -> int:
    """SplitMix64's output function (Steele, Lea and Flood 2014), on whole numbers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % 2**64
    return word ^ (word >> 31)


@pytest.mark.parametrize(("n", "proposed"), [(1, 32), (2111, 32), (2112, 33), (6400, 100), (2**32, 8192)])
def test_an_order_is_splitmix_read_backwards_and_ranks_are_read_forwards(n: int, proposed: int) -> None:
    key, step = 0x0123456789ABCDEF, 0x9E3779B97F4A7C15
    order = RandomOrder(key)
    words = [_mixed((key - place * step) % 2**64) for place in range(1, proposed + 1)]
    assert list(order.proposals(n)) == [int((word >> 11) * 2.0**-53 * n) for word in words]
    places = [0, 1, 2**32]
    assert order.ranks(np.array(places)).tolist() == [_mixed((key + place * step) % 2**64) for place in places]
    assert order.generator().integers(1000, size=3).tolist() == [330, 855, 975]


def test_another_noise_seed_draws_the_noise_anew_and_nothing_else() -> None:
    noise = {"score_noise", "client_noise", "epoch_noise", "server_noise", "example_noise", "clip_quantile"}
    noise |= {"poisson_batches", "field_noise"}  # as secret as the noise
    plain, *others = (Streams(1, noise=own) for own in (None, 0, 1, 2**127))
    for purpose in PURPOSES:
        drawn = [streams.generator(purpose, 3, 4).random() for streams in (plain, *others)]
        assert len(set(drawn)) == (4 if purpose in noise else 1), purpose
    # Seeds that share a noise_seed do not share noise.
    assert (
        Streams(2, noise=5).generator("client_noise").random() != Streams(1, noise=5).generator("client_noise").random()
    )
    z = np.stack([streams.generator("client_noise").standard_normal(20_000) for streams in (plain, *others)])
    assert np.abs(np.corrcoef(z)[np.triu_indices(4, 1)]).max() < 5 / 20_000**0.5
