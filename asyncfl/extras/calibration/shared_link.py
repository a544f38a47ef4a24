"""Estimate the bandwidth of the server's side of a direction, which messages in transit share.

Messages share it max-min fairly (`asyncfl.world.fair_link`), and each is limited by its client's own bandwidth. All
starts and sizes of messages are known, so for a server's bandwidth C and clients' bandwidths the time of every
transmission follows. A client's time for a message that it sends alone, its latency included, is observed; phi is the
share of it that is transmission, which other messages slow down, the same for all clients. C and phi are estimated by
maximum likelihood, where delays are Laplace about the client's median. Sharing is accepted only where it is significant
(Vuong, Econometrica 57, 1989), as in `machine`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from asyncfl.extras.calibration.families import Floats
from asyncfl.extras.calibration.machine import DEVIATIONS
from asyncfl.extras.calibration.observations import Ints, ObservedRun, left_s

MOST = 800  # messages of a run that the search uses: its first ones
PHIS = (0.0, 0.3, 0.6, 0.95)  # shares of a lone message's time that are tried as transmission
BUSY = np.linspace(
    0.0, 0.2, 11
)  # logarithms of bandwidths that are tried, relative to that of a link busy all the time
TRIED, PEAKS = 10, 3  # further bandwidths that are tried, and peaks among all that are refined
AROUND = np.linspace(-0.3, 0.3, 7)  # the same for other phis, relative to the best of the first
NARROWING = (5, 5, 5)  # bandwidths of each step of the refinement
REFINED = 12  # steps of its refinement
ROUNDS = 3  # times that clients' own seconds are estimated from the others' load, and the load from them
LEAST = 0.05  # median time of a message, relative to that of a task, up to which sharing would hardly matter
FINEST = 1e-3  # spread of delays, relative to their median, that counts as exact


@dataclass(frozen=True)
class Messages:
    """Messages of one run in one direction, by start."""

    client: Ints
    size: Floats  # bytes
    began_s: Floats
    ended_s: Floats  # arrival, or when the client broke it off; inf: neither is known
    arrived: NDArray[np.bool_]  # whether it arrived without being sent again

    @classmethod
    def of(cls, run: ObservedRun, way: str, first: int) -> Messages:
        """Create from the tasks of a run. `way`: `down` or `up`; `first`: number that its first client gets."""
        tasks, down = run.tasks, way == "down"
        began, ended = (
            (tasks.download_started_s, tasks.downloaded_s) if down else (tasks.upload_started_s, tasks.uploaded_s)
        )
        size = (tasks.download_bytes if down else tasks.upload_bytes).astype(np.float64)
        attempts, sent = (tasks.attempts_down, tasks.bytes_down) if down else (tasks.attempts_up, tasks.bytes_up)
        size = np.where(attempts > 1, sent, size)
        ended_s = np.where(np.isnan(ended), left_s(tasks), ended)
        order = np.argsort(began, kind="stable")
        order = order[(~np.isnan(began) & (size > 0))[order]]
        arrived = ~np.isnan(ended) & (attempts == 1)
        return cls(first + tasks.client[order], size[order], began[order], ended_s[order], arrived[order])

    def first(self, number: int) -> Messages:
        """Return the first messages."""
        kept = slice(number)
        return Messages(self.client[kept], self.size[kept], self.began_s[kept], self.ended_s[kept], self.arrived[kept])

    def transmission_s(self, server_bps: float, own_bps: Floats) -> Floats:
        """Compute the seconds of each transmission, (n,). `own_bps`: (n,) bits per second of the client's link."""
        if math.isinf(server_bps):
            return np.asarray(8 * self.size / own_bps)
        seconds = np.zeros(len(self.size))
        starts, bits, caps = self.began_s.tolist(), (8 * self.size).tolist(), own_bps.tolist()
        # A message that was broken off makes room at that moment, others when they are through.
        gone = np.where(self.arrived, math.inf, self.ended_s).tolist()
        active: dict[int, float] = {}
        now, coming = 0.0, 0
        while active or coming < len(starts):
            if not active:
                now = max(now, starts[coming])
            level = _level([caps[one] for one in active], server_bps)
            wait = starts[coming] - now if coming < len(starts) else math.inf
            for one, left in active.items():
                wait = min(wait, left / min(caps[one], level), gone[one] - now)
            wait = max(wait, 0.0)
            now += wait
            for one in list(active):
                active[one] -= min(caps[one], level) * wait
                if active[one] <= 1e-9 * bits[one] or gone[one] <= now:
                    del active[one]
                    seconds[one] = now - starts[one]
            while coming < len(starts) and starts[coming] <= now:
                active[coming] = bits[coming]
                coming += 1
        return seconds


