"""Fit a world to logs of rounds, which show neither tasks nor clients: by simulated moments.

A log of rounds has no likelihood: what a round took is the outcome of a whole federation. So the federation is
simulated, and its speeds are chosen so that means and standard deviations over the rounds come out as in the log. This
is the method of simulated moments with diagonal weights. Source: McFadden 1989, Econometrica 57(5), 995-1026. All else,
such as the protocol, links and waits, is taken from the scenario of the log.

Fitted are: a factor on the devices' seconds per sample, one for each group of clients that the log names; the spread of
a task's time; the seconds that the server takes between two rounds, or that each client evaluates a version there where
the scenario says so (`World.evaluate_at`); and, with logs of several settings, the processors that clients and server
share, where these explain the logs better by more than Akaike's criterion asks for a further number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from asyncfl.base.arrays import Floats
from asyncfl.base.errors import RunError
from asyncfl.base.streams import Streams
from asyncfl.extras.calibration.families import SAME
from asyncfl.extras.calibration.round_log import Group, RoundLog
from asyncfl.scenario import Scenario
from asyncfl.simulation import simulate_clock
from asyncfl.world import World

PRECISION = 0.01
"""Relative difference of a moment that counts as much as a standard error: no simulation is truer to a federation."""
SEEDS = (0, 1, 2)
"""Seeds of the simulations of each log. They are the same at each trial, so that trials differ by their world alone."""
MOST_TRIALS = 70
"""Worlds that are tried in one search, where all clients share one factor."""
TRIALS_PER_GROUP = 50
"""Further ones for each group of clients."""
STEPS = (0.35, 0.15)
"""First steps of a search and of its repetition, of logarithms: large ones, since a poll turns a small delay into a
whole interval, so that the misfit has small jumps."""
SHARES = (0.2, 0.3, 0.4, 0.5, 0.75)
"""Processors for each client with which searches for shared ones may begin: they do so at the two best."""
LEAST_RATE = 0.01
"""Updates per round that a group is taken to send at least."""
BUSY = 0.75
"""Share of the clients that are taken to be at work at the beginning of that search."""


@dataclass(frozen=True)
class LoggedFederation:
    """A scenario, with the logs of its runs."""

    name: str
    scenario: Scenario
    logs: tuple[RoundLog, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self.logs[0].of_groups)


@dataclass(frozen=True)
class MomentMatch:
    """A mean or standard deviation over the rounds of a log."""

    federation: str
    name: str
    observed: float
    tolerance: float
    """Standard error of the observed moment, and `PRECISION` of the quantity's mean."""
    fitted: float = math.nan


@dataclass(frozen=True)
class RoundFit:
    """The numbers fitted to logs of rounds."""

    factors: dict[Group | None, float]
    """Group -> factor on the seconds per sample of its clients; None: clients of no group."""
    sigma: float
    """Standard deviation of the logarithm of a task's computing time."""
    between_s: float
    """Seconds between two rounds: those of the server from judging a buffer to the next version; where clients evaluate
    each version (`World.evaluate_at`), those of a client for that."""
    processors: float | None
    """Processors that clients and server share; None: each has one of its own."""
    misfit: float = math.nan
    """Sum of the squared differences of the moments, in units of their tolerances."""
    moments: tuple[MomentMatch, ...] = ()

    def world(self, scenario: Scenario) -> World:
        """Return the world of a scenario with the fitted numbers in place of its own."""
        own = scenario.world
        drawn = own.device.draw(scenario.data.clients, Streams(scenario.seeds[0]).generator("device"))
        factors = np.full(scenario.data.clients, self.factors[None])
        for group, factor in self.factors.items():
            if group is not None:
                factors[group[0] : group[1] + 1] = factor
        speeds = [float(f"{one:.6g}") for one in drawn * factors]
        jitter = {"kind": "lognormal", "median": math.exp(-(self.sigma**2) / 2), "sigma": self.sigma}
        alike = max(speeds) - min(speeds) <= SAME * max(speeds)
        device = {"kind": "fixed", "s_per_sample": speeds[0]} if alike else {"kind": "listed", "s_per_sample": speeds}
        by_clients = own.evaluate_at == "clients"
        changed = {
            "device": device | {"jitter": jitter},
            "aggregate_s": 0.0 if by_clients else self.between_s,
            "aggregate_s_per_number": 0.0,
            "evaluate_s": self.between_s if by_clients else 0.0,
            "evaluate_beside": False,
            "processors": self.processors,
        }
        return World.model_validate({**own.model_dump(mode="json"), **changed})


def fit_rounds(federations: Sequence[LoggedFederation], skip: int) -> RoundFit:
    """Fit one set of numbers to the logs of one or more federations on the same machines.

    `skip`: rounds at the start of each run that are left out, >= 1. Raises RunError where the logs name different
    groups of clients.
    """
    if any(one.groups != federations[0].groups for one in federations):
        raise RunError("logs that are fitted together must name the same groups of clients, in the same order")
    search = _Search(federations, skip)
    unshared = search.least(search.guess())
    if len(federations) == 1:
        return unshared  # One setting cannot tell slow devices from crowded processors.
    most = max(one.scenario.data.clients for one in federations)
    # Where processors are shared a training takes less time alone: about as much as its share of them.
    crowded = [
        replace(
            unshared,
            processors=max(1.0, share * most),
            factors={of: min(1.0, share / BUSY) * x for of, x in unshared.factors.items()},
        )
        for share in SHARES
    ]
    starts = sorted((search.measured(one) for one in crowded), key=lambda one: one.misfit)[:2]
    shared = min((search.least(one) for one in starts), key=lambda one: one.misfit)
    # Akaike's criterion: a further number must lower the misfit, twice the negative log-likelihood, by more than 2.
    return shared if shared.misfit < unshared.misfit - 2 else unshared


