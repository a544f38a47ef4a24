"""How a link loses packets: not at all, independently, or in bursts.

A loss answers for a whole run of packets at once: how many of them were lost. Which ones is never drawn, because
nothing depends on it: all packets of a message are equally long, and the tap hears each on its own.

Gilbert-Elliott: a channel is good or bad, a Markov chain that steps once per packet, and loses packets with a
probability of its own in each state (Gilbert, BSTJ 39, 1960, equations 1-3; Elliott, BSTJ 42, 1963). How long it stays
in a state is geometric, so the number of packets that meet the bad state follows exactly from alternating geometric
draws: one draw per burst and none per packet. Silence moves the chain too: while the sender waits, the chain steps once
for each packet that would have fitted, in closed form.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.component import Component, choice
from asyncfl.quantities import MeasuredIn

MANY_CYCLES = 16
"""Expected bursts in a run above which they are drawn as an array; below, single draws are faster."""

Probability = Annotated[float, Field(ge=0, le=1)]


class Loss(Component):
    """Base of the ways to lose packets.

    A message begins with `start` and each of its runs of packets is a `step`. The state is the component's own; it
    lives as long as the message, since two messages of a client are far apart on the clock.
    """

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.bytes_up",
        "rounds.bytes_down",
        "events.retransmitted",
        "events.lost",
    )

    @property
    def lossless(self) -> bool:
        """Whether no packet is ever lost."""
        return False

    @abstractmethod
    def mean_loss(self) -> float:
        """Long-run share of packets lost, 0..1."""
        raise NotImplementedError

    def start(self, rng: np.random.Generator) -> Any:
        """State of the channel when a message begins."""
        return None

    @abstractmethod
    def step(self, state: Any, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, Any]:
        """Packets lost, 0..packets, of a run of `packets` in succession, and the state after it.

        `idle_slots`: packets that would have fitted into the silence before the run; inf on a link of infinite
        bandwidth, 0 before the first run.
        """
        raise NotImplementedError


class NoLoss(Loss):
    """Every packet arrives."""

    kind: Literal["none"] = "none"

    @property
    def lossless(self) -> bool:
        """Always."""
        return True

    def mean_loss(self) -> float:
        """0."""
        return 0.0

    def step(self, state: Any, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, Any]:
        """None lost; draws nothing."""
        return 0, state


class IndependentLoss(Loss):
    """Each packet is lost with the same probability, whatever happens to the others."""

    kind: Literal["independent"] = "independent"
    probability: Annotated[Probability, MeasuredIn("probability"), Field(examples=[0.02])]
    """Probability that a packet is lost, 0..1."""

    @property
    def lossless(self) -> bool:
        """Where the probability is 0."""
        return self.probability == 0

    def mean_loss(self) -> float:
        """The probability."""
        return self.probability

    def step(self, state: Any, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, Any]:
        """Binomial number lost."""
        return int(rng.binomial(packets, self.probability)), state


class GilbertElliottLoss(Loss):
    """Packets are lost in bursts: a channel that is good or bad. Source: Gilbert 1960; Elliott 1963."""

    kind: Literal["gilbert_elliott"] = "gilbert_elliott"
    good_to_bad: Annotated[float, Field(gt=0, le=1, examples=[0.01]), MeasuredIn("probability")]
    """Probability per packet that a good channel turns bad, above 0; its inverse is the mean gap between bursts."""
    bad_to_good: Annotated[float, Field(gt=0, le=1, examples=[0.2]), MeasuredIn("probability")]
    """Probability per packet that a bad channel turns good, above 0; its inverse is the mean burst in packets."""
    loss_in_good: Annotated[Probability, MeasuredIn("probability")] = 0.0
    """Probability that a packet is lost while the channel is good, 0..1."""
    loss_in_bad: Annotated[Probability, MeasuredIn("probability")] = 1.0
    """Probability that a packet is lost while the channel is bad, 0..1."""

    @property
    def bad_share(self) -> float:
        """Long-run share of packets that meet the bad state."""
        return self.good_to_bad / (self.good_to_bad + self.bad_to_good)

    @property
    def lossless(self) -> bool:
        """Where neither state loses anything."""
        return self.loss_in_good == 0 and self.loss_in_bad == 0

    def mean_loss(self) -> float:
        """The two states' loss, weighted with their long-run shares."""
        return self.bad_share * self.loss_in_bad + (1 - self.bad_share) * self.loss_in_good

    def start(self, rng: np.random.Generator) -> bool:
        """Whether the channel is bad, in the long run."""
        return bool(rng.random() < self.bad_share)

    def step(self, state: bool, packets: int, idle_slots: float, rng: np.random.Generator) -> tuple[int, bool]:
        """Bad and good packets counted by whole sojourns, then a binomial number lost of each."""
        bad = self._after_silence(state, idle_slots, rng) if idle_slots > 0 else state
        in_bad, bad = self._packets_in_bad(bad, packets, rng)
        lost = _thinned(in_bad, self.loss_in_bad, rng) + _thinned(packets - in_bad, self.loss_in_good, rng)
        return lost, bad

    def _after_silence(self, bad: bool, idle_slots: float, rng: np.random.Generator) -> bool:
        # The n-step transition of a two-state chain; 1 - p - q is its second eigenvalue. Without a known number of
        # steps (infinite bandwidth) the chain is in its long-run state.
        eigenvalue = 1 - self.good_to_bad - self.bad_to_good
        memory = 0.0 if math.isinf(idle_slots) else eigenvalue ** math.floor(idle_slots)
        return bool(rng.random() < self.bad_share + memory * (bad - self.bad_share))

    def _packets_in_bad(self, bad: bool, packets: int, rng: np.random.Generator) -> tuple[int, bool]:
        """Packets of the run that meet the bad state, and the state that the next packet would meet."""
        cycles = packets / (1 / self.good_to_bad + 1 / self.bad_to_good)
        count = self._by_cycle if cycles > MANY_CYCLES else self._by_sojourn
        return count(bad, packets, rng)

    def _by_sojourn(self, bad: bool, packets: int, rng: np.random.Generator) -> tuple[int, bool]:
        """One draw per sojourn, for the few of a short run; how long the last one goes on is forgotten, rightly so."""
        leave = (self.good_to_bad, self.bad_to_good)
        geometric = rng.geometric
        in_bad, left = 0, packets
        while (sojourn := geometric(leave[bad])) <= left:
            left -= sojourn
            if bad:
                in_bad += sojourn
            bad = not bad
        return in_bad + (left if bad else 0), bad

    def _by_cycle(self, bad: bool, packets: int, rng: np.random.Generator) -> tuple[int, bool]:
        """All cycles of two sojourns at once, up to about where the run ends; the rest by sojourn."""
        leave_now, leave_other = self.good_to_bad, self.bad_to_good
        if bad:
            leave_now, leave_other = leave_other, leave_now
        expected = packets / (1 / leave_now + 1 / leave_other)
        # Four deviations short, so that hardly a draw is left over, and a few hundred single ones remain at most.
        batch = max(1, int(expected - 4 * math.sqrt(expected)))
        # Cut off just past the run, so that no long sojourn can overflow the sum.
        this = np.minimum(rng.geometric(leave_now, batch), packets + 1)
        other = np.minimum(rng.geometric(leave_other, batch), packets + 1)
        ends = np.cumsum(this + other)
        whole = int(np.searchsorted(ends, packets, side="right"))  # cycles that end within the run
        in_bad = int((this if bad else other)[:whole].sum())
        left = packets - (int(ends[whole - 1]) if whole else 0)
        if whole == batch:
            more, bad = self._packets_in_bad(bad, left, rng)
            return in_bad + more, bad
        # The run ends within cycle `whole`, either in its first sojourn or in its second.
        first = int(this[whole])
        if left < first:
            return in_bad + (left if bad else 0), bad
        return in_bad + (first if bad else left - first), not bad


def _thinned(packets: int, probability: float, rng: np.random.Generator) -> int:
    """Binomial number lost; the certain cases draw nothing."""
    if probability == 0 or packets == 0:
        return 0
    return packets if probability == 1 else int(rng.binomial(packets, probability))


if TYPE_CHECKING:
    AnyLoss = Loss
else:
    AnyLoss: Any = choice(Loss, NoLoss, IndependentLoss, GilbertElliottLoss)