def _level(caps: list[float], capacity: float) -> float:
    """Return the rate of each message that its client's link does not limit, see `asyncfl.world.fair_link`."""
    left = capacity
    for place, cap in enumerate(sorted(caps)):
        level = left / (len(caps) - place)
        if cap >= level:
            return level
        left -= cap
    return math.inf


@dataclass(frozen=True)
class SharedLink:
    """The server's side of one direction."""

    server_bps: float  # inf: messages do not slow each other down
    s_per_byte: Floats  # (clients,) seconds per byte of the clients' own links; NaN: contention does not show them
    sent: list[tuple[int, float, float, bool]]
    """Messages as each would have been alone, see `links.Transmission`; empty where nothing is shared."""


def fit_shared_link(clients: int, runs: Sequence[ObservedRun], way: str) -> SharedLink:
    """Fit the server's bandwidth in one direction; inf where messages do not significantly slow each other down."""
    unshared = SharedLink(math.inf, np.full(clients, np.nan), [])
    # In runs of different models a client's messages have different sizes: each run counts apart.
    groups = clients * len(runs)
    every = [Messages.of(run, way, clients * place) for place, run in enumerate(runs)]
    some = [one.first(MOST) for one in every]
    took, client = (np.concatenate(parts) for parts in zip(*((_took(one), _client(one)) for one in some), strict=True))
    several = np.bincount(client, minlength=groups)[client] > 1
    at_task_s = float(np.median(np.concatenate([left_s(run.tasks) - run.tasks.dispatched_s for run in runs])))
    if not several.any() or float(np.median(took)) <= LEAST * at_task_s:
        return unshared
    busiest = max(_busiest(one) for one in some)
    spread_s = FINEST * float(np.median(took))

    def estimated(server_bps: float, phi: float, of: Sequence[Messages]) -> tuple[Floats, Floats, Floats]:
        """Return delays of arrived messages beyond their transmission, their transmissions, and (groups,) seconds
        per byte of the clients' links."""
        took, client, size = (np.concatenate([part(one) for one in of]) for part in (_took, _client, _size))
        own_s, number = _least(took, client, groups), np.bincount(client, minlength=groups)
        mean_size = np.bincount(client, size, groups) / np.maximum(number, 1)
        for _ in range(ROUNDS):
            s_per_byte = phi * own_s / np.maximum(mean_size, 1.0)
            with np.errstate(divide="ignore"):
                caps = 8 / s_per_byte
            times = np.concatenate([one.transmission_s(server_bps, caps[one.client])[one.arrived] for one in of])
            delay = took - times
            if phi == 0:
                break
            own_s = np.maximum(_median(delay, client, groups), 0.0) + s_per_byte * mean_size
        return delay, times, s_per_byte

    def densities(server_bps: float, phi: float) -> Floats:
        delay, _, _ = estimated(server_bps, phi, some)
        apart = np.abs(delay - _median(delay, client, groups)[client])[several]
        scale = float(apart.mean()) + spread_s
        return np.asarray(-apart / scale - math.log(scale))

    alone = densities(math.inf, 0.0)
    if busiest < 2:
        return unshared
    # What has arrived has been sent within the run.
    bits = max(
        8 * float(_size(one).sum()) / max(float(one.ended_s[one.arrived].max(initial=0.0)), 1e-9) for one in some
    )
    most = max(busiest * 8 * float(one.size.max()) / max(float(_took(one).min(initial=math.inf)), 1e-9) for one in some)
    lowest, highest = math.log(bits), math.log(max(most, 2 * bits))
    cost = math.log(max(int(np.count_nonzero(several)), 2)) / 2
    worth, server_bps, phi = -math.inf, math.inf, 0.0
    for tried in PHIS:

        def likelihood(log_bps: float, phi: float = tried) -> float:
            return float(densities(math.exp(log_bps), phi).sum())

        # Where delays hardly spread the likelihood has narrow peaks, near the rate of a link that is always busy most.
        grid = [*(lowest + BUSY), *np.linspace(lowest + BUSY[-1], highest, TRIED)[1:]]
        if tried:
            grid = [*(math.log(server_bps) + AROUND)]
        highest_peak, at = _highest_peak(likelihood, grid)
        # Transmission at the clients' own links is a second parameter.
        found = highest_peak - cost * (1 + (tried > 0))
        if found <= worth:
            break
        worth, server_bps, phi = found, math.exp(at), tried
        if worth <= float(alone.sum()):
            return unshared
    gains = densities(server_bps, phi) - alone
    if worth - float(alone.sum()) <= DEVIATIONS * math.sqrt(len(gains)) * float(gains.std()):
        return unshared
    delay, _, s_per_byte = estimated(server_bps, phi, every)
    client, size = (np.concatenate([part(one) for one in every]) for part in (_client, _size))
    alone_s = np.maximum(delay, 0.0) + s_per_byte[client] * size
    sent = [(int(c) % clients, float(b), float(s), True) for c, b, s in zip(client, size, alone_s, strict=True)]
    known = np.where(np.bincount(client, minlength=groups) > 0, s_per_byte, np.nan).reshape(-1, clients)
    own = [float(np.median(one[~np.isnan(one)])) if (~np.isnan(one)).any() else math.nan for one in known.T]
    return SharedLink(server_bps, np.array(own), sent)


