"""The server's half on a machine of its own: it knows neither who will take part nor what samples they have.

Noise is calibrated to clients that have at least as many samples as the smallest share of the scenario's data; who has
fewer is not let in. Of the scenario's data the server keeps what it tests on, and what it trusts (`root_samples`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.base.errors import Fault
from asyncfl.federation.prepare import Federation
from asyncfl.federation.privacy_context import privacy_context
from asyncfl.privacy import PrivacyContext
from asyncfl.scenario import Scenario


def serving_faults(scenario: Scenario, *, shape: bool) -> Iterator[Fault]:
    """What of a scenario cannot be where clients bring samples of their own."""
    data = scenario.data
    if data.domains:
        yield Fault("data.domains", "must be left out: of which domain a client's own samples are nobody knows")
    elif not isinstance(data.dataset, str):
        yield Fault(
            "data.dataset", "must be the name of a data set: by that clients know what their samples must be like"
        )
    if data.concept is not None:
        yield Fault("data.concept", "must be null: clients bring samples of their own, and see them as they are")
    if data.canaries is not None:
        yield Fault("data.canaries", "must be null: nobody plants anything in samples that clients bring")
    if every := scenario.evaluation.clients_every:
        yield Fault(
            "evaluation.clients_every",
            f"must be 0, got {every}: nobody has a client's samples but itself; leave it out",
        )
    if len(scenario.seeds) > 1:
        yield Fault("seeds", f"must be one, got {len(scenario.seeds)}: clients take part in one run; add --set seeds=1")
    varies = getattr(scenario.world.availability, "varies", None)
    if shape and varies is not None and varies.along == "samples":
        yield Fault("world.availability.varies.along", "must be speed: no client knows how many samples others have")


def unknown_sizes(clients: int, fewest: int) -> NDArray[np.int64]:
    """(clients,) samples of clients of whom it is only known that they have at least so many: not all the same."""
    sizes = np.full(clients, fewest, dtype=np.int64)
    sizes[1:2] += 1
    return sizes


def without_samples(federation: Federation) -> Federation:
    """The same federation, of whose clients' samples nothing is known but how few they may be."""
    data, path, resolved = federation.data, federation.path, federation.resolved
    kept = replace(
        data, images=data.images[:0], labels=data.labels[:0], offsets=np.zeros_like(data.offsets), canaries=None
    )
    path.data = kept
    path.context = context_of_strangers(federation, int(data.sizes.min()))
    path.state = resolved.scenario.privacy.start(path.context)
    return replace(federation, data=kept)


def context_of_strangers(federation: Federation, fewest: int) -> PrivacyContext:
    """What noise is calibrated to."""
    scenario = federation.resolved.scenario
    return privacy_context(federation.resolved, unknown_sizes(scenario.data.clients, fewest))
