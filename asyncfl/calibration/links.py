"""Fit latency, bandwidth, jitter and packet loss of one direction to the times of messages.

A message of b bytes is sent at time 0, resent at t_1, t_2, ... with r_1, r_2, ... bytes, and complete at T:

    t_1 = b s + w,   t_k+1 - t_k = r_k s + w,   T - t_last = r_last s + latency + jitter

with s = 8 / bandwidth seconds per byte and w the wait for acknowledgements. These equations are solved per client by
non-negative least squares. They determine s where the client's messages or retransmissions have different sizes. With
one size only the sum is known, and it counts as latency.

The packets of a retransmission are those lost in the transmission before. Independent losses are binomial. For losses
in bursts, a channel that is good or bad loses each packet in its bad state (Gilbert, BSTJ 39, 1960). Both models are
fitted by maximum likelihood, and the better one is chosen by Akaike's criterion.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from asyncfl.calibration.families import FittedShape, Floats, fit_distribution
from asyncfl.calibration.observations import ObservedRun
from asyncfl.trace.events import Kind
from asyncfl.trace.tasks import KINDS, codes
from asyncfl.world.links import Link
from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, Loss, NoLoss

INSTANT_S = 1e-5  # seconds that count as 0, since sizes of retransmissions are rounded to whole bytes
EXACT_WEIGHT = 1e3  # weight of equations without jitter relative to equations with jitter
MOST_PACKETS = 2000
"""Largest message, packets, for which bursts are fitted, since their likelihood takes a step per packet."""
FEWEST_MESSAGES = 30  # smallest number of messages, and of lost packets, for which bursts are fitted


class ObservedMessage(NamedTuple):
    """Times and sizes of one message."""

    client: int
    sizes: tuple[int, ...]  # bytes of each transmission, in order
    began_s: tuple[float, ...]  # start of each transmission, seconds after the first
    arrived_s: float  # completion, seconds after the first start; NaN: the message was lost

    @property
    def arrived(self) -> bool:
        return not np.isnan(self.arrived_s)


@dataclass(frozen=True)
class FittedLinks:
    latency_s: Floats
    bandwidth_bps: Floats  # (clients,) bits per second; inf: the time of a message does not depend on its size
    latency: FittedShape
    bandwidth: FittedShape | None
    """Distribution of the bandwidth over clients; None: no bandwidth is known, or all are unlimited."""
    jitter: FittedShape  # distribution of the extra delay of a message
    loss: Loss
    packets: int  # packets that the loss was fitted to
    retransmissions: int  # retransmissions after which the sender gives up; see `Link.retransmissions`
    timeout_s: float
    messages: int
    separable: int  # number of clients whose latency and bandwidth can be separated
    unseen: tuple[int, ...]  # clients without an arrived message, which get the medians of the others


def messages_of(run: ObservedRun, way: str) -> list[ObservedMessage]:
    """Return the messages of tasks in the direction `way` (`down` or `up`) that arrived or were lost."""
    begin, end = (Kind.DOWNLOAD_STARTED, Kind.DOWNLOADED) if way == "down" else (Kind.UPLOAD_STARTED, Kind.UPLOADED)
    task, client, time_s, size = (run.column(name) for name in ("task", "client", "time_s", "bytes"))
    detail = codes(run.events["detail"], (way,))
    open_: dict[int, tuple[int, list[int], list[float]]] = {}
    made: list[ObservedMessage] = []
    for row in run.rows(begin, end, Kind.RETRANSMITTED, Kind.LOST):
        number, kind, at_s = int(task[row]), KINDS[run.kind[row]], float(time_s[row])
        if kind == begin:
            open_[number] = (int(client[row]), [int(size[row])], [at_s])
        elif number in open_ and detail[row] == 0:
            of, sizes, began = open_[number]
            if kind == Kind.RETRANSMITTED:
                sizes.append(int(size[row]))
                began.append(at_s)
            else:
                del open_[number]
                arrived_s = at_s - began[0] if kind == end else np.nan
                made.append(ObservedMessage(of, tuple(sizes), tuple(one - began[0] for one in began), arrived_s))
    return made


def fit_links(clients: int, messages: Sequence[ObservedMessage], scenario_link: Link) -> FittedLinks:
    """Fit the links of all clients to their messages in one direction.

    `scenario_link`: link of the runs' scenario, which gives the fields that events do not show.
    """
    by_client: list[list[ObservedMessage]] = [[] for _ in range(clients)]
    for one in messages:
        by_client[one.client].append(one)
    # Per client: seconds per byte, wait, latency including the mean jitter.
    unknowns = np.array([_solve_client(theirs) for theirs in by_client])
    s_per_byte, waits, total_s = unknowns.T
    seen, apart = ~np.isnan(total_s), ~np.isnan(s_per_byte)
    retransmissions, jitter, latency_s = scenario_link.retransmissions, fit_distribution(np.zeros(1)), np.zeros(clients)
    if seen.any():
        # Where only the total time is known, the latency is the median of the other clients', at most the total; the
        # rest of the time gives the bandwidth.
        usual = float(np.median(total_s[apart])) if apart.any() else math.inf
        for client in np.flatnonzero(seen & ~apart).tolist():
            size = next(one.sizes[-1] for one in by_client[client] if one.arrived)
            s_per_byte[client] = max(total_s[client] - usual, 0.0) / size
            total_s[client] = min(usual, total_s[client])
        s_per_byte[seen & (s_per_byte * max(one.sizes[0] for one in messages) < INSTANT_S)] = 0.0
        jitter, latency_s = _jitter(unknowns, by_client, seen)
        for column in (latency_s, s_per_byte):
            column[~seen] = float(np.median(column[seen]))
        lost = [len(one.sizes) - 1 for one in messages if not one.arrived]
        retransmissions = max(lost) if lost else max(retransmissions, *(len(one.sizes) - 1 for one in messages))
    else:
        s_per_byte[:] = 0.0
    loss, packets = fit_loss(messages, scenario_link.mtu_bytes)
    with np.errstate(divide="ignore"):
        bandwidth = 8.0 / s_per_byte
    limited = bandwidth[seen & np.isfinite(bandwidth)]
    return FittedLinks(
        latency_s=latency_s,
        bandwidth_bps=bandwidth,
        latency=fit_distribution(latency_s[seen] if seen.any() else np.zeros(1)),
        bandwidth=fit_distribution(limited) if len(limited) else None,
        jitter=jitter,
        loss=loss,
        packets=packets,
        retransmissions=retransmissions,
        timeout_s=scenario_link.retransmission_timeout_s if np.isnan(waits).all() else float(np.nanmedian(waits)),
        messages=sum(one.arrived for one in messages),
        separable=int(apart.sum()),
        unseen=tuple(np.flatnonzero(~seen).tolist()),
    )


def _solve_client(messages: Sequence[ObservedMessage]) -> tuple[float, float, float]:
    """Estimate seconds per byte (NaN: sizes are equal), wait (NaN: unknown), and latency including the mean jitter.

    All are NaN where no message arrived.
    """
    rows: list[tuple[float, float, float, float]] = []
    for one in messages:
        for size, begun, again in zip(one.sizes, one.began_s, one.began_s[1:], strict=False):
            rows.append((size * EXACT_WEIGHT, EXACT_WEIGHT, 0.0, (again - begun) * EXACT_WEIGHT))
        if one.arrived:
            rows.append((one.sizes[-1], 0.0, 1.0, one.arrived_s - one.began_s[-1]))
    if not any(one.arrived for one in messages):
        return np.nan, np.nan, np.nan
    matrix, times = np.split(np.array(rows), [3], axis=1)
    times = times[:, 0].copy()
    if not any(len(set(matrix[matrix[:, kind] > 0, 0])) > 1 for kind in (1, 2)):
        return np.nan, np.nan, float(np.mean(times[matrix[:, 2] > 0]))
    scale = matrix[:, 0].max()
    matrix[:, 0] /= scale
    used = [0, 1, 2] if matrix[:, 1].any() else [0, 2]
    of = dict(zip(used, optimize.nnls(matrix[:, used], times)[0], strict=True))
    return float(of[0] / scale), float(of.get(1, np.nan)), float(of[2])


def _jitter(
    unknowns: Floats, by_client: Sequence[Sequence[ObservedMessage]], seen: NDArray[np.bool_]
) -> tuple[FittedShape, Floats]:
    """Fit the extra delay of a message, >= 0 s, and return it with the latencies (clients,) without it.

    The sample is the excess of each message over the fastest message of its client. For an exponential delay, the
    excess has the law of the delay itself, and the delay of the fastest of n messages has 1/n of its mean.
    """
    over = [np.empty(0)]
    least, number = np.zeros(len(by_client)), np.ones(len(by_client))
    for client in np.flatnonzero(seen).tolist():
        arrived = [one for one in by_client[client] if one.arrived]
        rests = np.array([one.arrived_s - one.began_s[-1] - one.sizes[-1] * unknowns[client, 0] for one in arrived])
        least[client], number[client] = rests.min(), len(rests)
        over.append(np.sort(rests - rests.min())[1:])
    delays = np.concatenate(over)
    if not len(delays) or delays.max() < INSTANT_S:
        return fit_distribution(np.zeros(1)), unknowns[:, 2].copy()
    jitter = fit_distribution(np.maximum(delays, 0.0))
    mean = jitter.distribution.expected()
    mean = mean if np.isfinite(mean) else float(delays.mean())
    return jitter, np.maximum(least - mean / number, 0.0)


def fit_loss(messages: Sequence[ObservedMessage], mtu_bytes: int) -> tuple[Loss, int]:
    """Fit a model of packet loss to messages; no loss where no packet was resent and no message lost. Return it with
    the number of packets.

    mtu_bytes: largest size of a packet, by which messages are divided into packets.
    """
    first: Counter[tuple[int, int]] = Counter()  # (packets, lost of them) -> first transmissions
    sent = lost = 0
    last_transmissions: list[int] = []  # packets, of lost messages, of which at least one packet was lost
    for one in messages:
        whole = -(-one.sizes[0] // mtu_bytes)
        packets = [whole, *(size * whole // one.sizes[0] for size in one.sizes[1:])]
        missing = [*packets[1:], 0] if one.arrived else packets[1:]
        first.update(zip(packets[:1], missing[:1], strict=False))
        sent += sum(packets[: len(missing)])
        lost += sum(missing)
        if not one.arrived:
            last_transmissions.append(packets[-1])
    if lost == 0 and not last_transmissions:
        return NoLoss(), sent
    alone = IndependentLoss(probability=_independent(sent, lost, last_transmissions))
    seen = sent + sum(last_transmissions)
    if first.total() < FEWEST_MESSAGES or max(n for n, _ in first) > MOST_PACKETS or lost < FEWEST_MESSAGES:
        return alone, seen
    counts = np.array([(n, k, times) for (n, k), times in sorted(first.items())])
    bursts, likelihood = _bursts(counts)
    # The second parameter of bursts must be worth its cost.
    return (alone if _binomial(counts) >= likelihood - 1 else bursts), seen


def _independent(sent: int, lost: int, last_transmissions: Sequence[int]) -> float:
    """Estimate the probability that a packet is lost, if losses are independent, by maximum likelihood.

    Of each of the last transmissions at least one packet was lost; how many is unknown.
    """
    last = np.array(last_transmissions, dtype=np.float64)

    def against(logit: float) -> float:
        p = float(special.expit(logit))
        known = lost * np.log(p) + (sent - lost) * np.log1p(-p)
        return -float(known + np.log(-np.expm1(last * np.log1p(-p))).sum())

    if not len(last):
        return lost / sent
    found = optimize.minimize_scalar(against, bounds=(-20.0, 20.0), method="bounded", options={"xatol": 1e-9})
    return float(special.expit(found.x))


def _binomial(counts: NDArray[np.int64]) -> float:
    """Compute the log-likelihood under the likeliest independent loss of rows (packets, lost packets, times)."""
    n, k, times = counts.T.astype(np.float64)
    p = min(max(float((k * times).sum() / (n * times).sum()), 1e-12), 1 - 1e-12)
    ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return float((times * (ways + k * np.log(p) + (n - k) * np.log1p(-p))).sum())


def _bursts(counts: NDArray[np.int64]) -> tuple[GilbertElliottLoss, float]:
    """Fit a channel with bursts of losses to rows (packets, lost packets, times); return it and its log-likelihood."""

    def likelihood(at: NDArray[np.float64]) -> float:
        turns_bad, turns_good = special.expit(at)
        total = 0.0
        for n in np.unique(counts[:, 0]):
            law = lost_in_bursts(int(n), float(turns_bad), float(turns_good))
            chosen = counts[counts[:, 0] == n]
            total += float((chosen[:, 2] * np.log(np.maximum(law[chosen[:, 1]], 1e-300))).sum())
        return total

    share = float((counts[:, 1] * counts[:, 2]).sum() / (counts[:, 0] * counts[:, 2]).sum())
    burst = 2.0  # packets
    start = special.logit(np.clip([share / (1 - share) / burst, 1 / burst], 1e-6, 1 - 1e-6))
    found = optimize.minimize(lambda at: -likelihood(at), start, method="Nelder-Mead", options={"maxiter": 150})
    turns_bad, turns_good = np.clip(special.expit(found.x), 1e-9, 1.0)
    return GilbertElliottLoss(good_to_bad=float(turns_bad), bad_to_good=float(turns_good)), -float(found.fun)


def lost_in_bursts(packets: int, good_to_bad: float, bad_to_good: float) -> NDArray[np.float64]:
    """Compute the probability that 0, 1, ... of `packets` packets meet the bad state, (packets + 1,).

    The channel starts in its long-run distribution.
    """
    bad_share = good_to_bad / (good_to_bad + bad_to_good)
    good, bad = np.zeros(packets + 1), np.zeros(packets + 1)
    good[0], bad[0] = 1 - bad_share, bad_share
    for _ in range(packets):
        hit = np.concatenate([[0.0], bad[:-1]])
        good, bad = good * (1 - good_to_bad) + hit * bad_to_good, good * good_to_bad + hit * (1 - bad_to_good)
    return good + bad
