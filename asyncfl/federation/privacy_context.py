"""Facts about a seed to which its privacy noise is calibrated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.privacy import PrivacyContext
from asyncfl.scenario import Scenario, has_fixed_weights
from asyncfl.server.protocol import Protocol


def privacy_context(resolved: ResolvedSeed, sizes: NDArray[np.int64]) -> PrivacyContext:
    """Return the facts to which the noise of a seed is calibrated. `sizes`: (clients,) training samples of each
    client."""
    scenario = resolved.scenario
    training = scenario.training
    return PrivacyContext(
        scenario.data.clients,
        scenario.participants,
        scenario.protocol.rounds,
        int(sizes.min()),
        resolved.exposures,
        training.samples_per_step,
        training.epochs,
        training.lr,
        n_parameters=scenario.n_parameters,
        rate=scenario.protocol.rate,
        plain_sgd=not (training.momentum or training.proximal_mu),
        clips_samples=training.local_steps == "printed",
        fixed_weights=has_fixed_weights(scenario.protocol, scenario.defence),
        equal_weights=_equal_weights(scenario, sizes),
        personal=bool(scenario.model.personal),
        once_each=_equal_weights(scenario, sizes) and _once_each(scenario.protocol),
    )


def _equal_weights(scenario: Scenario, sizes: NDArray[np.int64]) -> bool:
    """Whether no update can weigh more than 1/n in a mean of n, and no weight depends on data."""
    protocol = scenario.protocol
    return (
        has_fixed_weights(protocol, scenario.defence)
        and (scenario.training.deadline_s is None or protocol.partial_work == "whole")
        and (protocol.weighting != "samples" or len(np.unique(sizes)) == 1)
        # Divided by the sum of the weights, a fresh update among stale ones weighs more than 1/n.
        and (protocol.divisor == "buffer" or protocol.staleness.is_constant)
    )


def _once_each(protocol: Protocol) -> bool:
    """Whether all updates of a version come from different clients, and weigh the same at any staleness."""
    if protocol.opening.updates == 1:
        return True
    # Without cohorts a client that has answered may be asked again while the same buffer is being filled.
    cohorts = protocol.dispatch.in_cohorts and protocol.late == "drop"
    return cohorts and protocol.staleness.is_constant
