"""A seed of which nothing has to be found out by another run any more: L is known, and whatever its scheme needs.

A control's budgets follow from what another scheme's run of the same scenario and seed uploaded. Where L, how often the
most exposed client is overheard, is measured, the timeline of the scenario runs before training, without it, several
times and with seeds of its own, and counts what the tap holds. The result is an assumption about one adversary in one
world, not a guarantee.

Whoever simulates carries out such runs (`PriorRuns`); a federation of real clients needs them as well.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from asyncfl.evaluation import Evaluation
from asyncfl.privacy import MeasuredExposures
from asyncfl.privacy.upload_records import Upload
from asyncfl.scenario import Scenario
from asyncfl.streams import Streams

log = logging.getLogger(__name__)


class PriorRuns(Protocol):
    """Runs that come before another, which is measured by them."""

    def uploads(self, scenario: Scenario, seed: int) -> Sequence[Upload]:
        """What the clients of that run upload: `SeedRun.uploads`."""
        ...

    def most_overheard(self, scenario: Scenario, seed: int) -> int:
        """Updates that the tap holds of the client it holds most of, on the clock of that run, without training."""
        ...


@dataclass(frozen=True)
class ResolvedSeed:
    """One seed of a scenario, with all that is measured before it is prepared."""

    scenario: Scenario
    """With a privacy scheme that needs no other run."""
    seed: int
    exposures: int
    """L, uploads of one client that an eavesdropper is assumed to hold."""
    calibration: tuple[int, ...] = ()
    """Counts of the replicates, where L was measured."""

    @cached_property
    def streams(self) -> Streams:
        """The random streams of the seed."""
        return streams_of(self.scenario, self.seed)


def resolve(scenario: Scenario, seed: int, prior: PriorRuns) -> ResolvedSeed:
    """That seed of `scenario`, with what `prior` runs tell."""
    reference = scenario.privacy.reference
    if reference is not None:
        # Nothing that is judged changes what is trained.
        unjudged = Evaluation(train_every=0, test_every=0)
        log.info("seed %d: the scheme is settled by a run of %s first", seed, reference.scheme.kind)
        first = scenario.model_copy(update={"privacy": reference.scheme, "evaluation": unjudged, "seeds": (seed,)})
        scenario = scenario.model_copy(update={"privacy": reference.settle(prior.uploads(first, seed))})
    return with_exposures(scenario, seed, prior)


def with_exposures(scenario: Scenario, seed: int, prior: PriorRuns) -> ResolvedSeed:
    """That seed of a `scenario` whose scheme needs no other run, with L as it is assumed, or measured."""
    rounds, participants, clients = scenario.protocol.rounds, scenario.participants, scenario.data.clients
    assumed = scenario.privacy.assumed_exposures(rounds, participants, clients)
    if isinstance(assumed, int):
        return ResolvedSeed(scenario, seed, assumed)
    log.info("seed %d: how often clients are overheard is measured on %d timelines", seed, assumed.replicates)
    counts = _overheard(scenario, seed, assumed, prior)
    if assumed.quantile is None:
        return ResolvedSeed(scenario, seed, max(counts), counts)
    # The stated quantile of the counts, rounded up.
    exposures = math.ceil(float(np.quantile(counts, assumed.quantile)) - 1e-9)
    return ResolvedSeed(scenario, seed, exposures, counts)


def _overheard(scenario: Scenario, seed: int, measured: MeasuredExposures, prior: PriorRuns) -> tuple[int, ...]:
    """The most overheard client's count of each replicate."""
    # Who will attack is not known beforehand: a flooder's many uploads must not set the noise of all the others.
    # Nor is it known what budgets allow, which depends on the noise: everybody answers, and L is rather too large.
    unlimited = scenario.privacy.model_copy(update={"stop_at": None})
    # And a clock with a seed of its own would make every replicate the run itself, which so would know its future.
    seeding = scenario.seeding.model_copy(update={"clock": None})
    honest = scenario.model_copy(update={"threats": None, "privacy": unlimited, "seeding": seeding})
    random = streams_of(scenario, seed).generator("calibration")
    seeds = random.integers(0, 2**31 - 1, size=measured.replicates)
    return tuple(prior.most_overheard(honest, int(one)) for one in seeds)


def streams_of(scenario: Scenario, seed: int) -> Streams:
    """The random streams of one seed."""
    apart = scenario.seeding
    return Streams(seed, data=apart.data, clock=apart.clock, training=apart.training)
