"""One message over one link: packets, lost packets, retransmission, and what the tap got of it.

A message of b bytes goes out in n = ceil(b / mtu_bytes) equal packets, back to back at the link's bandwidth. When the
last has left, the sender waits and sends again what was lost, at most `retransmissions` times. What is missing is told
by acknowledgements, which arrive and have no size: none can be there before a round trip has passed, the latencies of
both directions. So the sender waits for that, or for `retransmission_timeout_s` where that is longer. What is still
missing after the last time makes the message lost.

    sent at 0        resent at resent_at_s[0]    ...             complete after latency + jitter
    |== packets ==|.. wait ..|= lost ones =|.. wait ..|=|------> delivered
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from asyncfl.world.loss import Loss
from asyncfl.world.tap import held_probability


class Burst(NamedTuple):
    """Packets that leave back to back."""

    packets: int
    size_bytes: int
    pause_s: float
    """Seconds from its last packet to the next burst; after the last one to the end of the transfer."""
    overheard: bool
    """Whether the tap has the whole message with it, and had not before."""


class Transfer(NamedTuple):
    """What became of a message. `packets_sent = packets_received + packets_lost`, retransmissions included; of one that
    is cut off, both are those that there would have been."""

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
    overheard_s: float
    """When the tap had the whole message, in seconds from the start of the transfer; inf: it never had."""
    resent_at_s: tuple[float, ...]
    """When each retransmission began, in seconds from the start of the transfer; () without any."""
    resent_bytes: tuple[int, ...]
    """Bytes that each retransmission sent again."""
    payload_bytes: int
    """Bytes of the message."""
    packet_s: float
    """Seconds that a packet takes to leave."""

    def attempts_by(self, elapsed_s: float) -> int:
        """Times that the sender had begun to send, `elapsed_s` seconds after the start."""
        return 1 + sum(at_s < elapsed_s for at_s in self.resent_at_s)

    def sent_by(self, elapsed_s: float) -> int:
        """Bytes of the packets that had left, retransmissions included, `elapsed_s` seconds after the start."""
        sent = 0
        for at_s, packets in zip((0.0, *self.resent_at_s), self._packets, strict=True):
            if elapsed_s > at_s:
                # 1e-9: a packet that leaves at this very moment has left, whatever the rounding says.
                left = (elapsed_s - at_s) / self.packet_s + 1e-9 if self.packet_s > 0 else math.inf
                sent += min(packets, math.floor(left) if left < packets else packets)
        return self.bytes_of(sent)

    def bytes_of(self, packets: int) -> int:
        """Bytes of so many packets."""
        return -(-self.payload_bytes * packets // self.packets)

    @property
    def bursts(self) -> Iterator[Burst]:
        """The transmissions of the message, each from its first packet to its last."""
        begins_s = (0.0, *self.resent_at_s, self.duration_s)
        sizes, had = (self.payload_bytes, *self.resent_bytes), False
        for number, (packets, size) in enumerate(zip(self._packets, sizes, strict=True)):
            end_s = begins_s[number] + packets * self.packet_s
            overheard = not had and self.overheard_s <= end_s
            had = had or overheard
            yield Burst(packets, size, max(0.0, begins_s[number + 1] - end_s), overheard)

    @property
    def _packets(self) -> list[int]:
        """Packets of each transmission."""
        again = (size * self.packets // self.payload_bytes for size in self.resent_bytes)
        return [self.packets, *again]

    def cut(self, elapsed_s: float) -> Transfer:
        """What is left of it where the receiver or the sender gives it up `elapsed_s` seconds after the start."""
        begun = self.attempts_by(elapsed_s) - 1
        return self._replace(
            duration_s=elapsed_s,
            delivered=False,
            attempts=1 + begun,
            sent_bytes=self.sent_by(elapsed_s),
            overheard_s=self.overheard_s if self.overheard_s <= elapsed_s else math.inf,
            resent_at_s=self.resent_at_s[:begun],
            resent_bytes=self.resent_bytes[:begun],
        )

    @property
    def overheard(self) -> bool:
        """Whether the tap holds the whole message."""
        return self.overheard_s < math.inf


def send(
    payload_bytes: int,
    *,
    latency_s: float,
    bandwidth_bps: float,
    mtu_bytes: int,
    loss: Loss,
    retransmissions: int,
    retransmission_timeout_s: float,
    acknowledgement_s: float,
    tap_packet_loss: float | None,
    tap_coin: float,
    rng: np.random.Generator | None,
) -> Transfer:
    """Fate of a message of `payload_bytes` >= 1.

    `latency_s` includes this message's jitter; `acknowledgement_s` is the latency of an acknowledgement.
    `tap_packet_loss` is None on a link that is not tapped. `tap_coin`, in [0, 1), decides whether the tap holds the
    message. `rng` draws the losses; a lossless link needs none.
    """
    packets = -(-payload_bytes // mtu_bytes)
    packet_s = 8 * payload_bytes / (packets * bandwidth_bps)
    if rng is None or loss.lossless:
        sent_s = packets * packet_s
        overheard_s = _caught_s((packets,), (sent_s,), tap_packet_loss, tap_coin)
        return Transfer(
            sent_s + latency_s,
            True,
            1,
            packets,
            packets,
            0,
            payload_bytes,
            overheard_s,
            (),
            (),
            payload_bytes,
            packet_s,
        )

    wait_s = max(retransmission_timeout_s, latency_s + acknowledgement_s)
    idle_slots = wait_s / packet_s if packet_s > 0 else math.inf
    now_s = packets * packet_s
    sent, left_s = [packets], [now_s]
    resent_s: list[float] = []
    pending, channel = loss.step(loss.start(rng), packets, 0.0, rng)
    lost = pending
    while pending and len(sent) <= retransmissions:
        now_s += wait_s
        resent_s.append(now_s)
        sent.append(pending)
        now_s += pending * packet_s
        left_s.append(now_s)
        pending, channel = loss.step(channel, pending, idle_slots, rng)
        lost += pending

    packets_sent = sum(sent)
    return Transfer(
        duration_s=now_s + (wait_s if pending else latency_s),
        delivered=not pending,
        attempts=len(sent),
        packets=packets,
        packets_sent=packets_sent,
        packets_lost=lost,
        sent_bytes=-(-payload_bytes * packets_sent // packets),
        overheard_s=_caught_s(sent, left_s, tap_packet_loss, tap_coin),
        resent_at_s=tuple(resent_s),
        resent_bytes=tuple(-(-payload_bytes * again // packets) for again in sent[1:]),
        payload_bytes=payload_bytes,
        packet_s=packet_s,
    )


def _caught_s(sent: Sequence[int], sent_s: Sequence[float], tap_packet_loss: float | None, tap_coin: float) -> float:
    """When the tap had caught each packet, inf for never: with the last packet of the transmission that made it whole.

    `sent`: packets of each transmission, `sent_s`: when the last of them had left. One coin decides for all of them:
    the probability to hold the message only grows with each transmission.
    """
    if tap_packet_loss is None or tap_coin >= held_probability(sent, tap_packet_loss):
        return math.inf
    return next(
        end_s
        for number, end_s in enumerate(sent_s, 1)
        if number == len(sent) or tap_coin < held_probability(sent[:number], tap_packet_loss)
    )
