"""Fit a world to runs, part by part by maximum likelihood, and report how well each part fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncfl.base.errors import RunError
from asyncfl.extras.calibration.dropouts import FittedDropout, fit_dropout
from asyncfl.extras.calibration.families import SAME, SCALED, Floats
from asyncfl.extras.calibration.links import FittedLinks, fit_links, transmissions_of
from asyncfl.extras.calibration.machine import aggregates_alone, aggregations_of, fit_processor_sharing
from asyncfl.extras.calibration.observations import ObservedRun
from asyncfl.extras.calibration.presence import FittedAvailability, fit_availability
from asyncfl.extras.calibration.shared_link import fit_shared_link
from asyncfl.extras.calibration.trainings import (
    FittedSpeeds,
    WorkerSlots,
    fit_speeds,
    fit_worker_slots,
    trainings_of,
)
from asyncfl.world import World
from asyncfl.world.distributions import Distribution, Fixed, Listed
from asyncfl.world.links import Link


@dataclass(frozen=True)
class Calibration:
    """All fitted parts of a world."""

    speeds: FittedSpeeds
    downlink: FittedLinks
    uplink: FittedLinks
    presence: FittedAvailability
    dropout: FittedDropout
    worker_slots: WorkerSlots
    processors: float | None  # processors that clients and server share; None: each has one of its own
    aggregate_s: Floats  # seconds of aggregation on an unshared processor, of each version for which events show them
    aggregate_alone: bool  # whether the server does nothing else while it aggregates
    evaluate_s: float  # seconds to evaluate a version beside the run, on an unshared processor; 0: events show none
    scenario_world: World  # world of the runs' scenario, which gives the fields that events cannot show

    def world(self, population: bool = False) -> World:
        """Build the fitted world. It lists the observed clients one by one.

        `population`: draw clients from fitted distributions instead.
        """
        speeds = self.speeds
        device: dict[str, Any] = {"kind": "listed", "s_per_sample": speeds.s_per_sample.tolist()}
        if population:
            # A device has the fields of the distribution of its speeds, with another name where they have a unit.
            law = speeds.population.distribution
            names = {name: f"{name}_s_per_sample".removeprefix("value_") for name in SCALED[type(law)]}
            device = {names.get(name, name): value for name, value in law.model_dump(mode="json").items()}
        fields: dict[str, Any] = {
            "device": device | {"jitter": speeds.jitter.distribution.model_dump(mode="json")},
            "workers": self.worker_slots.workers,
            "turnaround_s": self.worker_slots.turnaround_s,
            "processors": self.processors,
            "downlink": _link(self.downlink, self.scenario_world.downlink, population),
            "uplink": _link(self.uplink, self.scenario_world.uplink, population),
            "dropout": self.dropout.probability,
            "dropout_per_s": self.dropout.per_s,
            "availability": self.presence.availability.model_dump(mode="json"),
        }
        if len(self.aggregate_s):
            fields |= {"aggregate_s": float(self.aggregate_s.mean()), "aggregate_s_per_number": 0.0}
            fields |= {"aggregate_alone": self.aggregate_alone}
            # This includes evaluation before publication.
            fields |= {"evaluate_s": 0.0, "evaluate_beside": False}
        if self.evaluate_s:
            fields |= {"evaluate_s": self.evaluate_s, "evaluate_beside": True}
        return World.model_validate({**self.scenario_world.model_dump(mode="json"), **_rounded(fields)})

    def notes(self) -> list[str]:
        """Return a sentence for each part that could not be fitted, and for each limit of the fit."""
        notes = []
        if unseen := len(self.speeds.unseen):
            notes.append(f"no training of {unseen} clients was observed to its end: given the median speed")
        for way, links in (("downlink", self.downlink), ("uplink", self.uplink)):
            if unseen := len(links.unseen):
                notes.append(f"{way}: no message of {unseen} clients arrived: given the median of the others")
            if links.messages and not links.separable and float(links.latency_s.max()) > 0:
                notes.append(
                    f"{way}: all messages had the same size and none was resent, so latency and bandwidth cannot be "
                    "separated, and all time counts as latency; add a second run of the same federation with a larger "
                    "or smaller model"
                )
        if not len(self.aggregate_s):
            notes.append("events do not show how long the server takes to aggregate a buffer: as in the scenario")
        as_given = "packet loss, tap, power, failure_detection, score_s and evaluation_cost"
        notes.append(f"events do not show {as_given}: as in the scenario")
        return notes


def calibrate(runs: Sequence[ObservedRun]) -> Calibration:
    """Fit a world to runs of one federation. Raises RunError for runs with different numbers of clients."""
    clients = {len(run.samples) for run in runs}
    if len(clients) > 1:
        raise RunError(
            f"runs must be of the same clients, got {' and '.join(f'{len(run.samples)} ({run.name})' for run in runs)}"
        )
    number = clients.pop()
    scenario_world = runs[0].scenario.world
    worker_slots = fit_worker_slots(runs)
    aggregated = [aggregations_of(run) for run in runs]
    alone = [aggregates_alone(run, one) for run, one in zip(runs, aggregated, strict=True)]
    seen_alone = [one for one in alone if one is not None]
    sharing = fit_processor_sharing(runs, aggregated, worker_slots.workers)
    trainings = trainings_of(runs, sharing.work)
    speeds = fit_speeds(number, trainings)
    downlink, uplink = (
        _fitted_link(number, runs, way, link)
        for way, link in (("down", scenario_world.downlink), ("up", scenario_world.uplink))
    )
    return Calibration(
        speeds=speeds,
        downlink=downlink,
        uplink=uplink,
        presence=fit_availability(runs, getattr(scenario_world.availability, "starts_at_h", 0.0)),
        dropout=fit_dropout(runs, speeds.s_per_sample),
        worker_slots=worker_slots,
        processors=sharing.processors,
        aggregate_alone=scenario_world.aggregate_alone if not seen_alone else all(seen_alone),
        evaluate_s=sharing.evaluate_s,
        aggregate_s=np.concatenate([sharing.work(place, *one) for place, one in enumerate(aggregated)]),
        scenario_world=scenario_world,
    )


def _fitted_link(clients: int, runs: Sequence[ObservedRun], way: str, link: Link) -> FittedLinks:
    """Fit the links of all clients, and the server's, in one direction."""
    shared = fit_shared_link(clients, runs, way)
    if shared.sent:
        return fit_links(clients, shared.sent, shared.server_bps, shared.s_per_byte)
    return fit_links(
        clients, [one for run in runs for one in transmissions_of(run, way, link.retransmission_timeout_s)]
    )