def moments_of(name: str, logs: Sequence[RoundLog], skip: int) -> list[MomentMatch]:
    """Return mean and standard deviation of each quantity over the rounds of all `logs` after the first `skip`. Of
    groups and tasks the means alone count. `name`: the federation."""
    columns = [one.quantities(skip) for one in logs]
    found = []
    for quantity in columns[0]:
        values = np.concatenate([one[quantity] for one in columns])
        mean, spread, n = float(values.mean()), float(values.std()), len(values)
        found.append(MomentMatch(name, f"{quantity}, mean", mean, math.hypot(spread / math.sqrt(n), PRECISION * mean)))
        if quantity.endswith("per round"):
            error = math.hypot(spread / math.sqrt(2 * n), PRECISION * mean)
            found.append(MomentMatch(name, f"{quantity}, deviation", spread, error))
    return [one for one in found if one.tolerance > 0]


def simulated_logs(
    federation: LoggedFederation, world: World, seeds: Sequence[int], rounds: int | None = None
) -> list[RoundLog]:
    """Simulate the clock of a federation in a world, and return the log of each seed. `rounds`: versions to simulate;
    None: as many as the first log has."""
    many = len(federation.logs[0].time_s) if rounds is None else rounds
    changes = {"world": world.model_dump(mode="json"), "protocol.rounds": many, "seeding.clock": None}
    scenario = federation.scenario.override(changes, check=False)
    found = [RoundLog.of_run(simulate_clock(scenario, seed), federation.groups) for seed in seeds]
    # A simulation must not show more than the log does.
    shows_tasks = federation.logs[0].task_s is not None
    return [one if shows_tasks else RoundLog(one.time_s, one.updates, None, one.of_groups) for one in found]


class _Search:
    """The search for the numbers of least misfit."""

    def __init__(self, federations: Sequence[LoggedFederation], skip: int) -> None:
        self.federations, self.skip = federations, skip
        self.observed = [moments_of(one.name, one.logs, skip) for one in federations]

    def guess(self) -> RoundFit:
        """Guess where to begin: in the fastest federation half of a round is training, or what its log says of tasks,
        and a quarter is the server's. A group of which half as many updates come is twice as slow."""
        guesses = []
        for federation, moments in zip(self.federations, self.observed, strict=True):
            values = {one.name: one.observed for one in moments}
            round_s = values["seconds per round, mean"]
            scenario = federation.scenario
            streams = Streams(scenario.seeds[0])
            drawn = scenario.world.device.draw(scenario.data.clients, streams.generator("device"))
            work = [scenario.training.processed(int(one)) for one in scenario.data.client_sizes(streams)]
            own_s = float(np.median(drawn * np.array(work)))
            rates = {group: _rate(federation, group, values) for group in (None, *federation.groups)}
            guesses.append((round_s, values.get("seconds per task, mean", round_s / 2) / own_s, rates))
        round_s, factor, rates = min(guesses, key=lambda guess: guess[0])
        factors = {group: factor * (rates[None] / rate) for group, rate in rates.items()}
        return RoundFit(factors, 0.1, round_s / 4, None)

    def measured(self, fit: RoundFit) -> RoundFit:
        """Return `fit` with its moments and misfit."""
        found = []
        for federation, moments in zip(self.federations, self.observed, strict=True):
            logs = simulated_logs(federation, fit.world(federation.scenario), SEEDS)
            fitted = {one.name: one.observed for one in moments_of(federation.name, logs, self.skip)}
            found += [replace(one, fitted=fitted.get(one.name, 0.0)) for one in moments]
        misfit = sum(((one.fitted - one.observed) / one.tolerance) ** 2 for one in found)
        return replace(fit, misfit=misfit, moments=tuple(found))

    def least(self, start: RoundFit) -> RoundFit:
        """Search from `start` for the least misfit, among worlds with shared processors where it has some."""
        groups = tuple(start.factors)

        def fit_at(point: Floats) -> RoundFit:
            *factors, sigma, between_s = np.exp(point[: len(groups) + 2]).tolist()
            processors = max(1.0, math.exp(point[-1])) if start.processors else None
            return RoundFit(dict(zip(groups, factors, strict=True)), min(sigma, 2.0), between_s, processors)

        numbers = [
            *start.factors.values(),
            start.sigma,
            start.between_s,
            *([start.processors] if start.processors else []),
        ]
        point = np.log(np.array(numbers))
        for step in STEPS:
            # Begun again from its best point, with smaller steps: a simplex may shrink before it has arrived.
            simplex = np.vstack([point, point + step * np.eye(len(point))])
            options = {
                "initial_simplex": simplex,
                "maxfev": MOST_TRIALS + TRIALS_PER_GROUP * (len(groups) - 1),
                "xatol": 0.01,
                "fatol": 0.1,
            }
            found = optimize.minimize(
                lambda at: self.measured(fit_at(at)).misfit, point, method="Nelder-Mead", options=options
            )
            point = found.x
        return self.measured(fit_at(point))


def _rate(federation: LoggedFederation, group: Group | None, values: dict[str, float]) -> float:
    """Return the updates per round of a client of a group, None: of no group. `values`: moments of the federation by
    name."""
    members = {one: one[1] - one[0] + 1 for one in federation.groups}
    updates = {one: values.get(f"updates of clients {one[0]} to {one[1]}, mean", 0.0) for one in members}
    others = federation.scenario.data.clients - sum(members.values())
    if group is None:
        total = values["updates per round, mean"] - sum(updates.values())
        return max(total, LEAST_RATE) / max(others, 1)
    return max(updates[group], LEAST_RATE) / members[group]
