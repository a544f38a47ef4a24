"""Predict a federation in its fitted world, with intervals, and check the fit against the run that it came from.

The interval covers chance and the error of the fit, by a parametric bootstrap (Efron & Tibshirani, An Introduction to
the Bootstrap, 1993, section 6.5): the fitted world is simulated, a world is fitted to that simulation, and this world
is simulated with another seed. Of n such predictions with mean m and standard deviation s, the interval
m +- t s sqrt(1 + 1/n), t the quantile of Student's distribution with n - 1 degrees of freedom, holds the value of one
run of the federation with a chance of about 95 %, if its world is one that can be fitted. A value of the observed run
outside of it does not fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from asyncfl.base.quantities import NONE, number, quantity
from asyncfl.extras.calibration.families import Floats
from asyncfl.extras.calibration.fit import Calibration, calibrate
from asyncfl.extras.calibration.observations import ObservedRun
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.world.availability import DAY_S

BINS = 24  # parts of the day, or of a shorter run, in which arrivals are counted
CHANCE = 0.95  # of an interval
HAIR = 0.02  # distance to the interval, relative to the prediction, that is too small to matter
HAIR_OF_ARRIVALS = 0.02  # further share of arrivals at other times that is too small to matter
_SEEDS = 1_000_000  # first seed of the bootstrap


@dataclass(frozen=True)
class Behaviour:
    """Course of one run in numbers."""

    round_s: float  # mean seconds between versions
    staleness: float  # mean staleness of aggregated updates, versions
    arrivals: Floats  # (BINS,) share of the arrivals in each hour of the day, or in each part of a shorter run

    @classmethod
    def of(cls, run: ObservedRun, over_s: float) -> Behaviour:
        """Measure a run. `over_s`: seconds after which the parts of the run repeat, or end."""
        published, tasks = sorted(run.published_s.values()), run.tasks
        round_s = (published[-1] - published[0]) / (len(published) - 1) if len(published) > 1 else math.nan
        stale, arrived_s = tasks.staleness[tasks.staleness >= 0], tasks.uploaded_s[~np.isnan(tasks.uploaded_s)]
        part = arrived_s % DAY_S if over_s == DAY_S else np.minimum(arrived_s, over_s)
        counts = np.histogram(part, BINS, (0.0, over_s))[0]
        return cls(round_s, float(stale.mean()) if len(stale) else math.nan, counts / max(counts.sum(), 1))


@dataclass(frozen=True)
class Prediction:
    """A predicted number, with its interval, and the run's own."""

    name: str
    unit: str
    predicted: float  # mean of the predictions
    low: float
    high: float
    observed: float | None  # of the run that the world was fitted to; None: another scenario is predicted

    @property
    def fits(self) -> bool:
        """Whether the run's own value lies in the interval, or hardly outside."""
        hair = HAIR * abs(self.predicted)
        return self.observed is None or not (self.observed < self.low - hair or self.observed > self.high + hair)


def predictions_of(
    fitted: Calibration, run: ObservedRun, number_of: int, scenario: Scenario | None = None
) -> list[Prediction]:
    """Predict time between versions, staleness and arrivals by `number_of` >= 2 simulations.

    `run`: the run of the fit; it is simulated for as many versions as it has. `scenario`: scenario of the same clients
    that is predicted in its place, whose values are not compared with the run. Raises DataError where the number of
    samples of the run's clients, or the size of its model, follows from data that are not on disk.
    """
    own = run.scenario.override({"protocol.rounds": max(1, len(run.published_s) - 1)}, check=False)
    target = own if scenario is None else scenario
    over_s = DAY_S if run.end_s >= DAY_S else max(run.end_s, 1e-9)
    found = []
    for place in range(number_of):
        again = _simulated(own, fitted, _SEEDS + 2 * place)
        found.append(Behaviour.of(_simulated(target, calibrate([again]), _SEEDS + 2 * place + 1), over_s))
    seen = None if scenario is not None else Behaviour.of(run, over_s)
    mean = np.mean([one.arrivals for one in found], axis=0)
    # Of each simulation, the share of arrivals that come at other hours than in the mean of the others.
    apart = [_distance(one.arrivals, (mean * number_of - one.arrivals) / (number_of - 1)) for one in found]
    rows = [
        _predicted(
            "time between versions", "s", [one.round_s for one in found], None if seen is None else seen.round_s
        ),
        _predicted("staleness", "versions", [one.staleness for one in found], None if seen is None else seen.staleness),
    ]
    if seen is not None:
        name = "share of arrivals at other hours" if over_s == DAY_S else "share of arrivals at other times"
        row = _predicted(name, "", apart, _distance(seen.arrivals, mean), HAIR_OF_ARRIVALS)
        rows.append(Prediction(row.name, row.unit, row.predicted, 0.0, row.high, row.observed))
    return rows


def misfits(rows: Sequence[Prediction]) -> list[str]:
    """Return a sentence for each value of the run that the fitted world does not reproduce."""
    return [
        f"the fitted world does not reproduce the run's {row.name}: {_amount(row.observed, row.unit)}, predicted "
        f"{_interval(row)}"
        for row in rows
        if row.observed is not None and not row.fits
    ]


def table_of(rows: Sequence[Prediction]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a table of predictions."""
    compared = any(row.observed is not None for row in rows)
    columns = ["prediction", "predicted", f"{100 * CHANCE:g} % interval", *(["this run", "fits"] if compared else [])]
    made = []
    for row in rows:
        cells = [row.name, _amount(row.predicted, row.unit), _interval(row)]
        if compared:
            cells += [NONE if row.observed is None else _amount(row.observed, row.unit), "yes" if row.fits else "no"]
        made.append(cells)
    return columns, made


def _simulated(scenario: Scenario, fitted: Calibration, seed: int) -> ObservedRun:
    world = fitted.world().model_dump(mode="json")
    run = simulate_clock(scenario.override({"world": world, "seeding.clock": None}, check=False), seed)
    # The fit must not see more of the world than that of the run did.
    return ObservedRun.of("a simulation", scenario, run.sizes, run.events, run.tasks)


def _predicted(name: str, unit: str, values: Sequence[float], observed: float | None, least: float = 0.0) -> Prediction:
    """Return mean and interval of predictions. `least`: smallest half-width of the interval."""
    mean, n = float(np.mean(values)), len(values)
    t = float(stats.t.ppf((1 + CHANCE) / 2, n - 1))
    wide = max(t * float(np.std(values, ddof=1)) * math.sqrt(1 + 1 / n), least)
    return Prediction(name, unit, mean, max(0.0, mean - wide), mean + wide, observed)


def _distance(one: Floats, other: Floats) -> float:
    return float(np.abs(one - other).sum() / 2)


def _interval(row: Prediction) -> str:
    return f"{_amount(row.low, row.unit)} to {_amount(row.high, row.unit)}"


def _amount(value: float, unit: str) -> str:
    return quantity(value, unit) if unit == "s" else number(value)
