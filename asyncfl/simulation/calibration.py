"""What the noise of a seed is calibrated to; above all L, how often the most exposed client is overheard.

Where L is measured, the timeline of the scenario runs before training, without it, several times and with seeds of its
own, and counts what the tap holds. The result is an assumption about one adversary in one world, not a guarantee.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from asyncfl.defences import Mean
from asyncfl.privacy import MeasuredExposures, PrivacyContext
from asyncfl.scenario import Scenario
from asyncfl.server.dispatch import CohortDispatch
from asyncfl.server.opening import OpenCount
from asyncfl.server.protocol import Protocol
from asyncfl.server.staleness import ConstantStaleness
from asyncfl.streams import Streams


def privacy_context(scenario: Scenario, sizes: NDArray[np.int64], streams: Streams) -> tuple[PrivacyContext, list[int]]:
    """What the noise of a seed is calibrated to, and the counts behind L where it was measured on the clock."""
    clients, participants, rounds = scenario.data.clients, scenario.participants, scenario.protocol.rounds
    assumed = scenario.privacy.assumed_exposures(rounds, participants, clients)
    exposures, counts = (assumed, []) if isinstance(assumed, int) else measure_exposures(scenario, assumed, streams)
    training = scenario.training
    batch_size = 0 if training.batch_size == "full" else training.batch_size
    context = PrivacyContext(
        clients,
        participants,
        rounds,
        int(sizes.min()),
        exposures,
        batch_size,
        training.epochs,
        training.lr,
        n_parameters=scenario.model.layout(scenario.data.shape, scenario.data.classes).n_parameters,
        rate=scenario.protocol.rate,
        equal_weights=_equal_weights(scenario, sizes),
        once_each=_equal_weights(scenario, sizes) and _once_each(scenario.protocol),
    )
    return context, counts


def _equal_weights(scenario: Scenario, sizes: NDArray[np.int64]) -> bool:
    """Whether no update can weigh more than 1/n in a mean of n, and none weighs what depends on data."""
    protocol, defence = scenario.protocol, scenario.defence
    return (
        isinstance(defence.rule, Mean)
        # A detector may weigh updates, and correct the model by earlier ones.
        and defence.detector is None
        and protocol.aggregation in ("delta", "mix")
        and (protocol.weighting != "samples" or len(np.unique(sizes)) == 1)
        # Divided by the sum of the weights, a fresh update among stale ones counts for more.
        and (protocol.divisor == "buffer" or isinstance(protocol.staleness, ConstantStaleness))
    )


def _once_each(protocol: Protocol) -> bool:
    """Whether all updates of a version are of different clients, and weigh the same whatever their age."""
    if isinstance(protocol.opening, OpenCount) and protocol.opening.updates == 1:
        return True
    # Whoever is not drawn in cohorts is asked again as soon as it has answered, while the buffer is still filling.
    cohorts = isinstance(protocol.dispatch, CohortDispatch) and protocol.late == "drop"
    return cohorts and isinstance(protocol.staleness, ConstantStaleness)


def measure_exposures(scenario: Scenario, measured: MeasuredExposures, streams: Streams) -> tuple[int, list[int]]:
    """L and the most overheard client's count of each replicate.

    L is the largest count over the replicates, or the stated quantile of them rounded up.
    """
    from asyncfl.simulation.seed import simulate_clock

    # Who will attack is not known beforehand: a flooder's many uploads must not set the noise of all the others.
    # Nor is it known what budgets allow, which depends on the noise: everybody answers, and L is rather too large.
    unlimited = scenario.privacy.model_copy(update={"stop_at": None})
    # And a clock with a seed of its own would make every replicate the run itself, which so would know its future.
    seeding = scenario.seeding.model_copy(update={"clock": None})
    honest = scenario.model_copy(update={"threats": None, "privacy": unlimited, "seeding": seeding})
    seeds = streams.generator("calibration").integers(0, 2**31 - 1, size=measured.replicates)
    counts = [max(simulate_clock(honest, int(seed)).traffic.overheard_up.values(), default=0) for seed in seeds]
    if measured.quantile is None:
        return max(counts), counts
    return math.ceil(float(np.quantile(counts, measured.quantile)) - 1e-9), counts
