"""Remarks of the evidence detector while it abstains, and its numbers about a buffer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from asyncfl.defences import Evidence
from asyncfl.defences.evidence.evidence_detector import NOTES, _notes, _remarks
from asyncfl.defences.evidence.side_test import SideResult
from asyncfl.testing import buffer, context

NOBODY = np.zeros(2, dtype=bool)
SIDES = SideResult(False, np.zeros(2), NOBODY, NOBODY, 3, 4, 1.0, 6.0, 0.25)


@pytest.mark.parametrize(
    ("missing", "about"),
    [
        (0.5, 1),
        (1.5, 2),
        (5.5, 10),
        (101.0, 200),
        (1e3, 1000),
    ],
)
def test_missing_updates_are_reported_in_round_numbers(missing: float, about: int) -> None:
    assert _remarks(replace(SIDES, missing=missing)) == (
        f"the detector abstained: not enough signal: needs about {about} more updates per client",
    )


@pytest.mark.parametrize("missing", [1001.0, math.inf])
def test_hopeless_waits_are_reported_differently(missing: float) -> None:
    assert _remarks(replace(SIDES, missing=missing)) == (
        "the detector abstained: no direction is known that more than half of all clients share",
    )


def test_obstacle_is_reported_first() -> None:
    assert _remarks(replace(SIDES, obstacle="clouds")) == ("the detector abstained: clouds",)
    assert _remarks(replace(SIDES, certified=True, missing=math.nan)) == ()


def test_numbers_about_a_buffer() -> None:
    held = buffer(np.ones((2, 9), dtype=np.float32), upload_std=[0.5, 1.5])
    told = _notes(SIDES, held, np.array([True, False]))
    assert tuple(told) == NOTES
    assert list(told.values()) == [0.0, 3.0, 4.0, 1.0, 2.0, 0.25, 0.5]
    silent = _notes(replace(SIDES, certified=True), buffer(np.ones((2, 9), dtype=np.float32)), NOBODY)
    assert (silent["certified"], silent["abstained"]) == (1.0, 0.0)
    assert math.isnan(silent["signal_to_noise"])


def test_root_set_is_ignored_if_switched_off() -> None:
    known = replace(context(2, 4), root_gradients=lambda model: np.ones((3, 4), dtype=np.float32))
    held = buffer(np.ones((2, 4), dtype=np.float32))
    for root, histories, counted in ((True, 3, 2), (False, 2, 0)):
        detector = Evidence(root=root)
        _, after = detector.judge(detector.start(known, np.random.default_rng(0)), held, None)
        assert (len(after.histories), sum(history.counts.sum() for history in after.histories)) == (histories, counted)
