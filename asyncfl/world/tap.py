"""The tap: an eavesdropper on the links.

The tap sits at one place of each tapped link: at the sender, half way, or at the receiver. It hears the transmissions
that get as far as that place, and misses each of them with its own probability, independently. It holds a message once
it has caught each packet in at least one transmission; once it has caught any packet, it holds the message in part.

NbAFL assumes that fewer than all T uploads are overheard since links lose packets. That holds for a tap half way or at
the receiver. A tap at the sender may also hold messages that the receiver never completed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn

_PASSED = {"sender": 0.0, "link": 0.5, "receiver": 1.0}


class Tap(Described):
    """Tapped links, and how well the tap hears. By default no link is tapped."""

    uplink: bool = False
    """Whether uploads of updates are tapped."""
    downlink: bool = False
    """Whether downloads of models are tapped."""
    scoring: bool = False
    """Whether scoring messages are tapped: models of the buffer sent to a client, and its scores."""
    at: Literal["sender", "link", "receiver"] = "sender"
    """Place of the tap: `sender`, which hears packets that the link loses later | `link`, half way: a lost packet was
    lost before the tap or after it with probability 1/2 each (ours) | `receiver`, which hears only packets that arrive,
    and holds a whole message only if the receiver has it. NbAFL does not say where; its L falls with the link's loss
    for the latter two."""
    packet_loss: Annotated[float, Field(ge=0, le=1), MeasuredIn("probability")] = 0.0
    """Probability that the tap misses a transmission of a packet that passes it, 0..1, independent of the link's packet
    loss."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.packet_loss > 0 and not (self.uplink or self.downlink or self.scoring):
            raise PydanticCustomError(
                "tap", "packet_loss has no effect without a tapped link; set uplink, downlink or scoring"
            )
        return self

    @property
    def passed(self) -> float:
        """Share of the link, in latency and in losses, between the sender and the tap, 0..1."""
        return _PASSED[self.at]

    @property
    def hears_all(self) -> bool:
        """Whether the tap hears whatever is sent."""
        return not self._misses_lost

    @property
    def _misses_lost(self) -> float:
        """Probability that the tap misses a transmission that the link loses: q + x (1 - q)."""
        return self.packet_loss + self.passed * (1 - self.packet_loss)

    def held_probability(self, sent: Sequence[int], pending: int) -> float:
        """Compute the probability that the tap has caught each packet of a message at least once, 0..1.

        `sent`: packets n_1 >= n_2 >= ... n_K of each transmission, as only lost packets are sent again; `pending`:
        packets n_(K+1) that the last of these transmissions lost too. With q = packet_loss and x = `passed`, the tap
        misses a lost transmission with probability q' = q + x (1 - q). n_k - n_(k+1) packets arrived in the k-th
        transmission after k - 1 losses:

            P = (1 - q'^K)^n_(K+1) * product over k of (1 - q'^(k-1) q)^(n_k - n_(k+1))

        This is exact for any model of packet loss, because the tap misses packets independently of the link.
        """
        missed, missed_lost = self.packet_loss, self._misses_lost
        if missed == 1 or (pending and missed_lost == 1):
            return 0.0
        log_held = pending * math.log1p(-(missed_lost ** len(sent))) if pending else 0.0
        for k, (number, lost) in enumerate(zip(sent, [*sent[1:], pending], strict=True)):
            log_held += (number - lost) * math.log1p(-missed * missed_lost**k)
        return math.exp(log_held)

    def caught_probability(self, sent: Sequence[int], pending: int) -> float:
        """Compute the probability that the tap has caught any packet, 0..1; arguments as for `held_probability`.

        The tap has missed each of the a packets that arrived and of the b transmissions that were lost: 1 - q^a q'^b.
        """
        arrived = sent[0] - pending
        return 1 - self.packet_loss**arrived * self._misses_lost ** (sum(sent) - arrived)

    def heard_s(
        self, sent: Sequence[int], pending: int, begins_s: Sequence[float], packet_s: float, way_s: float, coin: float
    ) -> tuple[float, float]:
        """Compute when the tap has the whole message, and when any part of it, seconds from its start; inf: never.

        `sent`, `begins_s`: packets and start of each transmission; `pending`: packets that the last one lost. `way_s`:
        seconds from the departure of a packet until the tap hears it. Both probabilities grow with each transmission,
        so one random number `coin` (0..1) decides both: the tap has the whole message with the last packet of the first
        transmission after which the probability to hold it exceeds `coin`, and a part with the first packet of a
        transmission, likewise. A message that breaks off within a transmission is so counted as caught in part even if
        the first packet caught came later in that transmission.
        """
        if self.hears_all:
            return begins_s[0] + sent[0] * packet_s + way_s, begins_s[0] + packet_s + way_s
        part_s = math.inf
        for number, begin_s in enumerate(begins_s, 1):
            lost = sent[number] if number < len(sent) else pending
            if part_s == math.inf and coin < self.caught_probability(sent[:number], lost):
                part_s = begin_s + packet_s + way_s
            if coin < self.held_probability(sent[:number], lost):
                return begin_s + sent[number - 1] * packet_s + way_s, part_s
        return math.inf, part_s
