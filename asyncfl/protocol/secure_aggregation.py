"""Secure aggregation in the buffer: the server learns the weighted sum of a buffer's updates, and no single update.

Updates are quantised to integers, masked in a finite field and added there (`asyncfl.secure_aggregation`). Weights by
samples and staleness are integers of the field too. The clock counts the messages of the source's rounds:

    kind          before the task               update      to unmask                  serves
    pairwise      keys, then shares, of all     d numbers   shares of t senders        a cohort
    lightsecagg   shares of the task's mask     d numbers   sums of U clients' shares  a cohort or a buffer

The masks of `pairwise` cancel among those that agreed on keys together: its cohort must be known. Those of
`lightsecagg` are recovered by a linear code, so that a buffer may mix versions, and weights may follow when it is full.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.answers import require
from asyncfl.base.component import Component, choice
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.protocol.dispatch import Count, Share
from asyncfl.secure_aggregation import (
    ELEMENT_BYTES,
    KEY_BYTES,
    LARGEST,
    SHARE_BYTES,
    MaskedSum,
    Quantiser,
    lightsecagg_sum,
    pairwise_sum,
    part_length,
)
from asyncfl.secure_aggregation.field import Elements
from asyncfl.secure_aggregation.masked_sum import Generators


class RoundTrip(NamedTuple):
    """Bytes of the two messages of one round of a client."""

    up_bytes: int  # 0: no message
    down_bytes: int


class SecureAggregation(Component):
    """Base class of secure aggregation protocols, for servers and clients that follow them (honest but curious)."""

    logged: ClassVar[tuple[str, ...]] = (
        "events.masks_agreed",
        "events.unmasked",
        "events.not_unmasked",
        "rounds.bytes_up",
        "rounds.bytes_down",
        "summary.fates",
    )

    threshold: Annotated[Count | Share, MeasuredIn("clients or share")] = 0.7
    """Clients that must answer to unmask a sum: a count, or a share of those that hold shares of secrets. With fewer,
    the buffer fails: its updates have the fate below_threshold."""
    colluders: Annotated[int, Field(ge=0), MeasuredIn("clients")] = 0
    """Clients that pass all they know to the server, below `threshold`. The ledger subtracts the noise of the most
    telling ones from every sum."""
    bits: Annotated[int, Field(ge=2, le=24), MeasuredIn("bits")] = 16
    """Bits of a quantised number, 2..24, its sign included."""
    range: Annotated[float, Field(gt=0, allow_inf_nan=False), MeasuredIn("1")] = 1.0
    """Largest absolute value of a number of an update; larger ones are clipped to it."""
    weight_bits: Annotated[int, Field(ge=0, le=16), MeasuredIn("bits")] = 8
    """Bits of the weight of an update: the largest is 2^weight_bits, the others are rounded to integers."""

    @property
    def needs_cohort(self) -> bool:
        """Whether masks cancel only within a cohort that agreed on them together."""
        return False

    @property
    def answers_tell(self) -> bool:
        """Whether more answers than `colluders` tell of a sum, even where they do not suffice to unmask it."""
        return False

    @property
    def quantiser(self) -> Quantiser:
        """Grid to which updates are rounded."""
        return Quantiser(self.bits, self.range)

    def needed(self, clients: int) -> int:
        """Return the number of clients that must answer, of `clients` that hold shares."""
        # A share is rounded up: with fewer answers than stated no sum may be unmasked.
        return self.threshold if isinstance(self.threshold, int) else math.ceil(self.threshold * clients - 1e-9)

    def weights(
        self, samples: NDArray[np.integer], most_samples: int, staleness: NDArray[np.float64], fresh: float
    ) -> tuple[int, ...]:
        """Return the integer weight of each update, 0..2^weight_bits. `samples`: (n,) what each counts; `most_samples`:
        the most that any client counts; `staleness`: (n,) staleness weights; `fresh`: that of a fresh update."""
        shares = samples / most_samples * (staleness / fresh if fresh else np.zeros_like(staleness))
        within = bool((shares <= 1 + 1e-9).all())
        require(within, self, "weights", "must be at most those of a fresh update of the largest client", shares)
        return tuple(np.rint(shares * 2**self.weight_bits).astype(np.int64).tolist())

    @abstractmethod
    def setup(self, members: int, n_parameters: int) -> tuple[RoundTrip, ...]:
        """Return the rounds of a client before its task begins, with `members` clients that hold shares."""
        raise NotImplementedError

    def relayed_bytes(self, members: int, n_parameters: int) -> int:
        """Return the bytes that the server passes on to the other clients after the setup of one."""
        return 0

    @abstractmethod
    def unmasking(self, members: int, updates: int, n_parameters: int) -> RoundTrip:
        """Return the bytes of the server's request to unmask a sum of `updates` updates, and of a client's answer."""
        raise NotImplementedError

    @abstractmethod
    def total(self, vectors: NDArray[np.int64], work: MaskedSum, secrets_of: Generators) -> Elements:
        """Return the weighted sum (d,) of `vectors` (n_updates, d) as the server unmasks it. `secrets_of`: generator of
        each member's secrets. Raises BelowThresholdError."""
        raise NotImplementedError

    def faults(self, members: int, updates: int) -> Iterator[Fault]:
        """Yield settings that cannot work with `members` clients that hold shares, and sums of `updates` updates."""
        needed = self.needed(members)
        if needed > members:
            yield Fault(
                "threshold", f"must be 1..{members}, the clients that hold shares, got {self.threshold}; lower it"
            )
        elif self.colluders >= needed:
            yield Fault(
                "colluders",
                f"must be below the threshold ({needed} of {members} clients), got {self.colluders}: as many could "
                "unmask single updates; raise threshold",
            )
        largest = updates * 2**self.weight_bits * self.quantiser.levels
        if largest > LARGEST:
            yield Fault(
                "bits",
                f"must leave room for the sum of {updates} updates with weights of {self.weight_bits} bits in a field "
                f"of 32 bits, got {self.bits}; lower bits or weight_bits",
            )


