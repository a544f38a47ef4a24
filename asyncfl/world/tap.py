"""The tap: an eavesdropper on the links.

The tap listens near the sender. It hears packets whether or not they arrive, and misses each transmission of a packet
with its own probability, independently. It holds a message once it has caught each packet in at least one transmission.
So it can also hold a message that the receiver never completed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from asyncfl.component import Described
from asyncfl.quantities import MeasuredIn


class Tap(Described):
    """Tapped links, and how well the tap hears. By default no link is tapped."""

    uplink: bool = False
    """Whether uploads of updates are tapped."""
    downlink: bool = False
    """Whether downloads of models are tapped."""
    scoring: bool = False
    """Whether scoring messages are tapped: models of the buffer sent to a client, and its scores."""
    packet_loss: Annotated[float, Field(ge=0, le=1), MeasuredIn("probability")] = 0.0
    """Probability that the tap misses a transmission of a packet, 0..1, independent of the link's packet loss."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.packet_loss > 0 and not (self.uplink or self.downlink or self.scoring):
            raise PydanticCustomError(
                "tap", "packet_loss has no effect without a tapped link; set uplink, downlink or scoring"
            )
        return self


def held_probability(packets_per_attempt: Sequence[int], packet_loss: float) -> float:
    """Compute the probability that the tap catches each packet of a message at least once, 0..1.

    `packets_per_attempt`: packets n_1 >= n_2 >= ... sent in each attempt; only lost packets are sent again. So
    n_k - n_(k+1) packets were sent exactly k times, and the tap misses such a packet with probability packet_loss^k:

        P = product over k of (1 - packet_loss^k)^(n_k - n_(k+1))

    This is exact for any model of packet loss, because the tap misses packets independently of the link.
    """
    if packet_loss == 0:
        return 1.0
    if packet_loss == 1:
        return 0.0
    log_held = 0.0
    for k, sent in enumerate(packets_per_attempt, start=1):
        again = packets_per_attempt[k] if k < len(packets_per_attempt) else 0
        log_held += (sent - again) * math.log1p(-(packet_loss**k))
    return math.exp(log_held)
