"""Report of a fitted world: a table of its parts with units, and quantile plots of its distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asyncfl.base.figure_style import OKABE_ITO, canvas, save, styled
from asyncfl.base.quantities import NONE, PLAIN, Scale, number, quantity, scale_of, with_unit
from asyncfl.calibration.fit import Calibration, FittedQuantity
from asyncfl.world.availability import AlternatingAvailability
from asyncfl.world.distributions import Distribution, Exponential, Fixed, Lognormal, Pareto, Uniform
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, Loss

POINTS = 1000


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


def _describe_loss(loss: Loss) -> str:
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
        rows.append([f"{way} loss", _describe_loss(links.loss.loss), f"{links.loss.packets} packets", NONE])
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
    presence, seen = calibration.presence.availability, calibration.presence.observations
    text = "always online"
    if isinstance(presence, AlternatingAvailability):
        on, off = (_amount(one.expected(), "s") for one in (presence.on_s, presence.off_s))
        text = f"online for {on} in the mean, offline for {off}"
    rows.append(["availability", text, f"{seen.went + len(seen.gaps_offline)} absences", NONE])
    given_up = calibration.dropout_rates
    text = "none"
    if given_up.times:
        text = f"{given_up.dropout:.3g} of trainings" if given_up.dropout else f"{given_up.dropout_per_s:.3g} per s"
    rows.append(["tasks given up", text, f"{given_up.times} times", NONE])
    if len(calibration.aggregate_s):
        mean_s = float(calibration.aggregate_s.mean())
        rows.append(["server, a buffer", _amount(mean_s, "s"), f"{len(calibration.aggregate_s)} versions", NONE])
    if calibration.evaluate_s:
        rows.append(["server, an evaluation", _amount(calibration.evaluate_s, "s"), trainings, NONE])
    return ["part", "fitted", "from", "gap"], rows


def quantile_plot_files(parts: Sequence[FittedQuantity], stem: Path) -> list[tuple[FittedQuantity, Path]]:
    """Return the parts that are not constant, each with the path of its plot without ending.

    stem: path of the world file without ending; the name of a plot begins with it.
    """
    varied = [part for part in parts if not part.shape.distribution.is_constant]
    return [(part, stem.with_name(f"{stem.name}-{part.name.replace(' ', '-')}")) for part in varied]


def draw_quantile_plots(parts: Sequence[FittedQuantity], caption: str, stem: Path) -> list[Path]:
    """Plot observed values against quantiles of the fitted distribution, for each part that is not constant.

    Writes SVG, PNG and PDF, and returns their paths.
    """
    written: list[Path] = []
    with styled():
        for part, file in quantile_plot_files(parts, stem):
            shape = part.shape
            page, (axis,) = canvas(1, caption, f"{part.name}: {describe_distribution(shape.distribution, part.unit)}")
            scale = scale_of([float(shape.exact[-1])], part.unit) if part.unit == "s" else PLAIN
            if part.unit == "bps":
                scale = Scale(1e6, "Mbit/s")
            last = len(shape.exact) - 1
            at = np.unique(np.linspace(0, last, min(last + 1, POINTS)).round().astype(np.int64))
            seen, expected = shape.exact[at] / scale.factor, shape.expected[at] / scale.factor
            ends = [min(seen[0], expected[0]), max(seen[-1], expected[-1])]
            axis.plot(ends, ends, color="#000000", linewidth=0.8, linestyle=(0, (4, 2)))
            axis.plot(expected, seen, "o", color=OKABE_ITO[0], markersize=3, alpha=0.7)
            axis.set_xlabel(with_unit("expected quantile", scale))
            axis.set_ylabel(with_unit(f"observed, of {part.sample}", scale))
            written += save(page, file)
    return written
