"""The protocols, each a preset of one server's four knobs: dispatch, opening, late updates, staleness.

    kind       dispatch             the buffer opens with    late    staleness
    sync       cohort               all | quorum | deadline  drop    constant
    buffered   constant M           K                        carry   polynomial 0.5
    fedbuff    constant M           K                        carry   polynomial 0.5, server rate
    fedasync   constant M           1                        carry   polynomial 0.5, mixing rate

A synchronous federation is a buffered one whose buffer holds the whole cohort.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Component, choice, default_property
from asyncfl.errors import Fault
from asyncfl.quantities import MeasuredIn
from asyncfl.server.any_selection import AnySelection
from asyncfl.server.buffer_opening import AnyOpening, BufferStatus, OpenAll, OpenCount, Opening
from asyncfl.server.dispatch import (
    AnyDispatch,
    CohortDispatch,
    ConstantDispatch,
    Count,
    DispatchPolicy,
    Share,
)
from asyncfl.server.model_step import WITH_RATE, AggregationMode, Divisor, Partial, partial_weights, weights
from asyncfl.server.selection import UniformSelection
from asyncfl.server.staleness import AnyStaleness, ConstantStaleness, PolynomialStaleness, Staleness, staleness_weights

Late: TypeAlias = Literal["drop", "carry"]
Weighting: TypeAlias = Literal["samples", "uniform"]
Scoring: TypeAlias = Literal["parallel", "serial"]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Protocol(Component):
    """What the server does: the fields that all protocols share, and the knobs that they set.

    Each knob is a property, or a field where a scenario may turn it. A protocol that sets none of them is synchronous:
    everybody is asked, and everybody is waited for.
    """

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.time_s",
        "rounds.participants",
        "rounds.staleness_mean",
        "rounds.staleness_max",
        "rounds.bytes_up",
        "rounds.bytes_down",
        "events.dispatched",
        "events.aggregated",
        "events.published",
        "summary.fates",
    )

    rounds: Annotated[int, Field(ge=1, le=10_000_000, examples=[20]), MeasuredIn("versions")]
    """T: versions to publish, that is, aggregations."""
    weighting: Weighting = "samples"
    """What an update counts by: its client's number of samples, or all alike."""
    partial_work: Partial = "whole"
    """What an update counts by whose client was stopped (`training.deadline_s`): as if it were whole; in proportion to
    the epochs that it comes of (`work`); or each divided by its epochs, and their mean multiplied by the mean number
    (`normalised`, FedNova in epochs, with aggregation `delta`). Both are relative to the other updates of its buffer,
    and refused where a buffer holds one alone."""
    selection: AnySelection = UniformSelection()
    """Who is drawn among the idle: anybody, the least served first, or by what was heard of their losses and speed."""
    scoring: Scoring = "parallel"
    """Whether a client that is asked to score models does so beside its own training, or after it."""
    time_limit_s: Annotated[float, Field(gt=0)] | None = None
    """Virtual seconds after which the run ends with the versions it has; null: not before the last version, unless
    no update at all arrives in 10,000 tasks in succession (or in 10 per client, where that is more)."""

    @default_property
    def dispatch(self) -> DispatchPolicy:
        """Who gets a model, when."""
        return CohortDispatch()

    @default_property
    def opening(self) -> Opening:
        """When the buffer opens."""
        return OpenAll()

    @default_property
    def late(self) -> Late:
        """What becomes of an update whose buffer has opened: dropped, or carried into the next."""
        return "drop"

    @default_property
    def staleness(self) -> Staleness:
        """Weight of an update by its age in versions."""
        return ConstantStaleness()

    @default_property
    def divisor(self) -> Divisor:
        """What the weights are divided by: all data in the buffer, or their own sum."""
        return "buffer"

    @default_property
    def max_staleness(self) -> int | None:
        """Updates older than this, in versions, are discarded; None keeps all."""
        return None

    @default_property
    def aggregation(self) -> AggregationMode:
        """How the aggregate enters the model, see `asyncfl.server.model_step`."""
        return "delta"

    @default_property
    def rate(self) -> float:
        """Factor of the aggregate when it enters the model, > 0."""
        return 1.0

    def factors(
        self, samples: NDArray[np.int64], staleness: NDArray[np.int64], work: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """(n,) factor of each of n updates where exactly these are aggregated, before the server's rate.

        `samples`: (n,) of the senders; `staleness`: (n,) versions; `work`: (n,) share of a task's epochs that each
        comes of, above 0 to 1; None: all are whole.
        """
        counted = samples if self.weighting == "samples" else np.ones_like(samples)
        by_age = staleness_weights(self.staleness, staleness)
        if work is None or self.partial_work == "whole":
            return weights(counted, by_age, self.divisor)
        if self.partial_work == "work":
            return weights(counted * work, by_age, self.divisor)
        return partial_weights(weights(counted, by_age, self.divisor), counted, work)

    def updates_per_version(self, clients: int) -> int:
        """K: updates that enter one aggregation, where all goes as asked."""
        dispatch, opening = self.dispatch, self.opening
        if opening.updates is not None:
            return opening.updates
        if dispatch.at_publish(clients):
            return dispatch.wanted(clients)
        # What it waits for while everybody is at work who can be.
        return max(1, opening.target(BufferStatus(held=0, coming=dispatch.level(clients), cohort=0, wanted=0)))

    def faults(self, clients: int) -> Iterator[Fault]:
        """What cannot work with `clients` clients, fields named relative to the protocol."""
        for fault in self.dispatch.faults(clients):
            # Some protocols have the number as a field of their own.
            yield fault.under("dispatch") if "dispatch" in type(self).model_fields else fault
        if self.partial_work != "whole" and self.opening.updates == 1:
            yield Fault(
                "partial_work",
                f"must be whole where a buffer holds one update, got {self.partial_work}: what was done counts "
                "relative to the other updates of a buffer",
            )
        elif self.partial_work == "normalised" and self.aggregation != "delta":
            yield Fault(
                "partial_work",
                f"must be whole or work with protocol.aggregation {self.aggregation}, got normalised: its factors do "
                "not add up to one, as those of models must; set it, or protocol.aggregation to delta",
            )
        # Every update would be late, and another task begun in its place, without end.
        if self.late == "drop" and not self.dispatch.at_publish(clients):
            yield Fault(
                "late",
                "must be carry where clients are not drawn in cohorts, got drop; set protocol.dispatch.kind: cohort",
            )


class Sync(Protocol):
    """Rounds: draw a cohort, wait for it, average. What comes after its round is dropped.

    Source: McMahan et al. 2017, algorithm 1; over-selection by Bonawitz et al. 2019.
    """

    kind: Literal["sync"] = "sync"
    participants: Annotated[Count | Share | None, MeasuredIn("clients or share")] = None
    """K, clients per round: a count, a share of all clients below 1, or null for all."""
    over_selection: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """Factor by which more clients are drawn than are waited for."""
    open: AnyOpening = OpenAll()
    """When a round ends: with all of the cohort, with a quorum of it, or at a deadline."""
    late: Late = "drop"
    """What becomes of an update after its round: dropped, or carried into the next."""
    server_rate: Annotated[Rate, MeasuredIn("factor")] = 1.0
    """Factor of the averaged update."""

    @property
    def dispatch(self) -> DispatchPolicy:
        """Cohorts of the participants and their reserves."""
        return CohortDispatch(participants=self.participants, over_selection=self.over_selection)

    @property
    def opening(self) -> Opening:
        """The field `open`."""
        return self.open

    @property
    def rate(self) -> float:
        """The field `server_rate`."""
        return self.server_rate

    def faults(self, clients: int) -> Iterator[Fault]:
        """As `Protocol.faults`, and a deadline that waits for more updates than are asked for."""
        yield from super().faults(clients)
        yield from (fault.under("open") for fault in self.open.faults(self.dispatch.wanted(clients)))


class BufferedProtocol(Protocol):
    """Asynchronous: clients train from whatever version they were sent; K updates make the next one."""

    buffer: Annotated[int, Field(ge=1), MeasuredIn("updates")] = 10
    """K: updates per aggregation. With cohorts at most as many as are asked at once; otherwise more than are in flight
    are allowed: for each update that arrives another task begins, until the buffer is full. Source: SAFL, algorithm 1;
    Nguyen et al. 2022, algorithm 1."""
    dispatch: AnyDispatch = ConstantDispatch(in_flight=20)
    """Who gets a model, when."""
    late: Late = "carry"
    """What becomes of an update whose buffer has opened: carried into the next (or dropped, with cohorts)."""
    staleness: AnyStaleness = PolynomialStaleness()
    """Weight of an update by its age in versions."""
    divisor: Divisor = "buffer"
    """What the weights are divided by: all data in the buffer, or their own sum."""
    max_staleness: Annotated[int, Field(ge=0), MeasuredIn("versions")] | None = None
    """Updates older than this are discarded; null keeps all."""
    aggregation: AggregationMode = "delta"
    """How the aggregate enters the model, see `asyncfl.server.model_step`. Source: SAFL, algorithm 4 and equation
    6."""
    server_rate: Annotated[Rate, MeasuredIn("factor")] = 1.0
    """Factor of the averaged update (FedBuff's eta_g); 1 with the readings that know none: `normalised` and the literal
    ones."""

    @property
    def opening(self) -> Opening:
        """At `buffer` updates."""
        return OpenCount(updates=self.buffer)

    @property
    def rate(self) -> float:
        """The field `server_rate`."""
        return self.server_rate

    def faults(self, clients: int) -> Iterator[Fault]:
        """As `Protocol.faults`, and a buffer larger than all that could fill it."""
        yield from super().faults(clients)
        if self.buffer > clients:
            yield Fault("buffer", f"must be 1..clients ({clients}), got {self.buffer}; lower protocol.buffer")
        elif self.dispatch.in_cohorts and self.buffer > (asked := self.dispatch.at_publish(clients)):
            # Nobody replaces who has answered: a buffer that the cohort does not fill would open short each time.
            yield Fault(
                "buffer",
                f"must be 1..{asked}, the clients that a cohort asks, got {self.buffer}; lower protocol.buffer or "
                "raise protocol.dispatch.participants",
            )
        if self.server_rate != 1 and self.aggregation not in WITH_RATE:
            yield Fault(
                "server_rate",
                f"must be 1 with protocol.aggregation {self.aggregation}, which has no rate, got {self.server_rate:g}; "
                "leave it out or set protocol.aggregation to delta or mix",
            )


class Buffered(BufferedProtocol):
    """The buffered protocol with updates weighed by their clients' samples (SAFL's algorithm 1).

    Source: SAFL, algorithm 1; Nguyen et al. 2022, algorithm 1.
    """

    kind: Literal["buffered"] = "buffered"


class FedBuff(BufferedProtocol):
    """The buffered protocol of Nguyen et al. 2022, algorithm 1: all updates of a buffer count alike but for age.

    Source: Nguyen et al. 2022, algorithm 1.
    """

    kind: Literal["fedbuff"] = "fedbuff"
    weighting: Weighting = "uniform"
    """What an update counts by: its client's number of samples, or all alike."""


class FedAsync(Protocol):
    """Xie, Koyejo, Gupta 2019: every update at once, w <- (1 - a s) w + a s w_i.

    Source: Xie, Koyejo, Gupta 2019, algorithm 1.
    """

    kind: Literal["fedasync"] = "fedasync"
    in_flight: Annotated[Count | Share, MeasuredIn("tasks or share"), Field(examples=[10])]
    """Tasks under way at any time."""
    mixing: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.6
    """a: weight of a fresh update against the model that it enters, above 0 to 1."""
    staleness: AnyStaleness = PolynomialStaleness()
    """s, weight of an update by its age in versions."""
    max_staleness: Annotated[int, Field(ge=0), MeasuredIn("versions")] | None = None
    """Updates older than this are discarded; null keeps all."""

    @property
    def dispatch(self) -> DispatchPolicy:
        """`in_flight` tasks at any time."""
        return ConstantDispatch(in_flight=self.in_flight)

    @property
    def opening(self) -> Opening:
        """At each update."""
        return OpenCount(updates=1)

    @property
    def late(self) -> Late:
        """Carried: no update is lost while another enters the model."""
        return "carry"

    @property
    def aggregation(self) -> AggregationMode:
        """Models are mixed."""
        return "mix"

    @property
    def rate(self) -> float:
        """The field `mixing`."""
        return self.mixing


if TYPE_CHECKING:
    AnyProtocol = Protocol
else:
    AnyProtocol: Any = choice(Protocol, Sync, Buffered, FedBuff, FedAsync)
