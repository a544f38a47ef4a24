"""Facts to which privacy noise is calibrated."""

from typing import Any

import numpy as np
import pytest

from asyncfl.federation.prepare import privacy_context
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.privacy import PrivacyContext
from asyncfl.scenario import Scenario

EQUAL, UNEQUAL = [20, 20, 20, 20, 20], [20, 20, 20, 20, 21]
BUFFERED = {"kind": "buffered", "rounds": 3, "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 4}}
ONE = {"kind": "fedasync", "rounds": 3, "in_flight": 4}


def context(scenario: Scenario, changes: dict[str, Any], sizes: list[int]) -> PrivacyContext:
    return privacy_context(ResolvedSeed(scenario.override(changes), 0, 2), np.array(sizes))


@pytest.mark.parametrize(
    ("changes", "sizes", "fixed", "equal", "once"),
    [
        ({}, EQUAL, True, True, True),
        ({}, UNEQUAL, True, False, False),
        ({"protocol.weighting": "uniform"}, UNEQUAL, True, True, True),
        ({"protocol.late": "carry"}, EQUAL, True, True, False),
        ({"defence.rule": {"kind": "median"}}, EQUAL, False, False, False),
        ({"defence.detector": {"kind": "kardam"}}, EQUAL, False, False, False),
        ({"training.deadline_s": 5.0}, EQUAL, True, True, True),
        ({"training.deadline_s": 5.0, "protocol.partial_work": "work"}, EQUAL, True, False, False),
        ({"protocol.partial_work": "work"}, EQUAL, True, True, True),
        ({"protocol": BUFFERED}, EQUAL, True, True, False),
        ({"protocol": BUFFERED, "protocol.weighting": "samples"}, UNEQUAL, True, False, False),
        ({"protocol": BUFFERED, "protocol.staleness": {"kind": "polynomial"}}, EQUAL, True, True, False),
        (
            {"protocol": BUFFERED, "protocol.staleness": {"kind": "polynomial"}, "protocol.divisor": "weight_sum"},
            EQUAL, True, False, False,
        ),
        (
            {"protocol": BUFFERED, "protocol.staleness": {"kind": "constant"}, "protocol.divisor": "weight_sum"},
            EQUAL, True, True, False,
        ),
        ({"protocol": ONE}, EQUAL, True, True, True),
    ],
)  # fmt: skip
def test_bounds_on_weights_follow_from_the_protocol(
    scenario: Scenario, changes: dict[str, Any], sizes: list[int], fixed: bool, equal: bool, once: bool
) -> None:
    found = context(scenario, changes, sizes)
    assert (found.fixed_weights, found.equal_weights, found.once_each) == (fixed, equal, once)
