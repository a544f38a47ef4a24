"""Report of a fitted world: a table of its parts with units."""

from __future__ import annotations

import math

from asyncfl.base.quantities import NONE, number, quantity
from asyncfl.extras.calibration.families import FittedShape
from asyncfl.extras.calibration.fit import Calibration
from asyncfl.world.availability import AlternatingAvailability, DiurnalAvailability
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Lognormal, Pareto, Uniform


def _amount(value: float, unit: str) -> str:
    """Return a value with its unit, such as `23.2 ms`. `unit`: `s`, `bps`, or empty."""
    if unit == "bps":
        return "unlimited" if math.isinf(value) else f"{number(value / 1e6)} Mbit/s"
    return quantity(value, unit)


def describe_distribution(distribution: Distribution, unit: str) -> str:
    """Return a description of a distribution, e.g. `lognormal, median 23.2 ms, sigma 0.436`."""
    match distribution:
        case Fixed():
            return _amount(distribution.value, unit)
        case Uniform():
            return f"uniform, {_amount(distribution.low, unit)} to {_amount(distribution.high, unit)}"
        case Exponential():
            least = f", least {_amount(distribution.minimum, unit)}" if distribution.minimum else ""
            return f"exponential, mean {_amount(distribution.mean, unit)}{least}"
        case Lognormal():
            return f"lognormal, median {_amount(distribution.median, unit)}, sigma {number(distribution.sigma)}"
        case Pareto():
            return f"Pareto, least {_amount(distribution.minimum, unit)}, alpha {number(distribution.alpha)}"
    return str(distribution)


def fit_table(calibration: Calibration) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows of a table of all fitted parts. For its column `gap` see `FittedShape.gap`."""
    rows: list[list[str]] = []

    def add(part: str, shape: FittedShape, unit: str, sample: str) -> None:
        gap = NONE if shape.distribution.is_constant else f"{shape.gap:.3f}"
        rows.append([part, describe_distribution(shape.distribution, unit), sample, gap])

    speeds, off = calibration.speeds, calibration.presence.off
    add("s per sample", speeds.population, "s", f"{len(speeds.s_per_sample) - len(speeds.unseen)} clients")
    add("task jitter", speeds.jitter, "", f"{speeds.trainings} trainings")
    for way, links in (("downlink", calibration.downlink), ("uplink", calibration.uplink)):
        add(f"{way} latency", links.latency, "s", f"{len(links.latency_s) - len(links.unseen)} clients")
        if links.bandwidth is not None:
            add(f"{way} bandwidth", links.bandwidth, "bps", f"{links.separable} clients")
        else:
            rows.append([f"{way} bandwidth", "not separable from latency", f"{links.messages} messages", NONE])
        add(f"{way} jitter", links.jitter, "s", f"{links.messages} messages")
        if math.isfinite(links.server_bps):
            rows.append([f"{way} of the server", _amount(links.server_bps, "bps"), f"{links.messages} messages", NONE])
    presence, seen = calibration.presence.availability, calibration.presence.observations
    if isinstance(presence, DiurnalAvailability) and off is not None:
        starts = sum(not math.isnan(one[1]) for one in seen.periods)
        rows.append(["online from", describe_distribution(presence.from_h, "") + " h", f"{starts} periods", NONE])
        add("hours online", off, "", f"{starts} periods")
    elif off is not None:
        add("time offline", off, "s", f"{len(seen.whole_off)} periods")
    slots, trainings = calibration.worker_slots, f"{calibration.speeds.trainings} trainings"
    text = "all, without waiting"
    if slots.workers is not None:
        pause, wait = (_amount(one, "s") for one in (slots.turnaround_s, float(slots.waits_s.mean())))
        text = f"{slots.workers}, {pause} between two, others wait {wait}"
    rows.append(["compute at a time", text, f"{len(slots.waits_s)} trainings", NONE])
    text = "one for each client and the server"
    if calibration.processors is not None:
        text = f"{number(calibration.processors)}, shared by clients and server"
    rows.append(["processors", text, trainings, NONE])
    text = "always online"
    if isinstance(presence, AlternatingAvailability):
        online, offline = (_amount(one.expected(), "s") for one in (presence.on_s, presence.off_s))
        text = f"online for {online} in the mean, offline for {offline}"
    if isinstance(presence, DiurnalAvailability):
        text = f"once a day, in {len(presence.zones_h)} time zones"
    rows.append(["availability", text, f"{seen.went + len(seen.gaps_offline)} absences", NONE])
    if calibration.dropout.dropouts:
        chance, rate = number(100 * calibration.dropout.probability), number(calibration.dropout.per_s)
        rows.append(
            ["dropout", f"{chance} % of trainings, {rate} a second", f"{calibration.dropout.dropouts} tasks", NONE]
        )
    if len(calibration.aggregate_s):
        mean_s = float(calibration.aggregate_s.mean())
        rows.append(["server, a buffer", _amount(mean_s, "s"), f"{len(calibration.aggregate_s)} versions", NONE])
    if calibration.evaluate_s:
        rows.append(["server, an evaluation", _amount(calibration.evaluate_s, "s"), trainings, NONE])
    return ["part", "fitted", "from", "gap"], rows
