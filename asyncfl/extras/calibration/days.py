"""Fit one period online per day, at local time, to the times at which clients came online.

A client that is back after an absence that the server noticed shows the start of its period, and the task that it
breaks off shows the end. Starts that repeat at one hour of the day tell a day pattern from periods of random length: n
starts of a client at hours that are uniform have n R^2 with mean 1, where R is the length of their mean direction
(Rayleigh; Mardia & Jupp, Directional Statistics, 2000, section 6.3). Clients are put into time zones of whole hours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asyncfl.extras.calibration.families import FEWEST, FittedShape, Floats, fit_distribution
from asyncfl.extras.calibration.observations import Ints
from asyncfl.world.availability import DAY_S, HOUR_S, DiurnalAvailability

SHORTEST_DAYS = 0.75  # days of a run from which starts at one hour are told from starts in a short run
CLEAR = 6.0  # standard deviations by which starts must agree more than by chance
NEXT_DAY = 0.9  # days after its start from which on a period may include an absence that nobody noticed
DIFFERENT = 1.5  # variance of starts of all clients, relative to that of one client's, from which they differ in zones
UNSURE_H = 4.0  # hours between the last sight of a client and its absence up to which it went in the middle


@dataclass(frozen=True)
class OnlinePeriods:
    """Observed periods online."""

    client: Ints  # (n,)
    began_s: Floats  # (n,) starts; NaN: not seen
    seen_s: Floats  # (n,) last time that the client was seen before its next absence
    gone_s: Floats  # (n,) time at which it was known to be absent; inf: never

    @property
    def ended_h(self) -> Floats:
        """Hours since time 0 at which the periods ended whose end is known within a few hours; NaN: others."""
        sure = self.gone_s - self.seen_s <= UNSURE_H * HOUR_S
        return np.where(sure, (self.seen_s + self.gone_s) / 2, np.nan) / HOUR_S

    @property
    def hours(self) -> Floats:
        """Lengths of the periods whose start and end are known, hours."""
        hours = (self.ended_h - self.began_s / HOUR_S)[self.gone_s - self.began_s < NEXT_DAY * DAY_S]
        return np.asarray(hours[~np.isnan(hours)])


def fit_days(
    periods: OnlinePeriods, duration_s: float, starts_at_h: float
) -> tuple[DiurnalAvailability, FittedShape] | None:
    """Fit a day pattern; None where the starts show none. Also returns the shape of the hours online.

    `starts_at_h`: hour of the day at time 0.
    """
    hours, ended = periods.hours, periods.ended_h[~np.isnan(periods.ended_h)]
    seen = ~np.isnan(periods.began_s)
    if duration_s < SHORTEST_DAYS * DAY_S or min(int(seen.sum()), len(ended)) < FEWEST:
        return None
    local, of = (periods.began_s[seen] / HOUR_S + starts_at_h) % 24, periods.client[seen]
    client, place, number = np.unique(of, return_inverse=True, return_counts=True)
    # Each client's starts, or, in a run of about one day, those of all clients.
    each, all_ = _repeats(local, place, number), _repeats(local, np.zeros_like(place), np.array([len(local)]))
    if not (each or all_):
        return None
    own = np.array([_mean_hour(local[place == one]) for one in range(len(client))])
    centre, apart = _mean_hour(local), _apart(local, own[place])
    zones = np.zeros(len(client))
    # Variances of one client's starts, and of all clients' together.
    within, together = (
        float((apart**2).sum()) / max(len(local) - len(client), 1),
        float((_apart(local, centre) ** 2).mean()),
    )
    if each and together > DIFFERENT * within:
        # Clients differ by whole hours.
        centre = own[int(np.argmax(number))]
        zones = np.round(-_apart(own, centre))
    elif len(hours) < FEWEST:
        # In a run of about one day few periods have both ends: from the mean start to the mean end.
        hours = (np.array([_mean_hour(ended + starts_at_h)]) - centre) % 24
    begins = centre + _apart(local + zones[place], centre)
    begins += 24 * math.ceil(max(0.0, -float(begins.min())) / 24)
    offsets, clients = np.unique(zones, return_counts=True)
    lasts = fit_distribution(np.minimum(hours, 24.0), periods=True)
    pattern = DiurnalAvailability(
        from_h=fit_distribution(begins).distribution,
        hours=lasts.distribution,
        zones_h=tuple(offsets.tolist()),
        shares=None if len(offsets) == 1 else tuple(map(float, clients)),
        starts_at_h=starts_at_h,
    )
    return pattern, lasts


def _repeats(hour: Floats, group: Ints, number: Ints) -> bool:
    """Return whether hours of the day agree within groups far more than by chance. `number`: (groups,) of hours."""
    angle = hour * (2 * math.pi / 24)
    lengths = np.bincount(group, np.cos(angle)) ** 2 + np.bincount(group, np.sin(angle)) ** 2
    several = number > 1
    if not several.any():
        return False
    # n R^2 has about the variance 1 - 1/n.
    surplus = float((lengths / number)[several].sum()) - np.count_nonzero(several)
    return bool(surplus > CLEAR * math.sqrt(float((1 - 1 / number[several]).sum())))


def _mean_hour(hour: Floats) -> float:
    angle = hour * (2 * math.pi / 24)
    return math.atan2(float(np.sin(angle).mean()), float(np.cos(angle).mean())) * 24 / (2 * math.pi)


def _apart(hour: Floats, centre: Floats | float) -> Floats:
    """Return how long after `centre` an hour of the day is, -12..12."""
    return np.asarray((hour - centre + 12) % 24 - 12)
