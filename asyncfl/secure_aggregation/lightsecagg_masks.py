"""Masks that are shared by an erasure code and recovered in one step. Source: So et al. 2022 (LightSecAgg), section 4
and, for buffers of updates from different versions, its section on asynchronous federated learning.

Client i draws a mask z_i of d elements, cuts it into U - T parts, appends T random parts, and gives client j of N the
value at point j of the polynomial with these U parts as coefficients: d/(U - T) elements. It sends the server
x_i + z_i. The server adds the masked vectors of a buffer with weights w_i, and asks each client for the sum of its
shares with the same weights. U answers are values of a polynomial whose lowest U - T coefficients are sum_i w_i z_i.
T clients together with the server learn nothing of a mask: the T random parts alone make any T shares uniformly random.

The code is linear: masks of different tasks and versions may be added, and the weights follow when the buffer is full.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asyncfl.secure_aggregation.field import (
    Elements,
    add,
    combine,
    elements_of,
    interpolation,
    polynomial_values,
    scale,
    subtract,
    uniform,
)
from asyncfl.secure_aggregation.masked_sum import BelowThresholdError, Generators, MaskedSum
from asyncfl.secure_aggregation.quantisation import Integers


def part_length(n_parameters: int, threshold: int, colluders: int) -> int:
    """Return d/(U - T), rounded up: elements of a share of a mask for `n_parameters` numbers."""
    return -(-n_parameters // (threshold - colluders))


def mask_parts(n_parameters: int, threshold: int, colluders: int, random: np.random.Generator) -> Elements:
    """Draw a mask and its random parts: (U, d/(U - T)) coefficients, of which the first U - T rows are the mask."""
    return uniform(random, (threshold, part_length(n_parameters, threshold, colluders)))


def mask_of(parts: Elements, n_parameters: int, colluders: int) -> Elements:
    """Return the mask (n_parameters,) in the `parts`, (U, d/(U - T)) or without the T random rows."""
    rows = parts[: len(parts) - colluders] if colluders else parts
    return rows.reshape(-1)[:n_parameters]


def encoded(parts: Elements, clients: Sequence[int]) -> Elements:
    """Return the shares of `clients` (numbers from 0) of a mask with these `parts`: (n_clients, d/(U - T))."""
    return polynomial_values(parts, np.array(clients, dtype=np.uint64) + np.uint64(1))


def recovered(answers: Elements, clients: Sequence[int], colluders: int) -> Elements:
    """Return the first U - T rows of the sum of parts whose shares at `clients` (U,) are the `answers`, (U, m)."""
    matrix = interpolation(np.array(clients, dtype=np.uint64) + np.uint64(1), len(clients) - colluders)
    return np.stack([combine(row, answers) for row in matrix])


def lightsecagg_sum(
    vectors: Integers, work: MaskedSum, threshold: int, colluders: int, secrets_of: Generators
) -> Elements:
    """Mask, add and unmask `vectors` (n_updates, d). Raises BelowThresholdError if fewer helpers than `threshold`
    answered."""
    if len(work.helpers) < threshold:
        raise BelowThresholdError(f"{threshold} of {work.clients} clients must answer, got {len(work.helpers)}")
    size = vectors.shape[1]
    helpers = work.helpers[:threshold]
    total = np.zeros(size, dtype=np.uint64)
    answers = np.zeros((threshold, part_length(size, threshold, colluders)), dtype=np.uint64)
    for vector, weight, member in zip(vectors, work.weights, work.senders, strict=True):
        parts = mask_parts(size, threshold, colluders, secrets_of(member))
        sent = add(elements_of(vector), mask_of(parts, size, colluders))
        total = add(total, scale(weight, sent))
        answers = add(answers, scale(weight, encoded(parts, helpers)))
    return subtract(total, mask_of(recovered(answers, helpers, colluders), size, 0))
