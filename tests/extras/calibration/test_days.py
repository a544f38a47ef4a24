"""Day patterns fitted to runs on the clock."""

from typing import Any

import pytest

from asyncfl.extras.calibration.presence import fit_availability
from asyncfl.scenario import Scenario
from asyncfl.world.availability import AlternatingAvailability, DiurnalAvailability
from tests.extras.calibration.conftest import seen

NIGHT = {"kind": "uniform", "low": 20.0, "high": 22.0}


def available(known: Scenario, rounds: int, **availability: Any) -> Any:
    """What is fitted to a run of some days of clients that are available like that."""
    world = {"device": {"kind": "fixed", "s_per_sample": 5.0}, "availability": availability}
    run = seen(known.override({"world": world, "protocol.rounds": rounds}))
    return fit_availability([run]).availability


def test_nights_are_recovered(known: Scenario) -> None:
    found = available(known, 500, kind="diurnal", from_h=NIGHT, hours={"kind": "uniform", "low": 4.0, "high": 6.0})
    assert isinstance(found, DiurnalAvailability)
    assert found.from_h.expected() == pytest.approx(21, abs=0.3)
    assert found.hours.expected() == pytest.approx(5, abs=0.3)
    assert found.zones_h == (0.0,)


def test_a_run_of_one_day_shows_the_mean_night(known: Scenario) -> None:
    found = available(known, 180, kind="diurnal", from_h=NIGHT, hours={"kind": "uniform", "low": 7.0, "high": 8.0})
    assert isinstance(found, DiurnalAvailability)
    assert found.from_h.expected() == pytest.approx(21, abs=0.3)
    assert found.hours.expected() == pytest.approx(7.5, abs=0.7)


@pytest.mark.long
def test_time_zones_are_told_apart(known: Scenario) -> None:
    found = available(known, 900, kind="diurnal", from_h=NIGHT, hours=4.0, zones_h=[0, -8])
    assert isinstance(found, DiurnalAvailability)
    assert found.shares is not None
    zones = dict(zip(found.zones_h, found.shares, strict=True))
    assert max(zones) - min(zones) in (7, 8, 9)
    assert sum(share for zone, share in zones.items() if min(abs(zone - min(zones)), abs(zone - max(zones))) <= 1) == 20


def test_periods_of_random_length_are_no_day_pattern(known: Scenario) -> None:
    hours = {"kind": "exponential", "mean": 8 * 3600.0}
    assert isinstance(available(known, 500, kind="alternating", on_s=hours, off_s=hours), AlternatingAvailability)
