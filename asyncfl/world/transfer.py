"""One message over one link: packets, lost packets, retransmission, and what the tap got of it.

A message of b bytes goes out in n = ceil(b / mtu_bytes) equal packets, back to back at the link's bandwidth. When the
last has left, the sender waits for `retransmission_timeout_s` and sends again what was lost, at most `retransmissions`
times; acknowledgements are free and arrive. What is still missing then makes the message lost.

    sent at 0        resent at waits_s[0]    ...             complete after latency + jitter
    |== packets ==|.. timeout ..|= lost ones =|.. timeout ..|=|------> delivered
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from asyncfl.world.loss import Loss
from asyncfl.world.tap import held_probability


class Transfer(NamedTuple):
    """What became of a message. `packets_sent = packets_received + packets_lost`, retransmissions included."""

    duration_s: float
    """Seconds until the receiver has all of it, or, when it is lost, until the sender gives up."""
    delivered: bool
    """Whether the receiver got every packet."""
    attempts: int
    """Times that the sender sent (1: no retransmission)."""
    packets: int
    """Packets of the message."""
    packets_sent: int
    """Transmissions of packets, retransmissions included."""
    packets_lost: int
    """Transmissions that did not arrive."""
    sent_bytes: int
    """Bytes sent, retransmissions included."""
    overheard: bool
    """Whether the tap holds the whole message."""
    waits_s: tuple[float, ...]
    """When each retransmission began, in seconds from the start of the transfer; () without any."""


def send(
    payload_bytes: int,
    *,
    latency_s: float,
    bandwidth_bps: float,
    mtu_bytes: int,
    loss: Loss,
    retransmissions: int,
    retransmission_timeout_s: float,
    tap_packet_loss: float | None,
    tap_coin: float,
    rng: np.random.Generator | None,
) -> Transfer:
    """Fate of a message of `payload_bytes` >= 1.

    `latency_s` holds this message's jitter. `tap_packet_loss` is None on a link that nobody taps; `tap_coin`, in
    [0, 1), decides whether the tap holds the message. `rng` draws the losses; a lossless link needs none.
    """
    packets = -(-payload_bytes // mtu_bytes)
    packet_s = 8 * payload_bytes / (packets * bandwidth_bps)
    if rng is None or loss.lossless:
        held = tap_packet_loss is not None and tap_coin < held_probability((packets,), tap_packet_loss)
        duration_s = packets * packet_s + latency_s
        return Transfer(duration_s, True, 1, packets, packets, 0, payload_bytes, held, ())

    idle_slots = retransmission_timeout_s / packet_s if packet_s > 0 else math.inf
    now_s = packets * packet_s
    sent = [packets]
    resent_at_s: list[float] = []
    pending, channel = loss.step(loss.start(rng), packets, 0.0, rng)
    lost = pending
    while pending and len(sent) <= retransmissions:
        now_s += retransmission_timeout_s
        resent_at_s.append(now_s)
        sent.append(pending)
        now_s += pending * packet_s
        pending, channel = loss.step(channel, pending, idle_slots, rng)
        lost += pending

    packets_sent = sum(sent)
    return Transfer(
        duration_s=now_s + (retransmission_timeout_s if pending else latency_s),
        delivered=not pending,
        attempts=len(sent),
        packets=packets,
        packets_sent=packets_sent,
        packets_lost=lost,
        sent_bytes=-(-payload_bytes * packets_sent // packets),
        overheard=tap_packet_loss is not None and tap_coin < held_probability(sent, tap_packet_loss),
        waits_s=tuple(resent_at_s),
    )
