"""When the spectral detector's gate opens, and when single updates suffice."""

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
    ("found", "speaks"),
    [
        (finding(clearness=Spectral().enough), True),
        (finding(clearness=Spectral().enough - 1e-6), False),
        (finding(notes={"diffuse": 1.0}), True),
        (finding(notes={"diffuse": 0.0}), False),
    ],
)
def test_single_updates_suffice_where_they_are_clear_enough_or_have_no_majority(
    found: MajorityFinding, speaks: bool
) -> None:
    assert Spectral()._is_clear(found) is speaks


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
def test_the_gate_opens_where_all_were_seen_and_it_is_decided_or_enough_is_remembered(
    seen: int, arrived: int, earlier: tuple[int, ...], decided: bool, opens: bool
) -> None:
    """Of five clients one is banned."""
    detector = Spectral(coverage=1.0, patience=2.0)
    state: Any = SimpleNamespace(
        context=context(5), banned={4}, provisional=[SimpleNamespace(clients=range(number)) for number in earlier]
    )
    bank: Any = SimpleNamespace(present=range(seen))
    assert detector._opens(state, bank, arrived, finding(decided=decided)) is opens


def test_what_is_no_longer_than_its_sketch_is_not_sketched() -> None:
    for sketch, made in ((3, True), (4, False), (5, False), (None, False)):
        state = Spectral(sketch=sketch).start(context(3, 4), np.random.default_rng(0))
        assert (state.sketch is not None) is made
