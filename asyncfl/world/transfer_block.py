"""Transfers of one message each for many clients, drawn at once: those of `LinkState.send`, bit for bit.

Only for links without jitter, whose packets are lost independently or never: each transmission of a message then takes
one random number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Ints
from asyncfl.world.links import NO_LATENCY, LinkState
from asyncfl.world.loss import IndependentLoss
from asyncfl.world.tap import Tap

MOST_LOST = 30.0
"""Mean number of lost packets up to which NumPy draws a binomial number by inversion, from one uniform number."""


class TransferColumns(NamedTuple):
    """Transfers of n messages of one size, in columns. See the fields of `Transfer` of the same names."""

    payload_bytes: int
    is_drawn: Bools
    """(n,) whether the other columns hold the transfer; False where NumPy would draw a number again."""
    duration_s: Floats
    """(n,) seconds."""
    delivered: Bools
    """(n,)"""
    attempts: Ints
    """(n,)"""
    sent_bytes: Ints
    """(n,)"""
    overheard_s: Floats
    """(n,) seconds; inf: never."""
    caught_s: Floats
    """(n,) seconds; inf: never."""
    resent_at_s: tuple[Floats, ...]
    """(n,) start of each retransmission, seconds; meaningless beyond the `attempts`."""
    resent_bytes: tuple[Ints, ...]
    """(n,) bytes of each retransmission; 0 where there is none."""


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
) -> TransferColumns:
    """Return the transfer of a message to or from each of `clients` (n,).

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
    while len(sent) <= link.retransmissions and pending.any():
        begins_s.append(sent_s + wait_s)
        sent_s = np.where(pending > 0, begins_s[-1] + pending * packet_s, sent_s)
        sent.append(pending)
        pending = _lost(pending, link.loss.mean_loss(), uniform(len(sent)), again)
    attempts = np.count_nonzero(sent, axis=0)
    overheard_s = caught_s = np.full(len(clients), math.inf)
    if tap is not None:
        way_s, coin = tap.passed * latency_s, None
        if links.needs_draws or tap.packet_loss > 0:
            coin = uniform(0)
        overheard_s, caught_s = _heard_s(tap, sent, pending, attempts, begins_s, packet_s, way_s, coin)
    return TransferColumns(
        payload_bytes,
        ~again,
        sent_s + np.where(pending > 0, wait_s, latency_s),
        pending == 0,
        attempts,
        -(-payload_bytes * np.sum(sent, axis=0) // packets),
        overheard_s,
        caught_s,
        tuple(begins_s[1:]),
        tuple([-(-payload_bytes * one // packets) for one in sent[1:]]),
    )


def _heard_s(
    tap: Tap,
    sent: list[Ints],
    pending: Ints,
    attempts: Ints,
    begins_s: list[Floats],
    packet_s: Floats,
    way_s: Floats,
    coin: Floats | None,
) -> tuple[Floats, Floats]:
    """Return (n,) when the tap has each whole message, and when any part of it, see `Tap.heard_s`."""
    if tap.hears_all:
        return begins_s[0] + sent[0] * packet_s + way_s, begins_s[0] + packet_s + way_s
    coins = np.zeros(len(pending)) if coin is None else coin
    columns = zip(
        zip(*[one.tolist() for one in sent], strict=True),
        zip(*[one.tolist() for one in begins_s], strict=True),
        *(one.tolist() for one in (attempts, pending, packet_s, way_s, coins)),
        strict=True,
    )
    heard = [
        tap.heard_s(packets[:number], missing, at_s[:number], each_s, to_tap_s, miss)
        for packets, at_s, number, missing, each_s, to_tap_s, miss in columns
    ]
    whole_s, part_s = np.array(heard).T
    return whole_s, part_s


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
