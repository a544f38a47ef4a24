"""When clients are online, from what the events happen to show of it.

Nobody looks at a client that is at rest. It is known to be online from the dispatch of a task until it is done with it,
to go offline where that breaks off a task, to be offline when it cannot be reached, and to come online when it asks for
work. For on and off periods that are exponential, with rates l and m, the state after a gap of t seconds follows from
the chain of two states, P(online after t | online) = m/(l+m) + l/(l+m) exp(-(l+m) t), and the likelihood of all that
was seen is a product of such terms (Kalbfleisch & Lawless, JASA 80, 1985). Periods offline are mostly seen whole, so
their distribution is chosen among several; of those online the exponential's mean is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize

from asyncfl.calibration.families import FittedShape, fit_distribution
from asyncfl.calibration.observations import ObservedRun
from asyncfl.trace.events import Kind
from asyncfl.world.availability import AlternatingAvailability, AlwaysOnline, Availability
from asyncfl.world.distributions import Distribution, Exponential, Fixed

SHORTEST_S = 1e-6
"""Seconds below which an absence is too short to be measured."""


@dataclass
class PresenceObservations:
    """What was seen of the presence of all clients, in seconds."""

    online_s: float = 0.0
    """Time that clients were known to be online."""
    went: int = 0
    """Times that one was seen to go offline."""
    offline_s: float = 0.0
    """Time that clients were known to be offline."""
    came: int = 0
    """Times that one was seen to come online."""
    gaps_online: list[float] = field(default_factory=list)
    """Gaps, in which nobody looked, from a moment online to another."""
    gaps_offline: list[float] = field(default_factory=list)
    """Gaps from a moment online to one at which the client could not be reached."""
    first_online: int = 0
    """Clients that were online when they were looked at for the first time."""
    first_offline: int = 0
    whole_off: list[float] = field(default_factory=list)
    """Periods offline that were seen from beginning to end."""
    cut_off: list[float] = field(default_factory=list)
    """Those that were seen from their beginning, and had not ended when the trace did."""

    def log_likelihood(self, turns_off: float, turns_on: float) -> float:
        """Of rates per second of going offline and of coming online."""
        both = turns_off + turns_on
        fade = np.exp(-both * np.array(self.gaps_online)), np.exp(-both * np.array(self.gaps_offline))
        share = turns_on / both
        total = self.went * math.log(turns_off) - turns_off * self.online_s
        total += self.came * math.log(turns_on) - turns_on * self.offline_s
        total += float(np.log(share + (1 - share) * fade[0]).sum())
        total += float(np.log(np.maximum((1 - share) * (1 - fade[1]), 1e-300)).sum())
        return total + self.first_online * math.log(share) + self.first_offline * math.log1p(-share)


@dataclass(frozen=True)
class FittedAvailability:
    """When clients are online."""

    availability: Availability
    sightings: PresenceObservations
    off: FittedShape | None
    """Periods offline; None: none was seen whole."""


def fit_availability(runs: Sequence[ObservedRun]) -> FittedAvailability:
    """The availability that makes what was seen likeliest; always online where nobody was ever away."""
    seen = PresenceObservations()
    for run in runs:
        _look(run, seen)
    if not (seen.went or seen.gaps_offline or seen.first_offline):
        return FittedAvailability(AlwaysOnline(), seen, None)
    on_s, off_s = _mean_periods(seen)
    off: FittedShape | None = None
    shape: Distribution = Exponential(mean=off_s) if off_s > SHORTEST_S else Fixed(value=SHORTEST_S)
    if seen.whole_off:
        off = fit_distribution(np.array(seen.whole_off), np.array(seen.cut_off), periods=True)
        exponential = off.compared.get("exponential", math.inf)
        # Of shapes that are about as likely the exponential, with its mean from all observations.
        likelier = not isinstance(off.distribution, Exponential) and min(off.compared.values()) < exponential - 2
        if likelier and off.distribution.expected() > SHORTEST_S:
            shape = off.distribution
    return FittedAvailability(AlternatingAvailability(on_s=Exponential(mean=on_s), off_s=shape), seen, off)


def _mean_periods(seen: PresenceObservations) -> tuple[float, float]:
    """Estimate the mean seconds online and offline by maximum likelihood."""
    on_s, off_s = max(seen.online_s + sum(seen.gaps_online), 1e-9), max(seen.offline_s, 1e-9)
    start = [math.log(max(seen.went + len(seen.gaps_offline), 1) / on_s), math.log(max(seen.came, 1) / off_s)]
    if seen.offline_s <= SHORTEST_S * max(seen.came, 1):
        # The likelihood grows without bound as absences shrink. Then a gap says nothing of what happened in it, and the
        # rate of going offline is events over time.
        return max(seen.online_s, 1e-9) / seen.went if seen.went else 1 / math.exp(start[0]), SHORTEST_S
    found = optimize.minimize(
        lambda at: -seen.log_likelihood(math.exp(at[0]), math.exp(at[1])), start, method="Nelder-Mead"
    )
    return 1 / math.exp(found.x[0]), 1 / math.exp(found.x[1])


def _look(run: ObservedRun, seen: PresenceObservations) -> None:
    """Go through the sightings of each client of a run in order of time."""
    tasks = run.tasks
    until_s = np.where(np.isnan(tasks.left_s), tasks.end_s, tasks.left_s)
    rows = run.rows(Kind.WENT_OFFLINE, Kind.CAME_ONLINE)
    time_s, client, task = (run.column(name)[rows] for name in ("time_s", "client", "task"))
    came = run.kind[rows] == run.kind_of(Kind.CAME_ONLINE)
    for number in range(len(run.samples)):
        theirs = tasks.client == number
        mine = client == number
        # (when, order among those of one moment, what, until when)
        found = [
            (from_s, 2, "at it", to_s) for from_s, to_s in zip(tasks.dispatched_s[theirs], until_s[theirs], strict=True)
        ]
        for at_s, of, back in zip(time_s[mine], task[mine], came[mine], strict=True):
            what = "came" if back else "went" if of >= 0 else "away"
            found.append((float(at_s), 1 if back else 0, what, float(at_s)))
        _follow(sorted(found), run.end_s, seen)


def _follow(found: Sequence[tuple[float, int, str, float]], end_s: float, seen: PresenceObservations) -> None:
    """Add the sightings of one client."""
    online: bool | None = None
    """The state that was seen last; None: nobody has looked."""
    last_s = 0.0
    whole = False
    """Whether the beginning of its being offline was seen."""
    for at_s, _, what, until_s in found:
        if what in ("at it", "away") and online is not False:
            here = what == "at it"
            if online is None:
                seen.first_online += here
                seen.first_offline += not here
            elif at_s > last_s:
                (seen.gaps_online if here else seen.gaps_offline).append(at_s - last_s)
            if here:
                seen.online_s += until_s - at_s
            online, last_s, whole = here, until_s, False
        elif what == "went" and online:
            seen.went += 1
            online, last_s, whole = False, at_s, True
        elif what == "came" and online is False:
            seen.offline_s += at_s - last_s
            seen.came += 1
            if whole:
                seen.whole_off.append(at_s - last_s)
            online, last_s = True, at_s
    if online is False:
        seen.offline_s += end_s - last_s
        if whole:
            seen.cut_off.append(end_s - last_s)
