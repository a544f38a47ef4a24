"""What of a scenario no federation of real clients can do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asyncfl.base.errors import Fault
from asyncfl.privacy import PrivacyContext, State
from asyncfl.scenario import Scenario


def live_faults(scenario: Scenario, context: PrivacyContext, shape: bool = False) -> Iterator[Fault]:
    """What a client would have to know of the others. `context`: what the noise is calibrated to; `shape`: whether
    clients wait as the scenario's world says."""
    if shape and scenario.world.workers is not None:
        yield Fault(
            "world.workers", f"must be null, real clients wait each for itself, got {scenario.world.workers}; unset it"
        )
    if shape and scenario.world.processors is not None:
        yield Fault(
            "world.processors",
            f"must be null, real clients compute each for itself, got {scenario.world.processors:g}; unset it",
        )
    if shape and scenario.world.aggregate_alone:
        yield Fault(
            "world.aggregate_alone",
            "must be false, a real server hears its clients while it waits as the world says, got true; unset it",
        )
    for way, link in (("downlink", scenario.world.downlink), ("uplink", scenario.world.uplink)):
        if shape and link.is_shared:
            yield Fault(
                f"world.{way}.server_bandwidth_bps",
                f"must be .inf, no client knows what others send, got {link.server_bandwidth_bps:g}; leave it out",
            )
    training, partial_work = scenario.training, scenario.protocol.partial_work
    if not shape and training.deadline_s is not None and partial_work == "normalised":
        yield Fault(
            "protocol.partial_work",
            "must be whole or work where clients stop by clocks of their own (training.deadline_s), got normalised: "
            "nobody can check how much they did, and who claims less would count for more",
        )
    state = scenario.privacy.start(context)
    learns = any(
        getattr(type(state), name) is not getattr(State, name) for name in ("record_training", "record_collection")
    )
    if scenario.privacy.needs_every_task or learns:
        yield Fault(
            "privacy", "must not learn from all clients' updates, of which no client knows; choose another scheme"
        )
    elif state.clip_norm(np.array([1.0])) != state.clip_norm(np.array([2.0])):
        yield Fault("privacy.clip_norm", "must be a number, no client knows the norms of the others; set it")
    if scenario.privacy.mixing_node is not None:
        yield Fault("privacy", "must do without a node that mixes updates, of which there is none in a live run")
    if scenario.threats is not None and scenario.threats.attack.sees != "own":
        sees = scenario.threats.attack.sees
        yield Fault(
            "threats.attack", f"must know its own update only (knowledge own), got {sees}; set it, or choose another"
        )
    if scenario.evaluation.audit is not None:
        yield Fault(
            "evaluation.audit", "must be null: it trains on clients' data, which the server of a live run does not have"
        )


def flower_faults(scenario: Scenario) -> Iterator[Fault]:
    """What of a scenario cannot be over a grid of Flower."""
    for name, compression in (
        ("compression", scenario.compression),
        ("download_compression", scenario.download_compression),
    ):
        if not compression.off:
            yield Fault(name, "must be none: models travel over Flower's grid as arrays of float32")
