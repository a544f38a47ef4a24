"""Fit a model of packet loss to the retransmissions of one direction.

The packets of a retransmission are those lost in the transmission before. Independent losses are binomial. For losses
in bursts, a channel that is good or bad loses each packet in its bad state (Gilbert, BSTJ 39, 1960), and the law of the
number lost of n packets follows from the steps of the chain. Both models are fitted by maximum likelihood, and the
better one is chosen by Akaike's criterion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from asyncfl.world.loss import GilbertElliottLoss, IndependentLoss, Loss, NoLoss

if TYPE_CHECKING:
    from asyncfl.calibration.messages import ObservedMessage

MOST_PACKETS = 2000
"""Largest message, packets, for which bursts are fitted, since their likelihood takes a step per packet."""
FEWEST_MESSAGES = 30
"""Smallest number of messages, and of lost packets, for which bursts are fitted."""


@dataclass(frozen=True)
class FittedLoss:
    """Fitted model of packet loss."""

    loss: Loss
    packets: int
    """Number of packets sent."""
    lost: int
    """Number of packets known to be lost."""
    compared: dict[str, float]
    """Kind of loss -> Akaike's criterion on the first transmissions of messages; empty: only one model was fitted."""


def fit_loss(messages: Sequence[ObservedMessage], mtu_bytes: int) -> FittedLoss:
    """Fit a model of packet loss to messages; no loss where no packet was resent and no message lost.

    mtu_bytes: largest size of a packet, by which messages are divided into packets.
    """
    first: Counter[tuple[int, int]] = Counter()
    """(packets, lost of them) -> first transmissions."""
    sent = lost = 0
    last_transmissions: list[int] = []
    """Packets of the last transmissions of lost messages, of which at least one packet was lost."""
    for one in messages:
        whole = -(-one.sizes[0] // mtu_bytes)
        packets = [whole, *(size * whole // one.sizes[0] for size in one.sizes[1:])]
        delivered = not np.isnan(one.arrived_s)
        missing = [*packets[1:], 0] if delivered else packets[1:]
        for number, (went, gone) in enumerate(zip(packets, missing, strict=False)):
            sent, lost = sent + went, lost + gone
            if number == 0:
                first[went, gone] += 1
        if not delivered:
            last_transmissions.append(packets[-1])
    if lost == 0 and not last_transmissions:
        return FittedLoss(NoLoss(), sent, 0, {})
    p = _independent(sent, lost, last_transmissions)
    alone = IndependentLoss(probability=p)
    if sum(first.values()) < FEWEST_MESSAGES or max(n for n, _ in first) > MOST_PACKETS or lost < FEWEST_MESSAGES:
        return FittedLoss(alone, sent + sum(last_transmissions), lost, {})
    counts = np.array([(n, k, times) for (n, k), times in sorted(first.items())])
    bursts, likelihood = _bursts(counts)
    compared = {"independent": 2 - 2 * _binomial(counts), "gilbert_elliott": 4 - 2 * likelihood}
    best: Loss = alone if compared["independent"] <= compared["gilbert_elliott"] else bursts
    return FittedLoss(best, sent + sum(last_transmissions), lost, compared)


def _independent(sent: int, lost: int, last_transmissions: Sequence[int]) -> float:
    """Estimate the probability that a packet is lost, if losses are independent, by maximum likelihood.

    Args:
        sent: Number of packets sent, in transmissions whose lost packets are known.
        lost: Number of these packets that were lost.
        last_transmissions: Number of packets in the last transmission of each lost message. At least one of them was
            lost; how many is unknown.
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
    """Compute the log-likelihood of first transmissions under the likeliest independent loss.

    counts: (m, 3) packets of a transmission, lost packets, number of such transmissions.
    """
    n, k, times = counts.T.astype(np.float64)
    p = float((k * times).sum() / (n * times).sum())
    p = min(max(p, 1e-12), 1 - 1e-12)
    ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return float((times * (ways + k * np.log(p) + (n - k) * np.log1p(-p))).sum())


def _bursts(counts: NDArray[np.int64]) -> tuple[GilbertElliottLoss, float]:
    """Fit a channel with bursts of losses to first transmissions; return it and its log-likelihood.

    counts: (m, 3) packets of a transmission, lost packets, number of such transmissions.
    """

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
