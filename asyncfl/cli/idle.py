"""Settings of a scenario that change nothing, since what they belong to is switched off."""

from __future__ import annotations

from collections.abc import Iterator

from asyncfl.base.description import explicit_fields, fields_of
from asyncfl.scenario import Scenario
from asyncfl.world.loss import NoLoss


def idle_settings(scenario: Scenario) -> list[str]:
    """Return a sentence for each setting that was given and that nothing in the scenario uses."""
    given = fields_of(explicit_fields(scenario))
    return [f"{name} changes nothing without {missing}" for name, missing in _idle(scenario) if given.get(name)]


def _idle(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield (field, what it would need) for what is switched off."""
    world, defence = scenario.world, scenario.defence
    if world.workers is None:
        yield "world.turnaround_s", "world.workers"
    if defence.detector is None:
        yield "world.score_s", "defence.detector"
        if not defence.rule.needs_root:
            yield "defence.root_samples", "a detector or rule that judges by them"
    for name, link in (("uplink", world.uplink), ("downlink", world.downlink)):
        if isinstance(link.loss, NoLoss) and link.profile is None:
            for one in ("retransmissions", "retransmission_timeout_s"):
                yield f"world.{name}.{one}", f"world.{name}.loss"
