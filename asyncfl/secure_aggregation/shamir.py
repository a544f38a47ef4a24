"""Shamir's secret sharing: any `threshold` of n shares give the secret, fewer tell nothing about it.

Source: Shamir 1979. The secret is the constant term of a random polynomial of degree threshold - 1 over the integers
modulo the prime 2^255 - 19; share number i (from 1) is its value at i.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

SHARE_PRIME = 2**255 - 19
SHARE_BYTES = 32
"""a_S: bytes of a share."""


def random_below(random: np.random.Generator, limit: int) -> int:
    """Draw a uniformly random integer 0..limit-1, of any size."""
    size = (limit.bit_length() + 7) // 8
    while True:
        drawn = int.from_bytes(random.bytes(size), "little") >> (8 * size - limit.bit_length())
        if drawn < limit:
            return drawn


def shares(secret: int, threshold: int, number: int, random: np.random.Generator) -> list[int]:
    """Return the shares 1..`number` of `secret`, an integer 0..SHARE_PRIME-1. Raises ValueError unless 1 <= `threshold`
    <= `number`."""
    if not 1 <= threshold <= number:
        raise ValueError(f"threshold must be 1..{number}, the number of shares, got {threshold}")
    coefficients = [secret, *(random_below(random, SHARE_PRIME) for _ in range(threshold - 1))]
    found = []
    for point in range(1, number + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % SHARE_PRIME
        found.append(value)
    return found


def weights_at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    """Return the Lagrange weights with which the shares at `points` add up to the secret."""
    found = []
    for point in points:
        above = below = 1
        for other in points:
            if other != point:
                above = above * other % SHARE_PRIME
                below = below * (other - point) % SHARE_PRIME
        found.append(above * pow(below, SHARE_PRIME - 2, SHARE_PRIME) % SHARE_PRIME)
    return tuple(found)


def secret_of(held: Mapping[int, int], weights: tuple[int, ...] | None = None) -> int:
    """Return the secret of the shares `held` (number -> share), of which there must be at least the threshold: with
    fewer the result is a random number. `weights`: `weights_at_zero` of these numbers; None to compute them."""
    used = weights_at_zero(tuple(held)) if weights is None else weights
    return sum(weight * share for weight, share in zip(used, held.values(), strict=True)) % SHARE_PRIME