def _link(links: FittedLinks, scenario_link: Link, population: bool) -> dict[str, Any]:
    """Return the link of the fitted world for one direction; the scenario's gives what events do not show."""
    latency: Distribution = _listed(links.latency_s)
    bandwidth: Distribution = _listed(links.bandwidth_bps)
    if population:
        latency, bandwidth = links.latency.distribution, Fixed(value=math.inf)
        if links.bandwidth is not None and np.isfinite(links.bandwidth_bps).all():
            bandwidth = links.bandwidth.distribution
    changes: dict[str, Any] = {
        "latency_s": latency,
        "bandwidth_bps": bandwidth,
        "jitter_s": links.jitter.distribution,
        "server_bandwidth_bps": links.server_bps,
        "profile": None,
    }
    return scenario_link.model_copy(update=changes).model_dump(mode="json")


def _listed(values: Floats) -> Distribution:
    """Return a distribution that gives each client its value (clients,), or a constant where all are equal."""
    least, most = float(values.min()), float(values.max())
    if least == most or most - least <= SAME * most < math.inf:
        return Fixed(value=float(np.median(values)))
    return Listed(values=tuple(values.tolist()))


def _rounded(value: Any) -> Any:
    """Return `value` with its floats rounded to six digits, since no fit is more precise."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
