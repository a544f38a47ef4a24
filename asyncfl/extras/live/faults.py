"""Settings of a scenario that a live federation cannot have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asyncfl.base.component import kind_of
from asyncfl.base.errors import Fault
from asyncfl.privacy import PrivacyContext, State
from asyncfl.scenario import Scenario


def live_faults(scenario: Scenario, context: PrivacyContext, shape: bool = False) -> Iterator[Fault]:
    """Yield settings for which a client would have to know about the others.

    `context`: what the noise is calibrated to. `shape`: whether clients wait as the scenario's world says.
    """
    world, training, privacy = scenario.world, scenario.training, scenario.privacy
    if shape:
        if world.workers is not None:
            text = f"must be null, real clients wait each for itself, got {world.workers}; unset it"
            yield Fault("world.workers", text)
        if world.processors is not None:
            text = f"must be null, real clients compute each for itself, got {world.processors:g}; unset it"
            yield Fault("world.processors", text)
        if world.aggregate_alone:
            text = "must be false, a real server hears its clients while it waits as the world says, got true; unset it"
            yield Fault("world.aggregate_alone", text)
        for way, link in (("downlink", world.downlink), ("uplink", world.uplink)):
            if link.is_shared:
                text = (
                    f"must be .inf, no client knows what others send, got {link.server_bandwidth_bps:g}; leave it out"
                )
                yield Fault(f"world.{way}.server_bandwidth_bps", text)
    elif training.deadline_s is not None and scenario.protocol.partial_work == "normalised":
        yield Fault(
            "protocol.partial_work",
            "must be whole or work where clients stop by clocks of their own (training.deadline_s), got normalised: "
            "nobody can check how much they did, and who claims less would count for more",
        )
    state = privacy.start(context)
    learns = any(
        getattr(type(state), name) is not getattr(State, name) for name in ("record_training", "record_collection")
    )
    if privacy.needs_every_task or learns:
        text = "must not learn from all clients' updates, of which no client knows; choose another scheme"
        yield Fault("privacy", text)
    elif state.clip_norm(np.array([1.0])) != state.clip_norm(np.array([2.0])):
        yield Fault("privacy.clip_norm", "must be a number, no client knows the norms of the others; set it")
    if privacy.mixing_node is not None:
        yield Fault("privacy", "must do without a node that mixes updates, of which there is none in a live run")
    if (secure := scenario.protocol.secure_aggregation) is not None:
        text = f"must be null, live clients do not mask their updates, got {kind_of(secure)}; simulate it"
        yield Fault("protocol.secure_aggregation", text)
    if scenario.threats is not None and (sees := scenario.threats.attack.sees) != "own":
        text = f"must know its own update only (knowledge own), got {sees}; set it, or choose another"
        yield Fault("threats.attack", text)
    if scenario.evaluation.audit is not None:
        text = "must be null: it trains on clients' data, which the server of a live run does not have"
        yield Fault("evaluation.audit", text)


def personal_faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield settings that need the clients' own layers, which stay on machines of their own."""
    evaluation = scenario.evaluation
    where = "where model.personal is set" if scenario.model.personal else "where clients have models of their own"
    if scenario.model.initial is not None:
        yield Fault(
            "model.initial",
            f"must be null {where} and clients are on machines of their own: they are sent the shared layers alone, "
            "and begin with own ones that the scenario's seed draws",
        )
    if evaluation.keep != "none":
        yield Fault("evaluation.keep", f"must be none {where}: the server never has a whole model; leave it out")
    if every := evaluation.clients_every:
        text = f"must be 0 {where}, got {every}: nobody has a client's own layers but itself; leave it out"
        yield Fault("evaluation.clients_every", text)
    if evaluation.metrics:
        yield Fault("evaluation.metrics", f"must be empty {where}: the server never has a whole model")