def _highest_peak(function: Callable[[float], float], grid: Sequence[float]) -> tuple[float, float]:
    """Return the largest value of a function with narrow peaks, and where it is. `grid`: ascending, where to begin."""
    values = np.array([-math.inf, *(function(one) for one in grid), -math.inf])
    tops = np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:]))
    peaks = []
    for place in tops[np.argsort(values[1:-1][tops])][-PEAKS:].tolist():
        low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
        for points in NARROWING:
            inner = np.linspace(low, high, points).tolist()
            at, step = inner[int(np.argmax([function(one) for one in inner]))], (high - low) / (points - 1)
            low, high = at - step, at + step
        search = optimize.minimize_scalar(
            lambda at: -function(at), bounds=(low, high), method="bounded", options={"maxiter": REFINED}
        )
        peaks.append((-float(search.fun), float(search.x)))
    return max(peaks)


def _took(messages: Messages) -> Floats:
    return (messages.ended_s - messages.began_s)[messages.arrived]


def _client(messages: Messages) -> Ints:
    return messages.client[messages.arrived]


def _size(messages: Messages) -> Floats:
    return messages.size[messages.arrived]


def _busiest(messages: Messages) -> int:
    """Return the most messages at a time."""
    ended = np.sort(messages.ended_s)
    return int((np.arange(1, len(ended) + 1) - np.searchsorted(ended, messages.began_s, side="right")).max(initial=0))


def _least(values: Floats, client: Ints, clients: int) -> Floats:
    least = np.full(clients, math.inf)
    np.minimum.at(least, client, values)
    return np.where(np.isfinite(least), least, 0.0)


def _median(values: Floats, client: Ints, clients: int) -> Floats:
    """Return the median of each client's values, (clients,); 0 where it has none."""
    order = np.lexsort((values, client))
    of, first, number = np.unique(client[order], return_index=True, return_counts=True)
    ordered, middles = values[order], np.zeros(clients)
    middles[of] = (ordered[first + (number - 1) // 2] + ordered[first + number // 2]) / 2
    return middles
