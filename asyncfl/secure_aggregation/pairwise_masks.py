"""Pairwise masks that cancel in the sum of a cohort. Source: Bonawitz et al. 2017, figure 4, honest but curious server.

Each member u of a cohort has a secret key and a seed b_u, and shares both by Shamir's scheme with threshold t. Members
u and v agree on a key s_uv. With weights w, vectors x and the pseudo-random expansion PRG, member u sends

    y_u = w_u x_u + PRG(b_u) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)

over all members v. Those that have sent their vector give t shares: of b_u for a sender, of the secret key for a member
that has dropped out. So the server removes exactly the masks that do not cancel.

Keys are agreed by Diffie and Hellman's scheme modulo the prime 2^255 - 19: real arithmetic, of which no cryptographic
strength is claimed. Shares go through the server, encrypted; the encryption itself is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asyncfl.secure_aggregation.field import Elements, add, elements_of, expanded, scale, subtract
from asyncfl.secure_aggregation.masked_sum import BelowThresholdError, Generators, MaskedSum
from asyncfl.secure_aggregation.quantisation import Integers
from asyncfl.secure_aggregation.shamir import SHARE_PRIME, random_below, secret_of, shares, weights_at_zero

KEY_BYTES = 32
"""a_K: bytes of a public key."""
_GENERATOR = 2
_SEED_BITS = 128


@dataclass(frozen=True)
class MemberSecrets:
    """Secrets of one member of a cohort, and the shares of them that the others get."""

    secret_key: int
    public_key: int
    seed: int  # b_u, 128 bits
    key_shares: Sequence[int]  # share 1..n of the secret key, one for each member in their order
    seed_shares: Sequence[int]

    @classmethod
    def draw(cls, threshold: int, members: int, random: np.random.Generator) -> MemberSecrets:
        """Draw the secrets of a member of a cohort of `members`. Raises ValueError unless 1 <= `threshold` <=
        `members`."""
        secret_key, seed = random_below(random, SHARE_PRIME), random_below(random, 1 << _SEED_BITS)
        public_key = pow(_GENERATOR, secret_key, SHARE_PRIME)
        given = (shares(one, threshold, members, random) for one in (secret_key, seed))
        return cls(secret_key, public_key, seed, *given)


def agreed_key(secret_key: int, public_key: int) -> int:
    """Return the 128-bit key s_uv that a member with `secret_key` shares with the one with `public_key`."""
    common = pow(public_key, secret_key, SHARE_PRIME).to_bytes(32, "little")
    return int.from_bytes(hashlib.sha256(common).digest()[:16], "little")


def masked(
    vector: Elements,
    place: int,
    secrets: MemberSecrets,
    public_keys: Sequence[int],
    keys: Mapping[int, int] | None = None,
) -> Elements:
    """Return y_u of the member at `place`, for its weighted `vector` (d,) and the public keys of all members. `keys`:
    the keys that it has agreed on with the members at other places; None to compute them."""
    found = add(vector, expanded(secrets.seed, len(vector)))
    for other, public_key in enumerate(public_keys):
        if other != place:
            key = agreed_key(secrets.secret_key, public_key) if keys is None else keys[other]
            found = (add if other > place else subtract)(found, expanded(key, len(vector)))
    return found


def unmasked(
    total: Elements,
    senders: Sequence[int],
    public_keys: Sequence[int],
    seed_shares: Mapping[int, Mapping[int, int]],
    key_shares: Mapping[int, Mapping[int, int]],
) -> Elements:
    """Remove from `total` (d,), the sum of the masked vectors of `senders` (places), all masks that do not cancel.

    `seed_shares`: place of each sender -> number of a share -> share of its seed; `key_shares`: place of each member
    that dropped out -> shares of its secret key. Each needs at least the threshold of shares.
    """
    size = len(total)
    numbers = {tuple(held) for held in (*seed_shares.values(), *key_shares.values())}
    weights = {points: weights_at_zero(points) for points in numbers}
    for held in seed_shares.values():
        total = subtract(total, expanded(secret_of(held, weights[tuple(held)]), size))
    for gone, held in key_shares.items():
        secret_key = secret_of(held, weights[tuple(held)])
        for sender in senders:
            mask = expanded(agreed_key(secret_key, public_keys[sender]), size)
            # The sender added it where the lost member comes after it.
            total = (subtract if gone > sender else add)(total, mask)
    return total


def pairwise_sum(vectors: Integers, work: MaskedSum, threshold: int, secrets_of: Generators) -> Elements:
    """Mask, add and unmask `vectors` (n_updates, d). Raises BelowThresholdError if fewer helpers than `threshold`
    answered."""
    members = work.members
    if len(work.helpers) < threshold:
        raise BelowThresholdError(f"{threshold} of {len(members)} members must answer, got {len(work.helpers)}")
    secrets = [MemberSecrets.draw(threshold, len(members), secrets_of(one)) for one in members]
    public_keys = [one.public_key for one in secrets]
    places = [members.index(one) for one in work.senders]
    # Both members of a pair compute the same key: here once.
    agreed: dict[tuple[int, int], int] = {}
    total = np.zeros(vectors.shape[1], dtype=np.uint64)
    for vector, weight, place in zip(vectors, work.weights, places, strict=True):
        keys = {}
        for other in range(len(members)):
            if other != place:
                pair = min(place, other), max(place, other)
                if pair not in agreed:
                    agreed[pair] = agreed_key(secrets[place].secret_key, public_keys[other])
                keys[other] = agreed[pair]
        total = add(total, masked(scale(weight, elements_of(vector)), place, secrets[place], public_keys, keys))
    place_of = {one.client: place for place, one in enumerate(members)}
    helping = [place_of[client] for client in work.helpers[:threshold]]
    gone = sorted({*range(len(members))} - {*places})
    return unmasked(
        total,
        places,
        public_keys,
        {place: {one + 1: secrets[place].seed_shares[one] for one in helping} for place in places},
        {place: {one + 1: secrets[place].key_shares[one] for one in helping} for place in gone},
    )
