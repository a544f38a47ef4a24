"""Fit the availability of clients to the incomplete observations in events.

An idle client is not observed. A client is known to be online from the dispatch of a task until it has finished it, to
go offline where this breaks off a task, to be offline when it cannot be reached, and to come online when it asks for
work. For exponential periods online and offline, with rates l and m, the state after a gap of t seconds follows from a
two-state Markov chain, P(online after t | online) = m/(l+m) + l/(l+m) exp(-(l+m) t), and the likelihood of all
observations is a product of such terms (Kalbfleisch & Lawless, JASA 80, 1985). Periods offline are mostly observed
completely, so their distribution is chosen among several families; periods online are exponential.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize

from asyncfl.extras.calibration.days import OnlinePeriods, fit_days
from asyncfl.extras.calibration.families import FittedShape, fit_distribution
from asyncfl.extras.calibration.observations import ObservedRun, left_s
from asyncfl.protocol.events import Kind
from asyncfl.protocol.tasks import KINDS
from asyncfl.world.availability import AlternatingAvailability, AlwaysOnline, Availability
from asyncfl.world.distributions import Distribution, Exponential, Fixed

SHORTEST_S = 1e-6  # seconds below which an absence is too short to be measured


@dataclass
class PresenceObservations:
    """Observed times, in seconds, at which clients were online and offline, and numbers of transitions."""

    online_s: float = 0.0  # total time that clients were known to be online
    went: int = 0  # observed transitions to offline
    offline_s: float = 0.0  # total time that clients were known to be offline
    came: int = 0  # observed transitions to online
    gaps_online: list[float] = field(default_factory=list)
    """Unobserved gaps between two times at which a client was online."""
    gaps_offline: list[float] = field(default_factory=list)
    """Unobserved gaps from a time online to a time at which the client could not be reached."""
    first_online: int = 0  # clients that were online at their first observation
    first_offline: int = 0  # clients that were offline at their first observation
    whole_off: list[float] = field(default_factory=list)  # periods offline that were observed completely
    periods: list[tuple[int, float, float, float]] = field(default_factory=list)
    """Periods online, as `OnlinePeriods`: client, start (NaN: unseen), last time seen, time of absence (inf: never)."""

    def log_likelihood(self, turns_off: float, turns_on: float) -> float:
        """Compute the log-likelihood of the observations, up to a constant, from rates per second."""
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
    availability: Availability
    observations: PresenceObservations
    off: FittedShape | None  # distribution of the periods offline; None: none was observed completely


def fit_availability(runs: Sequence[ObservedRun], starts_at_h: float = 0.0) -> FittedAvailability:
    """Fit the availability; always online where no client was ever offline. `starts_at_h`: hour at time 0."""
    seen = PresenceObservations()
    for run in runs:
        events: list[list[tuple[float, int, str, float]]] = [[] for _ in run.samples]
        tasks, rows = run.tasks, run.rows(Kind.WENT_OFFLINE, Kind.CAME_ONLINE)
        for client, from_s, to_s in zip(tasks.client, tasks.dispatched_s, left_s(tasks), strict=True):
            events[client].append((from_s, 2, "working", to_s))
        time_s, clients, task = (run.column(name)[rows] for name in ("time_s", "client", "task"))
        came = run.kind[rows] == KINDS.index(Kind.CAME_ONLINE)
        for at_s, client, of, back in zip(time_s.tolist(), clients, task, came, strict=True):
            event = "came online" if back else "went offline" if of >= 0 else "unreachable"
            events[client].append((at_s, 1 if back else 0, event, at_s))
        for client, theirs in enumerate(events):
            _observe_client(client, sorted(theirs), run.end_s, seen)
    if not (seen.went or seen.gaps_offline or seen.first_offline):
        return FittedAvailability(AlwaysOnline(), seen, None)
    if seen.periods:
        client, *times = zip(*seen.periods, strict=True)
        periods = OnlinePeriods(np.array(client), *(np.array(one) for one in times))
        if (days := fit_days(periods, max(run.end_s for run in runs), starts_at_h)) is not None:
            return FittedAvailability(days[0], seen, days[1])
    on_s, off_s = _mean_periods(seen)
    off: FittedShape | None = None
    shape: Distribution = Exponential(mean=off_s) if off_s > SHORTEST_S else Fixed(value=SHORTEST_S)
    if seen.whole_off:
        off = fit_distribution(np.array(seen.whole_off), periods=True)
        exponential = off.compared.get("exponential", math.inf)
        # Of shapes that are about as likely the exponential, with its mean from all observations.
        likelier = not isinstance(off.distribution, Exponential) and min(off.compared.values()) < exponential - 2
        if likelier and off.distribution.expected() > SHORTEST_S:
            shape = off.distribution
    return FittedAvailability(AlternatingAvailability(on_s=Exponential(mean=on_s), off_s=shape), seen, off)


def _mean_periods(seen: PresenceObservations) -> tuple[float, float]:
    """Estimate the mean seconds of a period online and of one offline by maximum likelihood."""
    on_s, off_s = max(seen.online_s + sum(seen.gaps_online), 1e-9), max(seen.offline_s, 1e-9)
    start = [math.log(max(seen.went + len(seen.gaps_offline), 1) / on_s), math.log(max(seen.came, 1) / off_s)]
    if seen.offline_s <= SHORTEST_S * max(seen.came, 1):
        # The likelihood grows without bound as absences shrink. Then a gap carries no information, and the
        # rate of going offline is events over time.
        return max(seen.online_s, 1e-9) / seen.went if seen.went else 1 / math.exp(start[0]), SHORTEST_S
    found = optimize.minimize(
        lambda at: -seen.log_likelihood(math.exp(at[0]), math.exp(at[1])), start, method="Nelder-Mead"
    )
    return 1 / math.exp(found.x[0]), 1 / math.exp(found.x[1])


def _observe_client(
    client: int, events: Sequence[tuple[float, int, str, float]], end_s: float, seen: PresenceObservations
) -> None:
    """Add the periods online and offline of one client, and the gaps between them, to `seen`.

    `events`: (start, order among events of the same time, kind, end) of each event of the client, ascending. Kinds:
    `working` on a task, `unreachable` for a new task, `went offline` during a task, `came online`.
    """
    online: bool | None = None  # at the last observation; None: there was none
    last_s = 0.0
    whole = False  # whether the start of the current period offline was observed
    came_s = math.nan  # start of the current period online, where it was observed
    for at_s, _, event, until_s in events:
        if event == "unreachable" and online and at_s <= last_s:
            # A connection that ended during a task: a server in real time does not say of which.
            event, seen.online_s = "went offline", seen.online_s - (last_s - at_s)
        if event in ("working", "unreachable") and online is not False:
            here = event == "working"
            if online is None:
                seen.first_online += here
                seen.first_offline += not here
            elif at_s > last_s:
                (seen.gaps_online if here else seen.gaps_offline).append(at_s - last_s)
            if here:
                seen.online_s += until_s - at_s
            else:
                seen.periods.append((client, came_s, last_s, at_s))
                came_s = math.nan
            online, last_s, whole = here, until_s, False
        elif event == "went offline" and online:
            seen.went += 1
            seen.periods.append((client, came_s, at_s, at_s))
            online, last_s, whole = False, at_s, True
        elif event == "came online" and online is False:
            seen.offline_s += at_s - last_s
            seen.came += 1
            if whole:
                seen.whole_off.append(at_s - last_s)
            online, last_s, came_s = True, at_s, at_s
    if online is False:
        seen.offline_s += end_s - last_s
    elif not math.isnan(came_s):
        seen.periods.append((client, came_s, last_s, math.inf))
