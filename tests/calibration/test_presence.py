"""When clients are online, from what is seen of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from asyncfl.calibration.presence import Sightings, _follow
from asyncfl.scenario import Scenario
from tests.calibration.conftest import fitted_to


def test_the_sightings_of_a_client_by_hand() -> None:
    seen = Sightings()
    # at a task from 1 s to 4 s, where it goes offline until 9 s; at the next from 12 s to 15 s; at 20 s it cannot be
    # reached, and comes back at 23 s
    story = [
        (1.0, 2, "at it", 4.0),
        (4.0, 0, "went", 4.0),
        (9.0, 1, "came", 9.0),
        (12.0, 2, "at it", 15.0),
        (20.0, 0, "away", 20.0),
        (23.0, 1, "came", 23.0),
    ]
    _follow(story, 30.0, seen)
    assert (seen.first_online, seen.first_offline) == (1, 0)
    assert (seen.online_s, seen.went, seen.offline_s, seen.came) == (6.0, 1, 8.0, 2)
    assert (seen.gaps_online, seen.gaps_offline) == ([3.0], [5.0])
    assert (seen.whole_off, seen.cut_off) == ([5.0], [])


def test_the_likelihood_of_a_gap_is_that_of_the_chain_of_two_states() -> None:
    on, off = 1 / 30, 1 / 10
    seen = Sightings(gaps_online=[5.0], gaps_offline=[7.0])
    stays = 0.75 + 0.25 * math.exp(-(on + off) * 5)
    leaves = 0.25 * (1 - math.exp(-(on + off) * 7))
    assert seen.log_likelihood(on, off) == pytest.approx(math.log(stays) + math.log(leaves))


def test_fixed_periods_offline_are_told_from_exponential_ones(known: Scenario) -> None:
    availability = {"kind": "alternating", "on_s": {"kind": "exponential", "mean": 40}, "off_s": 15.0}
    found = fitted_to(known.override({"world.availability": availability})).presence
    assert found.off is not None
    assert np.median(found.off.exact) == pytest.approx(15.0)
    assert found.availability.off_s.expected() == pytest.approx(15.0, rel=0.01)  # type: ignore[attr-defined]
    assert found.availability.on_s.expected() == pytest.approx(40, rel=0.25)  # type: ignore[attr-defined]
