"""Transfer of one message over one link: packets, losses, retransmissions, and what an eavesdropper hears.

A message of b bytes is sent as n = ceil(b / mtu_bytes) equal packets, back to back at the link's bandwidth. When the
last packet has left, the sender waits and then resends the lost packets, at most `retransmissions` times. It learns
which packets are lost from acknowledgements, which always arrive and have no size, but need a round trip: the latencies
of both directions. So the sender waits for a round trip, or for `retransmission_timeout_s` where that is longer. The
message is lost where packets are still missing after the last retransmission.

    sent at 0        resent at resent_at_s[0]    ...             complete after latency + jitter
    |== packets ==|.. wait ..|= lost ones =|.. wait ..|=|------> delivered
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple


class Burst(NamedTuple):
    """One transmission of a message: its packets, or those that were lost before, sent back to back."""

    packets: int  # number of packets
    size_bytes: int  # bytes of these packets
    pause_s: float  # seconds from its last packet to the next burst; for the last burst, to the end of the transfer
    caught: bool  # whether the eavesdropper has a part of the message from the first packet of this transmission on
    overheard: bool  # whether the eavesdropper has the whole message from the last packet of this transmission on


class Transfer(NamedTuple):
    """Outcome of sending a message.

    `packets_sent = packets received + packets_lost`, including retransmissions. For a message that was cut off, both
    numbers are those of the complete transfer.
    """

    duration_s: float  # seconds until the receiver has the whole message; for a lost message, until the sender gives up
    delivered: bool  # whether the receiver has every packet
    attempts: int  # transmissions of the message (1: no retransmission)
    packets: int  # packets of the message
    packets_sent: int  # packets sent, including retransmissions
    packets_lost: int  # packets sent that did not arrive
    sent_bytes: int  # bytes sent, including retransmissions
    overheard_s: float
    """Time at which the eavesdropper has the whole message, seconds from the start of the transfer; inf: never."""
    resent_at_s: tuple[float, ...]
    """Start of each retransmission, seconds from the start of the transfer; () without retransmissions."""
    resent_bytes: tuple[int, ...]  # bytes of each retransmission
    payload_bytes: int  # bytes of the message
    packet_s: float  # seconds to send a packet
    caught_s: float = math.inf
    """Time at which the eavesdropper has a part of the message, seconds from the start of the transfer; inf: never."""
    to_tap_s: float = 0.0  # seconds from the departure of a packet until the eavesdropper hears it

    def attempts_by(self, elapsed_s: float) -> int:
        """Return the number of transmissions that have started `elapsed_s` seconds after the start."""
        return 1 + sum(at_s < elapsed_s for at_s in self.resent_at_s)

    def sent_by(self, elapsed_s: float) -> int:
        """Return the bytes that have left `elapsed_s` seconds after the start: whole packets, with retransmissions."""
        sent = 0
        for at_s, packets in zip((0.0, *self.resent_at_s), self._packets, strict=True):
            if elapsed_s > at_s:
                # 1e-9: a packet that leaves at exactly this time has left, in spite of rounding.
                left = (elapsed_s - at_s) / self.packet_s + 1e-9 if self.packet_s > 0 else math.inf
                sent += min(packets, math.floor(left) if left < packets else packets)
        return self.bytes_of(sent)

    def bytes_of(self, packets: int) -> int:
        """Return the number of bytes in `packets` packets, rounded up."""
        return -(-self.payload_bytes * packets // self.packets)

    @property
    def bursts(self) -> Iterator[Burst]:
        """First transmission and each retransmission of the message, in order."""
        begins_s = (0.0, *self.resent_at_s, self.duration_s)
        sizes, had_part, had = (self.payload_bytes, *self.resent_bytes), False, False
        for number, (packets, size) in enumerate(zip(self._packets, sizes, strict=True)):
            end_s = begins_s[number] + packets * self.packet_s
            caught = not had_part and self.caught_s <= begins_s[number] + self.packet_s + self.to_tap_s
            overheard = not had and self.overheard_s <= end_s + self.to_tap_s
            had_part, had = had_part or caught, had or overheard
            yield Burst(packets, size, max(0.0, begins_s[number + 1] - end_s), caught, overheard)

    @property
    def _packets(self) -> list[int]:
        """Number of packets of each transmission."""
        return [self.packets, *(size * self.packets // self.payload_bytes for size in self.resent_bytes)]

    def cut(self, elapsed_s: float) -> Transfer:
        """Return the incomplete transfer if sender or receiver abandons it `elapsed_s` seconds after the start."""
        begun = self.attempts_by(elapsed_s) - 1
        return self._replace(
            duration_s=elapsed_s,
            delivered=False,
            attempts=1 + begun,
            sent_bytes=self.sent_by(elapsed_s),
            overheard_s=self.overheard_s if self.overheard_s <= elapsed_s else math.inf,
            caught_s=self.caught_s if self.caught_s <= elapsed_s else math.inf,
            resent_at_s=self.resent_at_s[:begun],
            resent_bytes=self.resent_bytes[:begun],
        )

    @property
    def overheard(self) -> bool:
        """Whether the eavesdropper has the whole message in the end."""
        return self.overheard_s < math.inf
