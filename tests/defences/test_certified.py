"""Certificates of both detectors are met up to rounding, and not passed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncfl.defences import DefenceContext, Evidence, Spectral
from asyncfl.defences.spectral.bank import COMPARABLE
from asyncfl.defences.spectral.certificates import norm_bounds, pair_bounds
from asyncfl.testing import buffer, context

D, NOISE = 400, 0.25
KNOWN = context(4, D, gradient_clip=2.0)
"""Honest clients go at most .1 * 2 * 5 = 1 far."""


def certified(detector: Any, lengths: Any, against: Any = None, own: Any = None, known: DefenceContext = KNOWN) -> Any:
    """What is said of updates of these lengths, and of such products with what was sent before and with each other."""
    n = len(lengths)
    deltas = np.zeros((n, D), dtype=np.float32)
    deltas[:, 0] = lengths
    held = buffer(deltas, clients=[row % 4 for row in range(n)], current=0.0, drift=0.0, upload_std=NOISE)
    state = detector.start(known, np.random.default_rng(0))
    against = np.zeros((n, 4)) if against is None else against
    if isinstance(detector, Evidence):
        return detector._certify(state, held, np.asarray(lengths, dtype=float), against)
    return detector._certify(state, held, np.zeros((n, n)) if own is None else own, against)


BOTH = pytest.mark.parametrize("detector", [Evidence(), Spectral()], ids=lambda one: one.kind)


@BOTH
def test_lengths_reach_their_bounds_up_to_rounding(detector: Any) -> None:
    (lower,), (upper,) = norm_bounds(D, np.array([NOISE]), np.array([1.0]), 6.0)
    fine = [lower * (1 - 0.8e-5), lower * (1 + 0.8e-5), upper * (1 - 0.8e-5), upper * (1 + 0.8e-5)]
    assert certified(detector, fine) == [""] * 4
    said = certified(detector, [lower * (1 - 1.2e-5), upper * (1 + 1.2e-5)])
    assert said == [f"norm {one:.4g} not in {lower:.4g}..{upper:.4g}" for one in (lower, upper)]


@BOTH
def test_products_with_what_came_earlier_reach_their_bound_up_to_rounding(detector: Any) -> None:
    ((bound,),) = pair_bounds(D, np.array([NOISE]), np.ones(1), np.zeros(1), np.ones(1), 6.0)
    against = np.zeros((4, 4))
    against[range(4), [3, 0, 1, 2]] = bound * np.array([1 + 0.8e-5, -1 - 0.8e-5, 1 + 1.2e-5, -1 - 1.2e-5])
    said = "pair with earlier updates" if isinstance(detector, Evidence) else "pair with an earlier update"
    assert certified(detector, [5.0] * 4, against) == ["", "", said, said]


def test_products_within_a_buffer_reach_their_bound_up_to_rounding() -> None:
    ((bound,),) = pair_bounds(D, np.array([NOISE]), np.ones(1), np.array([NOISE]), np.ones(1), 6.0)
    for pair, said in (((0, 1), ""), ((1, 2), "pair within the buffer")):
        own = np.zeros((3, 3))
        own[pair] = own[pair[::-1]] = -bound * (1 + (1.2e-5 if said else 0.8e-5))
        assert certified(Spectral(), [5.0] * 3, own=own) == ["", "", said]
    # With what is left out for its length nobody has to be compared.
    own = np.full((2, 2), 2 * bound)
    assert certified(Spectral(), [99.0, 5.0], own=own)[1] == ""


@BOTH
def test_what_is_too_long_for_float32_cannot_be_compared(detector: Any) -> None:
    endless = context(4, D)
    said = certified(detector, [0.999 * COMPARABLE, 1.001 * COMPARABLE], known=endless)
    assert said == ["", f"norm {1.001 * COMPARABLE:.4g} cannot be compared with anything"]
