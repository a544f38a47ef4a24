"""Arithmetic in the prime field of q = 2^32 - 5 elements, in which masked updates are added.

Elements are uint64 numbers 0..q-1. The product of two elements plus a third is below 2^64, so that no operation
overflows. A signed integer v with |v| <= (q - 1)/2 is the element v mod q; a sum beyond that range wraps around.

The field is that of So et al. 2022 (LightSecAgg).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Elements = NDArray[np.uint64]

PRIME = 2**32 - 5
"""q: number of elements of the field."""
LARGEST = (PRIME - 1) // 2
"""Largest absolute value of a signed integer that the field can hold."""
ELEMENT_BYTES = 4
"""Bytes of an element in a message."""
_Q = np.uint64(PRIME)


def elements_of(integers: NDArray[np.int64]) -> Elements:
    """Return the elements of signed `integers`, of any size, modulo q."""
    return np.mod(integers, PRIME).astype(np.uint64)


def integers_of(elements: Elements) -> NDArray[np.int64]:
    """Return the signed integers -LARGEST..LARGEST that `elements` stand for."""
    signed = elements.astype(np.int64)
    return np.where(signed > LARGEST, signed - PRIME, signed)


def add(left: Elements, right: Elements) -> Elements:
    """Add elements."""
    return (left + right) % _Q


def subtract(left: Elements, right: Elements) -> Elements:
    """Subtract elements."""
    return (left + (_Q - right)) % _Q


def scale(factor: int, elements: Elements) -> Elements:
    """Multiply elements by an integer, modulo q."""
    return (np.uint64(factor % PRIME) * elements) % _Q


def combine(factors: Elements, rows: Elements) -> Elements:
    """Compute sum_i `factors`[i] `rows`[i], of factors (n,) and rows (n, d)."""
    total = np.zeros(rows.shape[1:], dtype=np.uint64)
    for factor, row in zip(factors, rows, strict=True):
        total = (factor * row + total) % _Q
    return total


def polynomial_values(coefficients: Elements, points: Elements) -> Elements:
    """Evaluate polynomials with coefficients (k, d), lowest power first, at `points` (n,): (n, d)."""
    values = np.zeros((len(points), coefficients.shape[1]), dtype=np.uint64)
    for row in coefficients[::-1]:
        values = (values * points[:, None] + row) % _Q
    return values


def interpolation(points: Elements, wanted: int) -> Elements:
    """Return the matrix (wanted, n) that maps the values of a polynomial of degree below n at n different `points` to
    its lowest `wanted` coefficients.

    By Lagrange: column j holds the coefficients of prod_{m != j} (x - p_m) / (p_j - p_m).
    """
    known = [int(point) for point in points]
    whole = [1]  # coefficients of prod (x - p_m), lowest power first
    for point in known:
        shifted = [0, *whole]
        whole = [(high - point * low) % PRIME for high, low in zip(shifted, [*whole, 0], strict=True)]
    matrix = np.zeros((wanted, len(known)), dtype=np.uint64)
    for column, point in enumerate(known):
        # Synthetic division by (x - p_j), highest power first.
        quotient, carried = [], 0
        for coefficient in reversed(whole[1:]):
            carried = (coefficient + point * carried) % PRIME
            quotient.append(carried)
        quotient.reverse()
        value = 0
        for coefficient in reversed(quotient):
            value = (value * point + coefficient) % PRIME
        inverse = pow(value, PRIME - 2, PRIME)
        matrix[:, column] = [coefficient * inverse % PRIME for coefficient in quotient[:wanted]]
    return matrix


def uniform(random: np.random.Generator, shape: int | tuple[int, ...]) -> Elements:
    """Draw uniformly random elements."""
    return random.integers(0, PRIME, shape, dtype=np.uint64)


def expanded(key: int, length: int) -> Elements:
    """Expand a 128-bit `key` to (length,) pseudo-random elements, by Philox (Salmon et al. 2011) in the place of the
    AES counter mode of the source. No cryptographic strength is claimed."""
    return uniform(np.random.Generator(np.random.Philox(key=key)), length)
