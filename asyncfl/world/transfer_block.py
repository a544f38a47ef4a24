"""Transfers of one message each for many clients, drawn at once: those of `LinkState.send`, bit for bit.

Only for links without jitter, whose packets are lost independently or never: each transmission of a message then takes
one random number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.world.links import NO_LATENCY, LinkState
from asyncfl.world.loss import IndependentLoss
from asyncfl.world.tap import Tap
from asyncfl.world.transfer import Transfer

MOST_LOST = 30.0
"""Mean number of lost packets up to which NumPy draws a binomial number by inversion, from one uniform number."""


def has_blocks(links: LinkState, payload_bytes: int) -> bool:
    """Whether transfers of `payload_bytes` over `links` can be drawn at once."""
    link = links.link
    if links.packet_loss is not None or link.jitter_s != NO_LATENCY:
        return False
    packets, probability = -(-payload_bytes // link.mtu_bytes), link.loss.mean_loss()
    few = probability <= 0.5 and packets * probability <= MOST_LOST
    return link.loss.lossless or (isinstance(link.loss, IndependentLoss) and few)


def transfers(
    links: LinkState,
    clients: Ints,
    payload_bytes: int,
    tap: Tap | None,
    uniform: Callable[[int], Floats],
    acknowledgement_s: Floats,
) -> list[Transfer | None]:
    """Return the transfer of a message to or from each of `clients` (n,); None where NumPy would draw a number again.

    `uniform`: index -> (n,) the random numbers with that index of the messages' streams. `acknowledgement_s`: (n,).
    Otherwise as `LinkState.send`.
    """
    link, latency_s = links.link, links.latency_s[clients]
    packets = -(-payload_bytes // link.mtu_bytes)
    packet_s = 8 * payload_bytes / (packets * links.bandwidth_bps[clients])
    sent_s = packets * packet_s
    wait_s = np.maximum(link.retransmission_timeout_s, latency_s + acknowledgement_s)
    sent, begins_s = [np.full(len(clients), packets)], [np.zeros(len(clients))]
    pending, again = np.zeros_like(sent[0]), np.zeros(len(clients), dtype=np.bool_)
    if not link.loss.lossless:
        pending = _lost(sent[0], link.loss.mean_loss(), uniform(1), again)
    lost = pending.copy()
    while len(sent) <= link.retransmissions and pending.any():
        begins_s.append(sent_s + wait_s)
        sent_s = np.where(pending > 0, begins_s[-1] + pending * packet_s, sent_s)
        sent.append(pending)
        pending = _lost(pending, link.loss.mean_loss(), uniform(len(sent)), again)
        lost += pending
    way_s, coin = np.zeros(len(clients)), np.zeros(len(clients))
    if tap is not None:
        way_s = tap.passed * latency_s
        if links.needs_draws or tap.packet_loss > 0:
            coin = uniform(0)
    packets_sent = np.sum(sent, axis=0)
    sizes = [(-(-payload_bytes * one // packets)).tolist() for one in (packets_sent, *sent[1:])]
    columns = (
        (sent_s + np.where(pending > 0, wait_s, latency_s)).tolist(),
        np.count_nonzero(sent, axis=0).tolist(),
        packets_sent.tolist(),
        lost.tolist(),
        *(one.tolist() for one in (pending, packet_s, way_s, coin)),
        *(
            zip(*several, strict=True)
            for several in (sizes, [o.tolist() for o in sent], [o.tolist() for o in begins_s])
        ),
    )
    found: list[Transfer | None] = []
    for length_s, attempts, all_sent, all_lost, missing, each_s, to_tap_s, miss, size, of, at_s in zip(
        *columns, strict=True
    ):
        whole_s = part_s = math.inf
        if tap is not None:
            whole_s, part_s = tap.heard_s(of[:attempts], missing, at_s[:attempts], each_s, to_tap_s, miss)
        head = (length_s, not missing, attempts, packets, all_sent, all_lost, size[0], whole_s)
        resent = at_s[1:attempts], size[1:attempts]
        found.append(Transfer(*head, *resent, payload_bytes, each_s, part_s, to_tap_s))
    for row in np.flatnonzero(again).tolist():
        found[row] = None
    return found


def _lost(packets: Ints, probability: float, uniform: Floats, again: Bools) -> Ints:
    """Return (n,) lost packets of `packets` (n,), binomial by inversion as NumPy draws them, each from one of `uniform`
    (n,). Sets `again` (n,) where NumPy would draw another number."""
    numbers, at = np.unique(packets, return_inverse=True)
    kept = 1.0 - probability
    # By the C library, as NumPy's generator does: logarithms and powers of arrays may differ in the last bit.
    chance = np.array([math.exp(number * math.log1p(-probability)) for number in numbers.tolist()])[at]
    mean = packets * probability
    bound = np.minimum(packets, mean + 10.0 * np.sqrt(mean * kept + 1)).astype(np.int64)
    found, left = np.zeros_like(packets), uniform.copy()
    rows = np.flatnonzero((left > chance) & (packets > 0))
    while len(rows):
        found[rows] += 1
        beyond = found[rows] > bound[rows]
        again[rows[beyond]] = True
        rows = rows[~beyond]
        left[rows] -= chance[rows]
        chance[rows] = ((packets[rows] - found[rows] + 1) * probability * chance[rows]) / (found[rows] * kept)
        rows = rows[left[rows] > chance[rows]]
    return found
