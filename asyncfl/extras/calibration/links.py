"""Fit latency, bandwidth and jitter of one direction to the times of messages that arrived.

A message of b bytes is sent at time 0, resent at t_1, t_2, ... with r_1, r_2, ... bytes, and complete at T:

    t_1 = b s + w,   t_k+1 - t_k = r_k s + w,   T - t_last = r_last s + latency + jitter

with s = 8 / bandwidth seconds per byte and w the timeout of the scenario's link. These equations are solved per client
by non-negative least squares. They determine s where transmissions of the client have different sizes. With one size
only the sum is known, and it counts as latency. Packet loss, the timeout and the number of retransmissions are those of
the scenario: real connections resend unseen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import optimize

from asyncfl.extras.calibration.families import FittedShape, Floats, fit_distribution
from asyncfl.extras.calibration.observations import ObservedRun
from asyncfl.protocol.events import Kind
from asyncfl.protocol.tasks import KINDS, codes

INSTANT_S = 1e-5  # seconds that count as 0, since sizes of retransmissions are rounded to whole bytes
EXACT_WEIGHT = 1e3  # weight of equations without jitter relative to equations with jitter


Transmission = tuple[int, float, float, bool]
"""A transmission of a message that arrived: client; bytes; seconds from its start to that of the next, without the
timeout, or to the arrival; whether the message was complete with it."""


@dataclass(frozen=True)
class FittedLinks:
    latency_s: Floats
    bandwidth_bps: Floats  # (clients,) bits per second; inf: the time of a message does not depend on its size
    latency: FittedShape
    bandwidth: FittedShape | None
    """Distribution of the bandwidth over clients; None: no bandwidth is known, or all are unlimited."""
    jitter: FittedShape  # distribution of the extra delay of a message
    messages: int
    separable: int  # number of clients whose latency and bandwidth can be separated
    unseen: tuple[int, ...]  # clients without an arrived message, which get the medians of the others
    server_bps: float = math.inf  # bandwidth of the server that messages share


def transmissions_of(run: ObservedRun, way: str, timeout_s: float) -> list[Transmission]:
    """Return the transmissions of tasks in the direction `way` (`down` or `up`)."""
    begin, end = (Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED) if way == "down" else (Kind.UPLOAD_STARTED, Kind.UPLOADED)
    task, client, time_s, size = (run.column(name) for name in ("task", "client", "time_s", "bytes"))
    detail = codes(run.events["detail"], (way,))
    open_: dict[int, list[tuple[float, float]]] = {}
    made: list[Transmission] = []
    for row in run.rows(begin, end, Kind.RETRANSMITTED, Kind.LOST):
        number, kind, at_s = int(task[row]), KINDS[run.kind[row]], float(time_s[row])
        if kind == begin:
            open_[number] = [(float(size[row]), at_s)]
        elif number in open_ and detail[row] == 0:
            if kind == Kind.RETRANSMITTED:
                open_[number].append((float(size[row]), at_s))
                continue
            sent = open_.pop(number)
            if kind == end:
                of = int(client[row])
                for (bytes_, begun), (_, again) in pairwise(sent):
                    made.append((of, bytes_, max(again - begun - timeout_s, 0.0), False))
                made.append((of, sent[-1][0], at_s - sent[-1][1], True))
    return made


def fit_links(
    clients: int, sent: list[Transmission], server_bps: float = math.inf, known: Floats | None = None
) -> FittedLinks:
    """Fit the links of all clients to their transmissions in one direction.

    `server_bps`: fitted bandwidth that messages share, whose delay `sent` is without. `known`: (clients,) seconds per
    byte that sharing showed, for clients whose messages have one size; NaN: none.
    """
    rows = np.array(sent, dtype=np.float64).reshape(-1, 4)
    client, size, _, last = rows.T
    # Per client: seconds per byte, and latency including the mean jitter.
    s_per_byte, latency_s = np.array([_solve_client(rows[client == one, 1:]) for one in range(clients)]).T
    if known is not None and len(rows):
        shown = np.isnan(s_per_byte) & ~np.isnan(known) & ~np.isnan(latency_s)
        s_per_byte[shown] = known[shown]
        sending_s = known[shown] * _mean_size(client, size, clients)[shown]
        latency_s[shown] = np.maximum(latency_s[shown] - sending_s, 0.0)
    seen, apart = ~np.isnan(latency_s), ~np.isnan(s_per_byte)
    jitter = fit_distribution(np.zeros(1))
    if seen.any():
        # Where only the total time is known, the latency is the median of the other clients', at most the total; the
        # rest of the time gives the bandwidth.
        usual = float(np.median(latency_s[apart])) if apart.any() else math.inf
        for one in np.flatnonzero(seen & ~apart).tolist():
            s_per_byte[one] = max(latency_s[one] - usual, 0.0) / size[(client == one) & (last > 0)][0]
            latency_s[one] = min(usual, latency_s[one])
        s_per_byte[seen & (s_per_byte * size.max() < INSTANT_S)] = 0.0
        jitter, latency_s = _jitter(rows[last > 0], s_per_byte, latency_s)
        for column in (latency_s, s_per_byte):
            column[~seen] = float(np.median(column[seen]))
    else:
        s_per_byte, latency_s = np.zeros(clients), np.zeros(clients)
    with np.errstate(divide="ignore"):
        bandwidth = 8.0 / s_per_byte
    limited = bandwidth[seen & np.isfinite(bandwidth)]
    return FittedLinks(
        latency_s=latency_s,
        bandwidth_bps=bandwidth,
        latency=fit_distribution(latency_s[seen] if seen.any() else np.zeros(1)),
        bandwidth=fit_distribution(limited) if len(limited) else None,
        jitter=jitter,
        messages=int(last.sum()),
        separable=int(apart.sum()),
        unseen=tuple(np.flatnonzero(~seen).tolist()),
        server_bps=server_bps,
    )


def _mean_size(client: Floats, size: Floats, clients: int) -> Floats:
    of = client.astype(np.int64)
    return np.asarray(np.bincount(of, size, clients) / np.maximum(np.bincount(of, minlength=clients), 1))


def _solve_client(rows: Floats) -> tuple[float, float]:
    """Estimate seconds per byte (NaN: all sizes are equal), and latency including the mean jitter (NaN: no message).
    `rows`: (n, 3) transmissions without their client."""
    size, seconds, last = rows.T
    if not len(size):
        return np.nan, np.nan
    if last.all() and (size == size[0]).all():
        return np.nan, float(seconds.mean())
    weight, scale = np.where(last > 0, 1.0, EXACT_WEIGHT), size.max()
    solved = optimize.nnls(np.stack([size / scale, last], axis=1) * weight[:, None], seconds * weight)[0]
    return float(solved[0] / scale), float(solved[1])


def _jitter(arrived: Floats, s_per_byte: Floats, latency_s: Floats) -> tuple[FittedShape, Floats]:
    """Fit the extra delay of a message, >= 0 s, and return it with the latencies (clients,) without it.

    The sample is the excess of each message over the fastest message of its client. For an exponential delay, the
    excess has the law of the delay itself, and the delay of the fastest of n messages has 1/n of its mean. `arrived`:
    (n, 4) last transmissions.
    """
    client = arrived[:, 0].astype(np.int64)
    rests = arrived[:, 2] - arrived[:, 1] * s_per_byte[client]
    order = np.lexsort((rests, client))
    client, rests = client[order], rests[order]
    of, first, number = np.unique(client, return_index=True, return_counts=True)
    delays = np.delete(rests - np.repeat(rests[first], number), first)
    if not len(delays) or delays.max() < INSTANT_S:
        return fit_distribution(np.zeros(1)), latency_s.copy()
    jitter = fit_distribution(np.maximum(delays, 0.0))
    mean = jitter.distribution.expected()
    without = latency_s.copy()
    without[of] = np.maximum(rests[first] - (mean if np.isfinite(mean) else float(delays.mean())) / number, 0.0)
    return jitter, without
