"""Worlds with shared processors, fitted to logs of rounds: a minute of simulations."""

from dataclasses import replace

import pytest

from asyncfl.extras.calibration.round_fit import fit_rounds
from tests.extras.calibration.test_round_fit import TRUTH, logged

pytestmark = pytest.mark.long


def test_processors_are_found_where_settings_crowd_them_differently() -> None:
    crowded = replace(TRUTH, factors={None: 8.0}, processors=2.0)
    few, many = (logged(crowded, **{"protocol.open.at_least": count}) for count in (2, 6))
    fit = fit_rounds([few, many], skip=1)
    assert fit.processors == pytest.approx(2.0, rel=0.15)
    assert fit.factors[None] == pytest.approx(8.0, rel=0.15)
