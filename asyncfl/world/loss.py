"""Models of packet loss on a link: none, independent, or in bursts.

A model draws the number of lost packets of a whole run of packets at once. Nothing depends on which packets these are:
all packets of a message have the same size, and the tap hears each packet independently.

Gilbert-Elliott: the channel is good or bad, a Markov chain that steps once per packet, and loses packets with a
different probability in each state (Gilbert, BSTJ 39, 1960, equations 1-3; Elliott, BSTJ 42, 1963). The time in a state
is geometric, so alternating geometric draws give the exact number of packets sent in the bad state: one draw per burst
and none per packet. The chain also steps while the sender waits, once for each packet that would have fitted into the
wait, in closed form.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.component import Component, choice
from asyncfl.base.quantities import MeasuredIn

MANY_CYCLES = 16  # expected bursts in a run above which they are drawn as an array. Below, single draws are faster

Probability = Annotated[float, Field(ge=0, le=1)]


class Loss(Component):
    """Base class of the models of packet loss.

    `start` gives the state of the channel when a message begins, and `step` draws the losses of each run of packets.
    The state ends with the message, since two messages of a client are far apart in time.
    """

    logged: ClassVar[tuple[str, ...]] = ("rounds.bytes_up", "rounds.bytes_down", "events.retransmitted", "events.lost")

    @property
    def lossless(self) -> bool:
        """Whether no packet is ever lost."""
        return False

    @abstractmethod
    def mean_loss(self) -> float:
        """Return the long-run share of lost packets, 0..1."""

    def start(self, rng: np.random.Generator) -> Any:
        """Draw and return the state of the channel when a message begins; None for a channel without a state."""
        return None

    @abstractmethod
    def step(self, state: Any, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, Any]:
        """Draw how many of `packets` consecutive packets are lost; return the number and the state afterwards.

        `idle_slots`: packets that would have fitted into the wait before the run. 0 before the first run, inf on a link
        of infinite bandwidth.
        """


class NoLoss(Loss):
    """No packet loss."""

    kind: Literal["none"] = "none"

    @property
    def lossless(self) -> bool:
        return True

    def mean_loss(self) -> float:
        return 0.0

    def step(self, state: Any, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, Any]:
        return 0, state


class IndependentLoss(Loss):
    """Independent packet loss with a constant probability."""

    kind: Literal["independent"] = "independent"
    probability: Annotated[Probability, MeasuredIn("probability"), Field(examples=[0.02])]
    """Probability that a packet is lost, 0..1."""

    @property
    def lossless(self) -> bool:
        return self.probability == 0

    def mean_loss(self) -> float:
        return self.probability

    def step(self, state: Any, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, Any]:
        return int(rng.binomial(packets, self.probability)), state


class GilbertElliottLoss(Loss):
    """Packet loss in bursts: a channel that is good or bad. Source: Gilbert 1960; Elliott 1963."""

    kind: Literal["gilbert_elliott"] = "gilbert_elliott"
    good_to_bad: Annotated[float, Field(gt=0, le=1, examples=[0.01]), MeasuredIn("probability")]
    """Probability per packet that a good channel turns bad, > 0. Its inverse is the mean gap between bursts."""
    bad_to_good: Annotated[float, Field(gt=0, le=1, examples=[0.2]), MeasuredIn("probability")]
    """Probability per packet that a bad channel turns good, > 0. Its inverse is the mean burst length, packets."""
    loss_in_good: Annotated[Probability, MeasuredIn("probability")] = 0.0
    """Probability that a packet is lost while the channel is good, 0..1."""
    loss_in_bad: Annotated[Probability, MeasuredIn("probability")] = 1.0
    """Probability that a packet is lost while the channel is bad, 0..1."""

    @property
    def bad_share(self) -> float:
        """Long-run share of packets sent in the bad state, `good_to_bad / (good_to_bad + bad_to_good)`."""
        return self.good_to_bad / (self.good_to_bad + self.bad_to_good)

    @property
    def lossless(self) -> bool:
        return self.loss_in_good == 0 and self.loss_in_bad == 0

    def mean_loss(self) -> float:
        return self.bad_share * self.loss_in_bad + (1 - self.bad_share) * self.loss_in_good

    def start(self, rng: np.random.Generator) -> bool:
        return bool(rng.random() < self.bad_share)

    def step(self, state: bool, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, bool]:
        """Draw the packets sent in each state, then a binomial number lost of each; return their sum and the state."""
        bad = state
        if idle_slots > 0:
            # The n-step transition of a two-state chain, whose second eigenvalue is 1 - p - q. With infinitely many
            # steps (infinite bandwidth) the chain is in its long-run state.
            eigenvalue = 1 - self.good_to_bad - self.bad_to_good
            memory = 0.0 if math.isinf(idle_slots) else eigenvalue ** math.floor(idle_slots)
            bad = bool(rng.random() < self.bad_share + memory * (bad - self.bad_share))
        in_bad, bad = self._packets_in_bad(bad, packets, rng)
        lost = _thinned(in_bad, self.loss_in_bad, rng) + _thinned(packets - in_bad, self.loss_in_good, rng)
        return lost, bad

    def _packets_in_bad(self, bad: bool, packets: int, rng: np.random.Generator) -> tuple[int, bool]:
        """Draw the number of packets of the run sent in the bad state, and whether the channel is bad at the next one.

        Short runs are drawn one sojourn in a state after another. `bad`: whether the channel is bad at the first
        packet.
        """
        if packets / (1 / self.good_to_bad + 1 / self.bad_to_good) > MANY_CYCLES:
            return self._by_cycle(bad, packets, rng)
        leave, geometric = (self.good_to_bad, self.bad_to_good), rng.geometric
        in_bad, left = 0, packets
        # The rest of the last sojourn may be forgotten, because geometric times have no memory.
        while (sojourn := geometric(leave[bad])) <= left:
            left -= sojourn
            if bad:
                in_bad += sojourn
            bad = not bad
        return in_bad + (left if bad else 0), bad

    def _by_cycle(self, bad: bool, packets: int, rng: np.random.Generator) -> tuple[int, bool]:
        """Draw cycles of two sojourns as an array up to about the end of the run, and the rest by sojourn.

        Returns as `_packets_in_bad`.
        """
        leave = (self.good_to_bad, self.bad_to_good)
        leave_now, leave_other = leave[bad], leave[not bad]
        expected = packets / (1 / leave_now + 1 / leave_other)
        # Four standard deviations too few, so that few draws are wasted, and at most a few hundred single ones follow.
        batch = max(1, int(expected - 4 * math.sqrt(expected)))
        # Cut off just past the end of the run, so that a long sojourn cannot overflow the sum.
        this = np.minimum(rng.geometric(leave_now, batch), packets + 1)
        other = np.minimum(rng.geometric(leave_other, batch), packets + 1)
        ends = np.cumsum(this + other)
        whole = int(np.searchsorted(ends, packets, side="right"))  # cycles that end within the run
        in_bad = int((this if bad else other)[:whole].sum())
        left = packets - (int(ends[whole - 1]) if whole else 0)
        if whole == batch:
            more, bad = self._packets_in_bad(bad, left, rng)
            return in_bad + more, bad
        # The run ends within cycle `whole`, in its first or its second sojourn.
        first = int(this[whole])
        if left < first:
            return in_bad + (left if bad else 0), bad
        return in_bad + (first if bad else left - first), not bad


def _thinned(packets: int, probability: float, rng: np.random.Generator) -> int:
    """Draw a binomial number of lost packets out of `packets`, without random numbers where it is certain."""
    if probability == 0 or packets == 0:
        return 0
    return packets if probability == 1 else int(rng.binomial(packets, probability))


if TYPE_CHECKING:
    AnyLoss = Loss
else:
    AnyLoss: Any = choice(Loss, NoLoss, IndependentLoss, GilbertElliottLoss)
