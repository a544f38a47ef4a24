"""Which seeds each look has."""

from __future__ import annotations

import numpy as np
import pytest

from asyncfl.analysis.evidence.looks import ONE_LOOK, Looks

LOOKS = Looks((7, 5, 6, 8), (1, 3, 4))


def cuts(looks: Looks, *seeds: int) -> list[tuple[int, list[int]]]:
    return [(number, of.tolist()) for number, of in looks.cuts(np.array(seeds, dtype=np.int64))]


def test_without_a_plan_there_is_one_look_at_whatever_is_there() -> None:
    assert cuts(ONE_LOOK, 3, 9) == [(0, [3, 9])]
    assert cuts(ONE_LOOK) == [(0, [])]


@pytest.mark.parametrize(
    ("seeds", "found"),
    [
        ((5, 6, 7, 8), [(0, [7]), (1, [7, 5, 6]), (2, [7, 5, 6, 8])]),
        ((5, 6, 7), [(0, [7]), (1, [7, 5, 6])]),
        ((5, 7), [(0, [7])]),
        ((5, 6), [(0, [])]),
    ],
)
def test_a_look_is_made_where_all_its_seeds_are_there(
    seeds: tuple[int, ...], found: list[tuple[int, list[int]]]
) -> None:
    assert cuts(LOOKS, *seeds) == found
