"""Links between the clients and the server, one description for each direction.

Latency and bandwidth are drawn once per client, jitter once per message. A profile gives each client one measured link:
latency, bandwidth and, if the file has that column, packet loss of the same row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from asyncfl.base.arrays import Floats
from asyncfl.base.component import Described
from asyncfl.base.errors import DataError
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.world.distributions import Amount, ClientAmount, ClientRate, Fixed
from asyncfl.world.loss import AnyLoss, IndependentLoss, Loss, NoLoss
from asyncfl.world.profiles import MeasuredColumn, RowOrder, read_profile, rows_of
from asyncfl.world.tap import Tap
from asyncfl.world.transfer import Transfer

NO_LATENCY = Fixed(value=0.0)
UNLIMITED = Fixed(value=math.inf)


class Link(Described):
    """One direction between each client and the server. By default instant and lossless."""

    latency_s: Annotated[ClientAmount, Field(examples=[0.05])] = NO_LATENCY
    """One-way delay of a client's link, seconds: a number, a list with one value per client, or a distribution drawn
    once per client."""
    bandwidth_bps: Annotated[ClientRate, Field(examples=[10e6])] = UNLIMITED
    """Bits per second of a client's link, > 0, inf for no limit: a number, a list with one value per client, or a
    distribution drawn once per client."""
    jitter_s: Annotated[Amount, Field(examples=[0.02])] = NO_LATENCY
    """Extra delay of each message, seconds: a number, or a distribution drawn per message."""
    loss: AnyLoss = NoLoss()
    """Model of packet loss."""
    mtu_bytes: Annotated[int, Field(ge=1)] = 1500
    """Size of the largest packet, bytes."""
    retransmissions: Annotated[int, Field(ge=0, le=1000), MeasuredIn("times")] = 3
    """Times that the sender resends lost packets, 0..1000. A message that is still incomplete then is lost."""
    retransmission_timeout_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Seconds from the last packet sent until lost packets are resent, and until the sender gives up. The sender waits
    for a round trip at least, since no acknowledgement arrives sooner. 0: exactly a round trip."""
    server_bandwidth_bps: Annotated[float, Field(gt=0)] = math.inf
    """Bits per second of the server's side of all these links together, > 0, inf for no limit. Messages in transit
    share it max-min fairly: each of n gets 1/n, and what clients with slower links leave is shared by the others."""
    profile: str | None = None
    """CSV file of measured links with columns latency_s, bandwidth_bps and, if loss is measured, packet_loss (0..1)."""
    profile_rows: RowOrder = "drawn"
    """Assignment of rows to clients: `drawn` at random with replacement (the same draw for both directions), or
    `in_order`."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.profile is not None and (self.latency_s, self.bandwidth_bps) != (NO_LATENCY, UNLIMITED):
            raise PydanticCustomError(
                "link", "profile gives latency_s and bandwidth_bps: leave those out, or the profile"
            )
        return self

    @property
    def is_shared(self) -> bool:
        """Whether messages of different clients slow each other down."""
        return self.server_bandwidth_bps < math.inf

    def start(self, clients: int, streams: Streams, direction: int) -> LinkState:
        """Draw and return the links of `clients` clients.

        `direction`: 0 for downlinks, 1 for uplinks. Each direction draws from random streams of its own. Raises
        DataError for a damaged profile, and for one with a column packet_loss beside a `loss` that is not none.
        """
        if self.profile is None:
            latency_s = self.latency_s.draw(streams.generator("link", number=1 + 2 * direction), clients)
            bandwidth_bps = self.bandwidth_bps.draw(streams.generator("link", number=2 + 2 * direction), clients)
            return LinkState(self, latency_s, bandwidth_bps, None)
        columns = (
            MeasuredColumn("latency_s"),
            MeasuredColumn("bandwidth_bps", positive=True),
            MeasuredColumn("packet_loss", at_most=1.0, required=False),
        )
        table = read_profile(self.profile, columns, f"world.{('downlink', 'uplink')[direction]}.profile")
        if "packet_loss" in table and not self.loss.lossless:
            message = "has a column packet_loss, but the link has a loss of its own; set loss to none"
            raise DataError(message, self.profile)
        rows = rows_of(clients, len(table["latency_s"]), self.profile_rows, streams.generator("link", number=0))
        packet_loss = table["packet_loss"][rows] if "packet_loss" in table else None
        return LinkState(self, table["latency_s"][rows], table["bandwidth_bps"][rows], packet_loss)


@dataclass(frozen=True)
class LinkState:
    """Drawn links of one direction, one row per client."""

    link: Link
    latency_s: Floats  # (clients,) seconds
    bandwidth_bps: Floats  # (clients,) bits per second
    packet_loss: Floats | None  # (clients,) probability of packet loss from a profile. None: `link.loss` applies

    def loss_of(self, client: int) -> Loss:
        """Return the loss model of the client's link."""
        if self.packet_loss is None:
            return self.link.loss
        return IndependentLoss(probability=float(self.packet_loss[client]))

    @cached_property
    def needs_draws(self) -> bool:
        """Whether a message needs random numbers, apart from those of the eavesdropper."""
        link = self.link
        return self.packet_loss is not None or not link.loss.lossless or link.jitter_s != NO_LATENCY

    def send(
        self,
        client: int,
        payload_bytes: int,
        tap: Tap | None,
        rng: np.random.Generator | None,
        acknowledgement_s: float = 0.0,
    ) -> Transfer:
        """Draw and return the transfer of a message of `payload_bytes` >= 1 bytes over the client's link.

        `tap`: None if the link is not tapped. `acknowledgement_s`: latency of the other direction, for
        acknowledgements. `rng` may be None if `needs_draws` is False and the eavesdropper misses nothing or does not
        listen. The eavesdropper's random number is drawn first, then the jitter, then the losses.
        """
        link, latency_s, coin = self.link, self.latency_s.item(client), 0.0
        loss = link.loss if self.packet_loss is None else self.loss_of(client)
        if rng is not None:
            coin = rng.random()
            latency_s += link.jitter_s.draw_one(rng)
        packets = -(-payload_bytes // link.mtu_bytes)
        packet_s = 8 * payload_bytes / (packets * self.bandwidth_bps.item(client))
        way_s = 0.0 if tap is None else tap.passed * latency_s
        whole_s = part_s = math.inf
        sent_s = packets * packet_s
        if rng is None or loss.lossless:
            if tap is not None:
                whole_s, part_s = tap.heard_s((packets,), 0, (0.0,), packet_s, way_s, coin)
            head = (sent_s + latency_s, True, 1, packets, packets, 0, payload_bytes)
            return Transfer(*head, whole_s, (), (), payload_bytes, packet_s, part_s, way_s)

        wait_s = max(link.retransmission_timeout_s, latency_s + acknowledgement_s)
        idle_slots = wait_s / packet_s if packet_s > 0 else math.inf
        sent, begins_s = [packets], [0.0]
        pending, channel = loss.step(loss.start(rng), packets, 0.0, rng)
        lost = pending
        while pending and len(sent) <= link.retransmissions:
            begins_s.append(sent_s + wait_s)
            sent.append(pending)
            sent_s = begins_s[-1] + pending * packet_s
            pending, channel = loss.step(channel, pending, idle_slots, rng)
            lost += pending
        if tap is not None:
            whole_s, part_s = tap.heard_s(sent, pending, begins_s, packet_s, way_s, coin)
        packets_sent = sum(sent)
        return Transfer(
            sent_s + (wait_s if pending else latency_s),
            not pending,
            len(sent),
            packets,
            packets_sent,
            lost,
            -(-payload_bytes * packets_sent // packets),
            whole_s,
            tuple(begins_s[1:]),
            tuple([-(-payload_bytes * again // packets) for again in sent[1:]]),
            payload_bytes,
            packet_s,
            part_s,
            way_s,
        )
