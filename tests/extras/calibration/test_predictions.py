"""Predictions of fitted worlds, their intervals, and the check against the run of the fit."""

from pathlib import Path

import pytest

from asyncfl.extras.calibration import calibrate
from asyncfl.extras.calibration.predictions import Prediction, misfits, predictions_of, table_of
from asyncfl.scenario import Scenario
from tests.extras.calibration.conftest import seen


def checked(scenario: Scenario, number: int = 4, other: Scenario | None = None) -> list[Prediction]:
    """The predictions of what is fitted to a run of a scenario."""
    run = seen(scenario)
    return predictions_of(calibrate([run]), run, number, other)


def test_a_world_that_can_be_fitted_reproduces_its_run(known: Scenario) -> None:
    world = {"device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.5}, "dropout": 0.2}
    rows = checked(known.override({"world": world, "protocol.rounds": 40}))
    assert [row.name for row in rows][:2] == ["time between versions", "staleness"]
    assert misfits(rows) == []
    assert all(row.low <= row.predicted <= row.high for row in rows)
    assert table_of(rows)[0] == ["prediction", "predicted", "95 % interval", "this run", "fits"]


def test_what_the_fit_does_not_know_is_named(known: Scenario, tmp_path: Path) -> None:
    """All clients are away at the same time, again and again: fitted clients come and go by themselves."""
    windows = [f"{client},{180 * turn},{180 * turn + 60}" for client in range(20) for turn in range(100)]
    (tmp_path / "windows.csv").write_text("\n".join(["device,from_s,until_s", *windows]))
    away = {"kind": "csv", "path": str(tmp_path / "windows.csv"), "rows": "in_order"}
    world = {"device": {"kind": "fixed", "s_per_sample": 0.05}, "availability": away}
    rows = checked(known.override({"world": world, "protocol.rounds": 120}))
    assert not rows[-1].fits
    assert any("does not reproduce the run's share of arrivals at other" in note for note in misfits(rows))


@pytest.mark.long
def test_another_protocol_is_predicted_with_an_interval(known: Scenario) -> None:
    world = {"device": {"kind": "lognormal", "median_s_per_sample": 0.01, "sigma": 0.5}}
    world |= {"uplink": {"server_bandwidth_bps": 2e6}}
    scenario = known.override({"world": world, "protocol.rounds": 24})
    other = scenario.override({"protocol.dispatch.in_flight": 4})
    rows = checked(scenario, 2, other)
    assert table_of(rows)[0] == ["prediction", "predicted", "95 % interval"]
    times = list(seen(other).published_s.values())
    assert rows[0].predicted == pytest.approx((times[-1] - times[0]) / (len(times) - 1), rel=0.1)
    assert rows[0].low < rows[0].predicted < rows[0].high


@pytest.mark.parametrize(("observed", "fits"), [(0.95, False), (0.97, True), (3.03, True), (3.05, False), (None, True)])
def test_a_run_fits_within_the_interval_or_hardly_outside(observed: float | None, fits: bool) -> None:
    assert Prediction("staleness", "versions", 2.0, 1.0, 3.0, observed).fits is fits
