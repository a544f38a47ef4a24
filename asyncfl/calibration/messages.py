"""Latency, bandwidth, jitter and losses of the links in one direction, from when messages began, were sent again, and
arrived.

Of a message of b bytes, sent at 0 and again at t_1, t_2, ... with r_1, r_2, ... bytes, and complete at T:

    t_1 = b s + w,   t_k+1 - t_k = r_k s + w,   T - t_last = r_last s + latency + jitter

with s = 8 / bandwidth seconds per byte and w the wait for acknowledgements. So s is known where a client's messages, or
what was sent again of them, were of different sizes: least squares with no unknown below 0, per client. Where all were
of one size, only the sum is known, and it is told as latency.
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
"""Seconds that are none: whole bytes of what is sent again move times by as much."""
SOUND = 1e3
"""Weight of equations without jitter against those with."""


class ObservedMessage(NamedTuple):
    """A message that began, in one direction."""

    client: int
    sizes: tuple[int, ...]
    """Bytes of each transmission, the first first."""
    began_s: tuple[float, ...]
    """When each began, seconds after the first."""
    arrived_s: float
    """When it was complete, seconds after the first; NaN: it was lost."""


@dataclass(frozen=True)
class FittedLinks:
    """The links of a direction."""

    latency_s: Floats
    """(clients,)"""
    bandwidth_bps: Floats
    """(clients,) inf where messages take as long whatever their size."""
    latency: FittedShape
    bandwidth: FittedShape | None
    """None: no client's bandwidth is known, or all are unlimited."""
    jitter: FittedShape
    loss: FittedLoss
    retransmissions: int
    timeout_s: float
    mtu_bytes: int
    messages: int
    """Messages that arrived."""
    told_apart: int
    """Clients of whom latency and bandwidth can be told apart."""
    unseen: tuple[int, ...]
    """Clients of whom no message arrived; they are given the median of the others."""


def messages_of(run: ObservedRun, way: str) -> list[ObservedMessage]:
    """All messages of tasks in a direction (`down` or `up`) that arrived or were given up."""
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


def fit_links(clients: int, messages: Sequence[ObservedMessage], before: Link) -> FittedLinks:
    """The links that these messages went over. `before`: the link of the runs' scenario, for what cannot be seen."""
    by_client: list[list[ObservedMessage]] = [[] for _ in range(clients)]
    for one in messages:
        by_client[one.client].append(one)
    unknowns = np.full((clients, 3), np.nan)
    """Seconds per byte, wait, latency with the mean of the jitter."""
    for number, theirs in enumerate(by_client):
        if any(not np.isnan(one.arrived_s) for one in theirs):
            unknowns[number] = _solved(theirs)
    seen = ~np.isnan(unknowns[:, 2])
    if not seen.any():
        nothing = fit_distribution(np.zeros(1))
        loss = fit_loss(messages, before.mtu_bytes)
        return FittedLinks(
            latency_s=np.zeros(clients),
            bandwidth_bps=np.full(clients, np.inf),
            latency=nothing,
            bandwidth=None,
            jitter=nothing,
            loss=loss,
            retransmissions=before.retransmissions,
            timeout_s=before.retransmission_timeout_s,
            mtu_bytes=before.mtu_bytes,
            messages=0,
            told_apart=0,
            unseen=tuple(range(clients)),
        )
    apart = seen & ~np.isnan(unknowns[:, 0])
    _share_out(unknowns, by_client, seen, apart)
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
        loss=fit_loss(messages, before.mtu_bytes),
        retransmissions=max(lost) if lost else max(most, before.retransmissions),
        timeout_s=float(np.nanmedian(waits)) if (~np.isnan(waits)).any() else before.retransmission_timeout_s,
        mtu_bytes=before.mtu_bytes,
        messages=sum(not np.isnan(one.arrived_s) for one in messages),
        told_apart=int(apart.sum()),
        unseen=tuple(int(client) for client in np.flatnonzero(~seen)),
    )


def _solved(messages: Sequence[ObservedMessage]) -> tuple[float, float, float]:
    """Seconds per byte (NaN: not known), wait (NaN: there was none), and latency with jitter, of one client."""
    rows: list[tuple[float, float, float]] = []
    took: list[float] = []
    for one in messages:
        for size, begun, again in zip(one.sizes, one.began_s, one.began_s[1:], strict=False):
            rows.append((size * SOUND, SOUND, 0.0))
            took.append((again - begun) * SOUND)
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


def _share_out(
    unknowns: Floats, by_client: Sequence[Sequence[ObservedMessage]], seen: np.ndarray, apart: np.ndarray
) -> None:
    """Of clients of whom only the sum is known, the latency is the median of the others' where it is not longer."""
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
    """The extra delay of a message, least 0, and the latencies without it.

    How much longer than the quickest of its client each other message took: of an exponential delay that is the delay
    itself, and the quickest of n took a mean of 1/n of it.
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
