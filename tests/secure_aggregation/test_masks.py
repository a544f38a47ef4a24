"""Masks cancel, masks of lost clients are recovered, and fewer answers than the threshold unmask nothing."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.protocol.secure_aggregation import LightSecAgg, Pairwise, RoundTrip
from asyncfl.secure_aggregation import PRIME, BelowThresholdError, MaskedSum, Member
from asyncfl.secure_aggregation.field import elements_of, integers_of, interpolation, polynomial_values
from asyncfl.secure_aggregation.lightsecagg_masks import encoded, mask_parts
from asyncfl.secure_aggregation.pairwise_masks import MemberSecrets, agreed_key, masked
from asyncfl.secure_aggregation.shamir import SHARE_PRIME, secret_of, shares


def secrets_of(member: Member) -> np.random.Generator:
    return np.random.default_rng([7, member.client, member.turn])


def work(weights: list[int], lost: int = 0, helpers: list[int] | None = None, clients: int | None = None) -> MaskedSum:
    members = tuple(Member(client, 0) for client in range(len(weights) + lost))
    senders = members[: len(weights)]
    helping = [one.client for one in senders] if helpers is None else helpers
    return MaskedSum(tuple(weights), senders, members, tuple(helping), clients or len(members))


@st.composite
def sums(draw: st.DrawFn) -> tuple[Any, MaskedSum, int]:
    updates, lost = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    weights = draw(st.lists(st.integers(0, 256), min_size=updates, max_size=updates))
    seed, size = draw(st.integers(0, 1000)), draw(st.integers(1, 9))
    vectors = np.random.default_rng(seed).integers(-(2**15), 2**15, (updates, size))
    helpers = draw(st.permutations(range(updates)))
    return vectors, work(weights, lost, helpers), draw(st.integers(1, updates))


@settings(max_examples=40)
@given(sums())
def test_unmasked_sum_is_the_weighted_sum_whatever_drops_out(drawn: tuple[Any, MaskedSum, int]) -> None:
    vectors, one, threshold = drawn
    truth = (np.array(one.weights)[:, None] * vectors).sum(axis=0)
    assert np.array_equal(integers_of(Pairwise(threshold=threshold).total(vectors, one, secrets_of)), truth)
    for colluders in range(threshold):
        kind = LightSecAgg(threshold=threshold, colluders=colluders)
        assert np.array_equal(integers_of(kind.total(vectors, one, secrets_of)), truth)


@pytest.mark.parametrize("kind", [Pairwise(threshold=4), LightSecAgg(threshold=4, colluders=1)])
def test_below_the_threshold_nothing_is_unmasked(kind: Any) -> None:
    vectors = np.arange(10).reshape(5, 2)
    with pytest.raises(BelowThresholdError, match=r"4 of 6 .* must answer, got 3"):
        kind.total(vectors, work([1] * 5, lost=1, helpers=[0, 2, 3]), secrets_of)
    assert integers_of(kind.total(vectors, work([1] * 5, 1, [4, 0, 2, 3]), secrets_of)).tolist() == [20, 25]


def test_a_sum_beyond_half_the_field_wraps_around() -> None:
    half = (PRIME - 1) // 2
    vectors = np.array([[half, 5], [1, 5]])
    assert integers_of(Pairwise(threshold=1).total(vectors, work([1, 1]), secrets_of)).tolist() == [-half, 10]


def test_a_masked_vector_looks_uniform_and_two_differ_without_their_masks() -> None:
    """Of 20,000 elements the mean is within five standard deviations q/sqrt(12 n) of q/2, whatever the vector is."""
    secrets = [MemberSecrets.draw(2, 3, secrets_of(Member(client, 0))) for client in range(3)]
    keys = [one.public_key for one in secrets]
    zero, large = (elements_of(np.full(20_000, value)) for value in (0, 9_999))
    for vector in (zero, large):
        sent = masked(vector, 1, secrets[1], keys)
        assert abs(sent.mean() - PRIME / 2) < 5 * PRIME / np.sqrt(12 * 20_000)
    first, second = (masked(large, 0, secrets[0], [*keys[:2], key]) for key in (keys[2], keys[1]))
    assert (first == second).mean() < 0.01


def test_both_members_of_a_pair_agree_on_one_key() -> None:
    first, second = (MemberSecrets.draw(1, 2, secrets_of(Member(client, 0))) for client in range(2))
    key = agreed_key(first.secret_key, second.public_key)
    assert key == agreed_key(second.secret_key, first.public_key) < 2**128


def test_any_threshold_of_shamirs_shares_give_the_secret_and_fewer_another_number() -> None:
    secret, random = 2**254 + 12345, np.random.default_rng(0)
    held = dict(enumerate(shares(secret, 3, 6, random), 1))
    for chosen in ((1, 2, 3), (6, 4, 2), (1, 3, 4, 5, 6)):
        assert secret_of({number: held[number] for number in chosen}) == secret
    assert secret_of({1: held[1], 5: held[5]}) != secret
    with pytest.raises(ValueError, match=r"threshold must be 1\.\.6"):
        shares(secret, 7, 6, random)
    # Worked out by hand: the line 5 + 2x has the shares 7 and 9, and 2 * 7 - 9 = 5.
    assert secret_of({1: 7, 2: 9}) == 5
    assert 0 <= held[1] < SHARE_PRIME


def test_interpolation_inverts_evaluation() -> None:
    random = np.random.default_rng(3)
    coefficients = random.integers(0, PRIME, (5, 4), dtype=np.uint64)
    points = np.array([1, 4, 2, 90, 33], dtype=np.uint64)
    values = polynomial_values(coefficients, points)
    matrix = interpolation(points, 5)
    found = [
        [sum(int(a) * int(v) for a, v in zip(row, column, strict=True)) % PRIME for column in values.T]
        for row in matrix
    ]
    assert np.array_equal(np.array(found), coefficients)
    # By hand: 3 + 2x is 5 at 1 and 7 at 2.
    assert polynomial_values(np.array([[3], [2]], np.uint64), np.array([1, 2], np.uint64)).ravel().tolist() == [5, 7]


def test_as_many_shares_as_colluders_are_independent_of_the_mask() -> None:
    """For each mask there is exactly one choice of T random parts that gives any T shares: T linear equations with a
    Vandermonde matrix. Here T = 1 and U = 2: share = mask + point * random."""
    parts = mask_parts(1, 2, 1, np.random.default_rng(0))
    [[share]] = encoded(parts, [4])
    assert int(share) == (int(parts[0, 0]) + 5 * int(parts[1, 0])) % PRIME
    for mask in (0, 1, PRIME - 1):
        random = (int(share) - mask) * pow(5, PRIME - 2, PRIME) % PRIME
        assert encoded(np.array([[mask], [random]], np.uint64), [4]).tolist() == [[share]]


@pytest.mark.parametrize(("members", "numbers"), [(5, 7850), (100, 10), (2, 1)])
def test_bytes_of_pairwise_are_those_of_the_source(members: int, numbers: int) -> None:
    """Bonawitz et al. 2017, section 7: 2n a_K + (5n - 4) a_S + m log R bits, with a_K = a_S = 256 and 32 bits for R.
    The server's list of senders, a bit for each member, is ours."""
    kind, n = Pairwise(), members
    messages = [*kind.setup(n, numbers), kind.unmasking(n, n, numbers)]
    bits = 8 * (sum(one.up_bytes + one.down_bytes for one in messages) - -(-n // 8)) + 32 * numbers
    assert bits == 2 * n * 256 + (5 * n - 4) * 256 + 32 * numbers
    assert len(messages) == 3


def test_bytes_of_lightsecagg_are_those_of_the_source() -> None:
    """So et al. 2022, table 1: a share has d/(U - T) elements; a client sends N - 1 before, one to recover a sum."""
    kind = LightSecAgg(threshold=7, colluders=2)
    assert kind.setup(10, 1000) == (RoundTrip(9 * 200 * 4, 0),)
    assert kind.relayed_bytes(10, 1000) == 9 * 200 * 4
    assert kind.unmasking(10, 3, 1000) == RoundTrip(200 * 4, 24)
    assert kind.unmasking(10, 3, 1001).up_bytes == 201 * 4


def test_weights_are_whole_shares_of_the_largest() -> None:
    kind = LightSecAgg(weight_bits=2)
    ages = np.array([1.0, 0.5, 1.0])
    assert kind.weights(np.array([8, 8, 3]), 8, ages, 1.0) == (4, 2, 2)
    assert kind.weights(np.array([8, 8, 3]), 8, 2 * ages, 2.0) == (4, 2, 2)
    assert Pairwise(weight_bits=0).weights(np.ones(3, int), 1, np.ones(3), 1.0) == (1, 1, 1)


def test_impossible_settings_are_refused_by_name() -> None:
    def faults(kind: Any, members: int = 10, updates: int = 10) -> list[tuple[str, str]]:
        return [(one.field, one.message) for one in kind.faults(members, updates)]

    assert faults(Pairwise()) == []
    [(field, message)] = faults(Pairwise(threshold=11))
    assert field == "threshold"
    assert message == "must be 1..10, the clients that hold shares, got 11; lower it"
    [(field, message)] = faults(LightSecAgg(threshold=4, colluders=4))
    assert field == "colluders"
    assert "below the threshold (4 of 10 clients), got 4" in message
    [(field, message)] = faults(Pairwise(bits=20, weight_bits=12))
    assert field == "bits"
    assert "sum of 10 updates" in message
