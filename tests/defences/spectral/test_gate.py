"""When the gate of the spectral detector opens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.defences import Spectral
from asyncfl.defences.spectral.majority_test import MajorityFinding
from asyncfl.testing import context

NOBODY = np.zeros(4, dtype=bool)


def finding(**fields: Any) -> MajorityFinding:
    return MajorityFinding(NOBODY, NOBODY, {}, **{"notes": {}, **fields})


@pytest.mark.parametrize(
    ("seen", "arrived", "earlier", "decided", "opens"),
    [
        (4, 8, (), False, True),
        (4, 7, (), False, False),
        (4, 5, (3,), False, True),
        (4, 4, (3,), False, False),
        (4, 1, (), True, True),
        (3, 99, (), True, False),
    ],
)
def test_gate_opens_when_decided_or_after_patience(
    seen: int, arrived: int, earlier: tuple[int, ...], decided: bool, opens: bool
) -> None:
    """Of five clients one is banned."""
    detector = Spectral(coverage=1.0, patience=2.0)
    state: Any = SimpleNamespace(
        context=context(5), banned={4}, provisional=[SimpleNamespace(clients=range(number)) for number in earlier]
    )
    bank: Any = SimpleNamespace(present=range(seen))
    assert detector._opens(state, bank, arrived, finding(decided=decided)) is opens