class Pairwise(SecureAggregation):
    """Masks of each pair of a cohort that cancel in its sum. Source: Bonawitz et al. 2017 (Practical Secure Aggregation
    for Privacy-Preserving Machine Learning), figure 4 without its consistency check, which is for malicious servers."""

    kind: Literal["pairwise"] = "pairwise"

    @property
    def needs_cohort(self) -> bool:
        return True

    def setup(self, members: int, n_parameters: int) -> tuple[RoundTrip, ...]:
        """Return the rounds 0 (two public keys) and 1 (an encrypted share of key and seed for each other member)."""
        keys = RoundTrip(2 * KEY_BYTES, 2 * (members - 1) * KEY_BYTES)
        shared = 2 * (members - 1) * SHARE_BYTES
        return keys, RoundTrip(shared, shared)

    def unmasking(self, members: int, updates: int, n_parameters: int) -> RoundTrip:
        """Return a bit per member in the request, and a share of each member's seed or key in the answer."""
        return RoundTrip(members * SHARE_BYTES, -(-members // 8))

    def total(self, vectors: NDArray[np.int64], work: MaskedSum, secrets_of: Generators) -> Elements:
        return pairwise_sum(vectors, work, self.needed(work.clients), secrets_of)


class LightSecAgg(SecureAggregation):
    """A mask for each update, shared by an erasure code and recovered for the whole sum at once. `threshold` is the
    source's U, `colluders` its T. Source: So et al. 2022 (LightSecAgg), algorithm 1 and its asynchronous form."""

    kind: Literal["lightsecagg"] = "lightsecagg"

    @property
    def answers_tell(self) -> bool:
        # A sum of shares is a combination of the parts of the masks' sum and of `colluders` random vectors.
        return True

    def setup(self, members: int, n_parameters: int) -> tuple[RoundTrip, ...]:
        """Return one message with a share of the task's mask for each other client."""
        return (RoundTrip((members - 1) * self._share_bytes(members, n_parameters), 0),)

    def relayed_bytes(self, members: int, n_parameters: int) -> int:
        return (members - 1) * self._share_bytes(members, n_parameters)

    def unmasking(self, members: int, updates: int, n_parameters: int) -> RoundTrip:
        """Return number and weight of each update in the request, and the weighted sum of shares in the answer."""
        return RoundTrip(self._share_bytes(members, n_parameters), 8 * updates)

    def total(self, vectors: NDArray[np.int64], work: MaskedSum, secrets_of: Generators) -> Elements:
        return lightsecagg_sum(vectors, work, self.needed(work.clients), self.colluders, secrets_of)

    def _share_bytes(self, members: int, n_parameters: int) -> int:
        return ELEMENT_BYTES * part_length(n_parameters, self.needed(members), self.colluders)


if TYPE_CHECKING:
    AnySecureAggregation = SecureAggregation
else:
    AnySecureAggregation: Any = choice(SecureAggregation, Pairwise, LightSecAgg)
