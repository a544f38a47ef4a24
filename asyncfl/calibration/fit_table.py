"""Table of a fitted world: distributions and other parts described with units."""

from __future__ import annotations

import math

from asyncfl.base.quantities import NONE, number, quantity
from asyncfl.calibration.fit import Calibration
from asyncfl.world.availability import AlternatingAvailability
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Lognormal, Pareto, Uniform
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, Loss


def amount(value: float, unit: str) -> str:
    """Return a value with its unit, such as `23.2 ms`. `unit`: `s`, `bps`, or empty."""
    if unit == "bps":
        return "unlimited" if math.isinf(value) else f"{number(value / 1e6)} Mbit/s"
    return quantity(value, unit)


def describe_distribution(distribution: Distribution, unit: str) -> str:
    """Return a description of a distribution, e.g. `lognormal, median 23.2 ms, sigma 0.436`."""
    match distribution:
        case Fixed():
            return amount(distribution.value, unit)
        case Uniform():
            return f"uniform, {amount(distribution.low, unit)} to {amount(distribution.high, unit)}"
        case Exponential():
            return f"exponential, mean {amount(distribution.mean, unit)}" + (
                f", least {amount(distribution.minimum, unit)}" if distribution.minimum else ""
            )
        case Lognormal():
            return f"lognormal, median {amount(distribution.median, unit)}, sigma {number(distribution.sigma)}"
        case Pareto():
            return f"Pareto, least {amount(distribution.minimum, unit)}, alpha {number(distribution.alpha)}"
    return str(distribution)


def describe_loss(loss: Loss) -> str:
    """Return a description of a model of packet loss, e.g. `0.02 of packets, independent`."""
    match loss:
        case IndependentLoss():
            return f"{loss.probability:.3g} of packets, independent"
        case GilbertElliottLoss():
            return f"{loss.mean_loss():.3g} of packets, in bursts of {number(1 / loss.bad_to_good)} packets"
    return "none"


def fit_table(calibration: Calibration) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows of a table of all fitted parts. For its column `gap` see `FittedShape.gap`."""
    rows = []
    for part in calibration.parts():
        gap = NONE if part.shape.distribution.is_constant else f"{part.shape.gap:.3f}"
        rows.append([part.name, describe_distribution(part.shape.distribution, part.unit), part.sample, gap])
    for way, links in (("downlink", calibration.downlink), ("uplink", calibration.uplink)):
        if links.bandwidth is None:
            rows.append([f"{way} bandwidth", "not separable from latency", f"{links.messages} messages", NONE])
        rows.append([f"{way} loss", describe_loss(links.loss.loss), f"{links.loss.packets} packets", NONE])
    workers, waits_s = calibration.worker_slots.workers, calibration.worker_slots.waits_s
    text = "all, without waiting"
    if workers is not None:
        pause = amount(calibration.worker_slots.turnaround_s, "s")
        text = f"{workers}, {pause} between two, others wait {amount(float(waits_s.mean()), 's')}"
    rows.append(["compute at a time", text, f"{len(waits_s)} trainings", NONE])
    text = "one for each client and the server"
    if calibration.processors is not None:
        text = f"{number(calibration.processors)}, shared by clients and server"
    rows.append(["processors", text, f"{calibration.speeds.trainings} trainings", NONE])
    presence = calibration.presence.availability
    text = "always online"
    if isinstance(presence, AlternatingAvailability):
        on, off = (amount(one.expected(), "s") for one in (presence.on_s, presence.off_s))
        text = f"online for {on} in the mean, offline for {off}"
    seen = calibration.presence.observations
    rows.append(["availability", text, f"{seen.went + len(seen.gaps_offline)} absences", NONE])
    given_up = calibration.dropout_rates
    text = "none"
    if given_up.times:
        text = f"{given_up.dropout:.3g} of trainings" if given_up.dropout else f"{given_up.dropout_per_s:.3g} per s"
    rows.append(["tasks given up", text, f"{given_up.times} times", NONE])
    if len(calibration.aggregate_s):
        mean_s = float(calibration.aggregate_s.mean())
        rows.append(["server, a buffer", amount(mean_s, "s"), f"{len(calibration.aggregate_s)} versions", NONE])
    if calibration.evaluate_s:
        trainings = f"{calibration.speeds.trainings} trainings"
        rows.append(["server, an evaluation", amount(calibration.evaluate_s, "s"), trainings, NONE])
    return ["part", "fitted", "from", "gap"], rows
