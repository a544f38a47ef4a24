"""The eavesdropper on the links.

It listens near the sender: it hears what is sent, whether or not it arrives, and misses each transmission of a packet
with a probability of its own. It holds a message when it caught each of its packets in at least one transmission;
a message that the receiver never completed can be held as well as any other.
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
    """What is overheard, and how well; nothing by default."""

    uplink: bool = False
    """Whether updates on their way to the server are tapped."""
    downlink: bool = False
    """Whether models on their way to the clients are tapped."""
    scoring: bool = False
    """Whether models sent for scoring, and the scores sent back, are tapped; the models are the buffer's updates."""
    packet_loss: Annotated[float, Field(ge=0, le=1), MeasuredIn("probability")] = 0.0
    """Probability that the tap misses a transmission of a packet, 0..1, apart from the link's own loss."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.packet_loss > 0 and not (self.uplink or self.downlink or self.scoring):
            raise PydanticCustomError(
                "tap", "packet_loss has no effect without a tapped link; set uplink, downlink or scoring"
            )
        return self


def held_probability(packets_per_attempt: Sequence[int], packet_loss: float) -> float:
    """Probability that each packet is caught at least once, 0..1, given how often each was sent.

    `packets_per_attempt`: packets sent in the first attempt, the second, ...; never increasing, since only packets that
    were lost are sent again. So n_k - n_(k+1) packets were sent exactly k times, and one of them escapes with
    probability packet_loss^k. The tap errs independently of the link, which makes this exact for any kind of loss.
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
