"""Fit latency, bandwidth, jitter and packet loss of one direction to the times of messages.

A message of b bytes is sent at time 0, resent at t_1, t_2, ... with r_1, r_2, ... bytes, and complete at T:

    t_1 = b s + w,   t_k+1 - t_k = r_k s + w,   T - t_last = r_last s + latency + jitter

with s = 8 / bandwidth seconds per byte and w the wait for acknowledgements. These equations are solved per client by
non-negative least squares. They determine s where the client's messages or retransmissions have different sizes. With
one size only the sum is known, and it counts as latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from asyncfl.calibration.families import FittedShape, fit_distribution
from asyncfl.calibration.losses import FittedLoss, fit_loss
from asyncfl.calibration.observations import Floats, ObservedRun
from asyncfl.trace.events import Kind
from asyncfl.trace.tasks import codes
from asyncfl.world.links import Link

INSTANT_S = 1e-5
"""Seconds that count as 0, since sizes of retransmissions are rounded to whole bytes."""
EXACT_WEIGHT = 1e3
"""Weight of equations without jitter relative to equations with jitter."""


class ObservedMessage(NamedTuple):
    """Times and sizes of one message."""

    client: int
    sizes: tuple[int, ...]
    """Bytes of each transmission, in order."""
    began_s: tuple[float, ...]
    """Start of each transmission, seconds after the first."""
    arrived_s: float
    """Completion, seconds after the first start; NaN: the message was lost."""


@dataclass(frozen=True)
class FittedLinks:
    """Fitted links of one direction."""

    latency_s: Floats
    """(clients,) seconds."""
    bandwidth_bps: Floats
    """(clients,) bits per second; inf: the time of a message does not depend on its size."""
    latency: FittedShape
    """Distribution of the latency over clients."""
    bandwidth: FittedShape | None
    """Distribution of the bandwidth over clients; None: no bandwidth is known, or all are unlimited."""
    jitter: FittedShape
    """Distribution of the extra delay of a message."""
    loss: FittedLoss
    retransmissions: int
    """Retransmissions after which the sender gives up; see `Link.retransmissions`."""
    timeout_s: float
    """Seconds of wait before a retransmission."""
    mtu_bytes: int
    """Size of the largest packet, from the scenario."""
    messages: int
    """Number of messages that arrived."""
    separable: int
    """Number of clients whose latency and bandwidth can be separated."""
    unseen: tuple[int, ...]
    """Clients without an arrived message, which get the medians of the others."""


def messages_of(run: ObservedRun, way: str) -> list[ObservedMessage]:
    """Return the messages of tasks in the direction `way` (`down` or `up`) that arrived or were lost."""
    begin, end = (Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED) if way == "down" else (Kind.UPLOAD_STARTED, Kind.UPLOADED)
    task, time_s, size = run.column("task"), run.column("time_s"), run.column("bytes")
    detail = codes(run.events["detail"], (way,))
    client = run.column("client")
    open_: dict[int, tuple[int, list[int], list[float]]] = {}
    made: list[ObservedMessage] = []
    ends = {run.kind_of(end), run.kind_of(Kind.LOST)}
    for row in run.rows(begin, end, Kind.RETRANSMITTED, Kind.LOST):
        number = int(task[row])
        if run.kind[row] == run.kind_of(begin):
            open_[number] = (int(client[row]), [int(size[row])], [float(time_s[row])])
        elif number in open_ and detail[row] == 0:
            of, sizes, began = open_[number]
            if run.kind[row] in ends:
                del open_[number]
                arrived = float(time_s[row]) - began[0] if run.kind[row] == run.kind_of(end) else np.nan
                made.append(ObservedMessage(of, tuple(sizes), tuple(at - began[0] for at in began), arrived))
            else:
                sizes.append(int(size[row]))
                began.append(float(time_s[row]))
    return made


def fit_links(clients: int, messages: Sequence[ObservedMessage], scenario_link: Link) -> FittedLinks:
    """Fit the links of all clients to their messages.

    Args:
        clients: Number of clients.
        messages: Messages of all clients in one direction.
        scenario_link: Link of the runs' scenario, which gives the fields that events do not show.
    """
    by_client: list[list[ObservedMessage]] = [[] for _ in range(clients)]
    for one in messages:
        by_client[one.client].append(one)
    unknowns = np.full((clients, 3), np.nan)
    """Per client: seconds per byte, wait, latency including the mean jitter."""
    for number, theirs in enumerate(by_client):
        if any(not np.isnan(one.arrived_s) for one in theirs):
            unknowns[number] = _solve_client(theirs)
    seen = ~np.isnan(unknowns[:, 2])
    if not seen.any():
        nothing = fit_distribution(np.zeros(1))
        loss = fit_loss(messages, scenario_link.mtu_bytes)
        return FittedLinks(
            latency_s=np.zeros(clients),
            bandwidth_bps=np.full(clients, np.inf),
            latency=nothing,
            bandwidth=None,
            jitter=nothing,
            loss=loss,
            retransmissions=scenario_link.retransmissions,
            timeout_s=scenario_link.retransmission_timeout_s,
            mtu_bytes=scenario_link.mtu_bytes,
            messages=0,
            separable=0,
            unseen=tuple(range(clients)),
        )
    apart = seen & ~np.isnan(unknowns[:, 0])
    _split_total_time(unknowns, by_client, seen, apart)
    s_per_byte = unknowns[:, 0]
    s_per_byte[seen & (s_per_byte * _largest(messages) < INSTANT_S)] = 0.0
    jitter, latency_s = _jitter(unknowns, by_client, seen)
    for column in (latency_s, s_per_byte):
        column[~seen] = float(np.median(column[seen]))
    with np.errstate(divide="ignore"):
        bandwidth = 8.0 / s_per_byte
    waits = unknowns[seen, 1]
    lost = [len(one.sizes) - 1 for one in messages if np.isnan(one.arrived_s)]
    most = max((len(one.sizes) - 1 for one in messages), default=0)
    limited = bandwidth[seen & np.isfinite(bandwidth)]
    return FittedLinks(
        latency_s=latency_s,
        bandwidth_bps=bandwidth,
        latency=fit_distribution(latency_s[seen]),
        bandwidth=fit_distribution(limited) if len(limited) else None,
        jitter=jitter,
        loss=fit_loss(messages, scenario_link.mtu_bytes),
        retransmissions=max(lost) if lost else max(most, scenario_link.retransmissions),
        timeout_s=float(np.nanmedian(waits)) if (~np.isnan(waits)).any() else scenario_link.retransmission_timeout_s,
        mtu_bytes=scenario_link.mtu_bytes,
        messages=sum(not np.isnan(one.arrived_s) for one in messages),
        separable=int(apart.sum()),
        unseen=tuple(int(client) for client in np.flatnonzero(~seen)),
    )


def _solve_client(messages: Sequence[ObservedMessage]) -> tuple[float, float, float]:
    """Estimate the link of one client by non-negative least squares.

    Returns:
        Seconds per byte (NaN: all sizes are equal), seconds of wait before a retransmission (NaN: unknown), and latency
        in seconds, which includes the mean jitter.
    """
    rows: list[tuple[float, float, float]] = []
    took: list[float] = []
    for one in messages:
        for size, begun, again in zip(one.sizes, one.began_s, one.began_s[1:], strict=False):
            rows.append((size * EXACT_WEIGHT, EXACT_WEIGHT, 0.0))
            took.append((again - begun) * EXACT_WEIGHT)
        if not np.isnan(one.arrived_s):
            rows.append((one.sizes[-1], 0.0, 1.0))
            took.append(one.arrived_s - one.began_s[-1])
    matrix, times = np.array(rows), np.array(took)
    waited = bool(matrix[:, 1].any())
    sizes_known = any(len(set(matrix[matrix[:, kind] > 0, 0])) > 1 for kind in (1, 2))
    if not sizes_known:
        last = float(np.mean(times[matrix[:, 2] > 0]))
        return np.nan, np.nan, last
    scale = matrix[:, 0].max()
    matrix[:, 0] /= scale
    used = [0, 1, 2] if waited else [0, 2]
    found, _ = nnls(matrix[:, used], times)
    of = dict(zip(used, found, strict=True))
    return float(of[0] / scale), float(of.get(1, np.nan)), float(of[2])


def _split_total_time(
    unknowns: Floats, by_client: Sequence[Sequence[ObservedMessage]], seen: np.ndarray, apart: np.ndarray
) -> None:
    """Estimate the latency of clients for which only the total time is known, in place.

    It is the median latency of the other clients, at most the total time. The rest of the time gives the bandwidth.

    Args:
        unknowns: (clients, 3) seconds per byte, wait, and latency including mean jitter; changed in place.
        by_client: Messages of each client.
        seen: (clients,) whether a message of the client arrived.
        apart: (clients,) whether latency and bandwidth of the client can be separated.
    """
    rest = seen & ~apart
    if not apart.any():
        unknowns[rest, 0] = 0.0
        return
    usual = float(np.median(unknowns[apart, 2]))
    for client in np.flatnonzero(rest).tolist():
        size = next(one.sizes[-1] for one in by_client[client] if not np.isnan(one.arrived_s))
        latency_s = min(usual, unknowns[client, 2])
        unknowns[client, 0] = (unknowns[client, 2] - latency_s) / size
        unknowns[client, 2] = latency_s


def _jitter(
    unknowns: Floats, by_client: Sequence[Sequence[ObservedMessage]], seen: np.ndarray
) -> tuple[FittedShape, Floats]:
    """Fit the extra delay of a message, >= 0 s, and return it with the latencies (clients,) without it.

    For `unknowns`, `by_client` and `seen` see `_split_total_time`.

    The sample is the excess of each message over the fastest message of its client. For an exponential delay, the
    excess has the law of the delay itself, and the delay of the fastest of n messages has 1/n of its mean.
    """
    over: list[Floats] = []
    least = np.zeros(len(by_client))
    number = np.ones(len(by_client))
    for client in np.flatnonzero(seen).tolist():
        rests = np.array(
            [
                one.arrived_s - one.began_s[-1] - one.sizes[-1] * unknowns[client, 0]
                for one in by_client[client]
                if not np.isnan(one.arrived_s)
            ]
        )
        least[client], number[client] = rests.min(), len(rests)
        over.append(np.sort(rests - rests.min())[1:])
    delays = np.concatenate(over) if over else np.empty(0)
    if not len(delays) or delays.max() < INSTANT_S:
        return fit_distribution(np.zeros(1)), unknowns[:, 2].copy()
    jitter = fit_distribution(np.maximum(delays, 0.0))
    mean = jitter.distribution.expected()
    if not np.isfinite(mean):
        mean = float(delays.mean())
    return jitter, np.maximum(least - mean / number, 0.0)


def _largest(messages: Sequence[ObservedMessage]) -> int:
    return max(one.sizes[0] for one in messages)
