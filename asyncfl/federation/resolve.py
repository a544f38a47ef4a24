"""Resolve what a seed needs from other runs: its exposures L, and facts that its privacy scheme needs.

The budgets of a control scheme follow from the uploads of another scheme's run of the same scenario and seed. If L, the
number of times that the most exposed client is overheard, is to be measured, the timeline of the scenario is run
several times before training, without training and with other seeds, and overheard updates are counted. The result is
an assumption about one adversary in one world, not a guarantee.

A simulation carries out such runs itself (`PriorRuns`). A live federation needs them as well.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from asyncfl.base.streams import Streams
from asyncfl.evaluation import Evaluation
from asyncfl.privacy import MeasuredExposures
from asyncfl.privacy.release import Upload
from asyncfl.scenario import Scenario

log = logging.getLogger(__name__)


class PriorRuns(Protocol):
    """Runs on whose results another run depends."""

    def uploads(self, scenario: Scenario, seed: int) -> Sequence[Upload]:
        """Return the uploads of the run of `scenario` with `seed`, see `SeedRun.uploads`."""
        ...

    def most_overheard(self, scenario: Scenario, seed: int) -> int:
        """Return the greatest number of updates overheard from one client in the timeline of `scenario` with `seed`."""
        ...


@dataclass(frozen=True)
class ResolvedSeed:
    """One seed of a scenario, with all results that it needs from other runs."""

    scenario: Scenario
    """The scenario with a privacy scheme that needs no other run."""
    seed: int
    exposures: int
    """L: uploads of one client that an eavesdropper is assumed to hold."""
    calibration: tuple[int, ...] = ()
    """Counts of the replicates, if L was measured."""

    def __post_init__(self) -> None:
        _ = self.reveals_scales  # read before the run: the files of the data may be gone when the ledger asks

    @cached_property
    def reveals_scales(self) -> bool:
        """Whether scales of the inputs are measured on samples that clients hold, see `DataSpec.reveals_scales`."""
        return self.scenario.data.reveals_scales

    @cached_property
    def streams(self) -> Streams:
        """The random streams of the seed."""
        return streams_of(self.scenario, self.seed)


def resolve(scenario: Scenario, seed: int, prior: PriorRuns) -> ResolvedSeed:
    """Return the seed with everything that it needs from other runs, which `prior` carries out: the privacy scheme with
    its final budgets, and the exposures L."""
    reference = scenario.privacy.reference
    if reference is not None:
        # Evaluation does not change training: skip it.
        unjudged = Evaluation(train_every=0, test_every=0)
        log.info("seed %d: the scheme is settled by a run of %s first", seed, reference.scheme.kind)
        first = scenario.model_copy(update={"privacy": reference.scheme, "evaluation": unjudged, "seeds": (seed,)})
        scenario = scenario.model_copy(update={"privacy": reference.settle(prior.uploads(first, seed))})
    return with_exposures(scenario, seed, prior)


def with_exposures(scenario: Scenario, seed: int, prior: PriorRuns) -> ResolvedSeed:
    """Return the seed with its exposures L, assumed or measured. The scheme of `scenario` must need no other run.

    `prior`: simulates the timelines on which L is measured.
    """
    rounds, participants, clients = scenario.protocol.rounds, scenario.participants, scenario.data.clients
    assumed = scenario.privacy.assumed_exposures(rounds, participants, clients)
    if isinstance(assumed, int):
        return ResolvedSeed(scenario, seed, assumed)
    log.info("seed %d: how often clients are overheard is measured on %d timelines", seed, assumed.replicates)
    counts = _overheard(scenario, seed, assumed, prior)
    if assumed.quantile is None:
        return ResolvedSeed(scenario, seed, max(counts), counts)
    # The quantile of the counts, rounded up.
    exposures = math.ceil(float(np.quantile(counts, assumed.quantile)) - 1e-9)
    return ResolvedSeed(scenario, seed, exposures, counts)


def _overheard(scenario: Scenario, seed: int, measured: MeasuredExposures, prior: PriorRuns) -> tuple[int, ...]:
    """Simulate replicates of the run with other seeds, no attack and unlimited budgets. Return for each the number of
    updates overheard from its most overheard client."""
    # Attackers are unknown beforehand: the many uploads of a flooder must not determine the noise of other clients.
    # Budgets are unknown too, since they depend on the noise: every client answers, and L may be too large.
    unlimited = scenario.privacy.model_copy(update={"stop_at": None})
    # With a fixed clock seed every replicate would equal the run itself, whose noise would then depend on its future.
    seeding = scenario.seeding.model_copy(update={"clock": None})
    honest = scenario.model_copy(update={"threats": None, "privacy": unlimited, "seeding": seeding})
    random = streams_of(scenario, seed).generator("calibration")
    seeds = random.integers(0, 2**31 - 1, size=measured.replicates)
    return tuple(prior.most_overheard(honest, int(one)) for one in seeds)


def streams_of(scenario: Scenario, seed: int) -> Streams:
    """Return the random streams of one seed."""
    apart = scenario.seeding
    return Streams(seed, data=apart.data, clock=apart.clock, training=apart.training, noise=scenario.noise_seed)
