"""Measuring L before training: how often an eavesdropper would overhear the most exposed client.

The timeline of the scenario runs without training, several times and with seeds of its own, and counts what the tap
holds. The result is an assumption about one adversary in one world, not a guarantee.
"""

from __future__ import annotations

import math

import numpy as np

from asyncfl.privacy import MeasuredExposures
from asyncfl.scenario import Scenario
from asyncfl.streams import Streams


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
