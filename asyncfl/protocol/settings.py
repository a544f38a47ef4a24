"""The protocols. Each presets four settings of one server: dispatch, buffer opening, late updates, staleness.

    kind       dispatch             aggregate at             late    staleness
    sync       cohort               all | quorum | deadline  drop    constant
                                    | poll
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

from asyncfl.base.component import Component, choice, default_property, kind_of
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.data.data_spec import DataSpec
from asyncfl.defences import Defence
from asyncfl.protocol.dispatch import (
    AnyDispatch,
    AnyOpening,
    BufferStatus,
    CohortDispatch,
    ConstantDispatch,
    Count,
    DispatchPolicy,
    OpenAll,
    OpenCount,
    Opening,
    Share,
)
from asyncfl.protocol.model_step import WITH_RATE, AggregationMode, Divisor, Partial, partial_weights, weights
from asyncfl.protocol.secure_aggregation import AnySecureAggregation
from asyncfl.protocol.secure_faults import secure_aggregation_faults
from asyncfl.protocol.selection import AnySelection, UniformSelection
from asyncfl.protocol.staleness import (
    AnyStaleness,
    ConstantStaleness,
    PolynomialStaleness,
    Staleness,
    staleness_weights,
)

Late: TypeAlias = Literal["drop", "carry"]
Weighting: TypeAlias = Literal["samples", "uniform"]
Scoring: TypeAlias = Literal["parallel", "serial"]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Protocol(Component):
    """Base class of the protocols: the fields that all share, and the settings that each presets. Each setting is a
    property, or a field where a scenario may change it. A protocol that overrides none is synchronous: it asks every
    client and waits for every update."""

    logged: ClassVar[tuple[str, ...]] = (
        "rounds.time_s",
        "rounds.participants",
        "rounds.staleness_mean",
        "rounds.staleness_max",
        "rounds.waiting_max",
        "rounds.bytes_up",
        "rounds.bytes_down",
        "events.dispatched",
        "events.aggregated",
        "events.published",
        "summary.fates",
    )

    rounds: Annotated[int, Field(ge=1, le=10_000_000, examples=[20]), MeasuredIn("versions")]
    """T: number of versions to publish, that is, of aggregations."""
    weighting: Weighting = "samples"
    """Weight of an update before staleness: the number of samples of its client, or equal for all."""
    partial_work: Partial = "whole"
    """Weight of an update whose client was stopped at `training.deadline_s`: `whole` counts it as a whole one; `work`
    in proportion to its epochs; `normalised` divides each update by its epochs and multiplies their mean by the mean
    number of epochs (FedNova in epochs, with aggregation `delta`). `work` and `normalised` are relative to the other
    updates of the buffer, and refused where a buffer holds a single update."""
    selection: AnySelection = UniformSelection()
    """Which idle clients are given tasks: random ones, those with the fewest tasks so far, or by reported loss and
    speed."""
    scoring: Scoring = "parallel"
    """When a client scores models that the server asks it to score: `parallel`, during its training, or `serial`, after
    it."""
    time_limit_s: Annotated[float, Field(gt=0)] | None = None
    """Virtual seconds after which the run ends with the versions it has. null: the run ends at the last version, or
    when 10,000 tasks in succession (10 per client in larger federations) bring no update."""

    per_client: Annotated[int, Field(ge=1), MeasuredIn("updates")] | None = None
    """Most updates of one client in a buffer: a client that has as many there is given its next task once that buffer
    is aggregated. null: no limit."""
    min_separation: Annotated[int, Field(ge=1), MeasuredIn("versions")] | None = None
    """b: versions from one that an update of a client enters to the next one, at least. A client is asked again when
    the fate of its last update is known, and the next version is that far away. null: no such limit. A larger b lets
    `privacy.kind: dp_ftrl` add less noise."""
    max_participations: Annotated[int, Field(ge=1), MeasuredIn("versions")] | None = None
    """k: most versions that updates of one client enter; then the client is never asked again. null: no limit."""
    check_norms: bool | None = None
    """Whether the server rejects an update that is longer than the privacy scheme's clip norm and six standard
    deviations of its noise allow. null: only in a live federation, where the scheme bounds a norm."""
    secure_aggregation: AnySecureAggregation | None = None
    """Protocol by which the server learns the sum of a buffer's updates alone; null: it receives each update."""

    @default_property
    def dispatch(self) -> DispatchPolicy:
        """Policy that decides how many tasks begin, and when."""
        return CohortDispatch()

    @default_property
    def opening(self) -> Opening:
        """Condition at which the server aggregates the buffer."""
        return OpenAll()

    @default_property
    def late(self) -> Late:
        """Treatment of an update that arrives after its buffer was aggregated: dropped, or carried into the next
        buffer."""
        return "drop"

    @default_property
    def staleness(self) -> Staleness:
        """Weight of an update by its staleness in versions."""
        return ConstantStaleness()

    @default_property
    def divisor(self) -> Divisor:
        """Divisor of the weights: the sum of all samples in the buffer, or the sum of the weights themselves."""
        return "buffer"

    @property
    def expected_updates(self) -> int | None:
        """Divisor of the sum of the updates, where it is fixed before the run, whoever takes part; None: it is not."""
        return None

    @default_property
    def max_staleness(self) -> int | None:
        """Greatest staleness in versions; older updates are discarded. None keeps all."""
        return None

    @default_property
    def aggregation(self) -> AggregationMode:
        """Name of the formula by which the aggregate enters the model, such as `delta`; see
        `asyncfl.protocol.model_step`."""
        return "delta"

    @default_property
    def rate(self) -> float:
        """Factor > 0 of the aggregate when it enters the model."""
        return 1.0

    @property
    def masks_by_cohort(self) -> bool:
        """Whether each buffer holds updates of one cohort, which shares the secrets of secure aggregation."""
        return self.dispatch.in_cohorts and self.late == "drop"

    def share_holders(self, clients: int) -> int:
        """Return the number of clients that hold shares of secrets in secure aggregation: those of a cohort, or all."""
        return self.dispatch.at_publish(clients) if self.masks_by_cohort else clients

    def integer_weights(
        self, samples: NDArray[np.int64], staleness: NDArray[np.int64], most_samples: int
    ) -> tuple[int, ...]:
        """Return the integer weight of each update in a securely aggregated sum; () without secure aggregation.
        `samples`: (n,) of the senders; `staleness`: (n,) versions; `most_samples`: of any client."""
        if self.secure_aggregation is None:
            return ()
        of_samples = self.weighting == "samples"
        counted = samples if of_samples else np.ones_like(samples)
        [fresh, *by_age] = staleness_weights(self.staleness, np.concatenate([[0], staleness])).tolist()
        return self.secure_aggregation.weights(counted, most_samples if of_samples else 1, np.array(by_age), fresh)

    def factors(
        self, samples: NDArray[np.int64], staleness: NDArray[np.int64], work: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Compute the (n,) factor of each of n updates that are aggregated together, before the server's rate.
        `samples`: (n,) training samples of the senders; `staleness`: (n,) versions; `work`: (n,) share of a task's
        epochs behind each update, above 0 to 1; None if all are whole."""
        if self.expected_updates is not None:
            return np.full(len(samples), 1 / self.expected_updates)
        counted = samples if self.weighting == "samples" else np.ones_like(samples)
        by_age = staleness_weights(self.staleness, staleness)
        if work is None or self.partial_work == "whole":
            return weights(counted, by_age, self.divisor)
        if self.partial_work == "work":
            return weights(counted * work, by_age, self.divisor)
        return partial_weights(weights(counted, by_age, self.divisor), counted, work)

    def updates_per_version(self, clients: int) -> int:
        """Return K: the number of updates in one aggregation if none is lost."""
        dispatch, opening = self.dispatch, self.opening
        if opening.updates is not None:
            return opening.updates
        if dispatch.at_publish(clients):
            return dispatch.wanted(clients)
        # The target while as many clients as possible are at tasks.
        return max(1, opening.target(BufferStatus(held=0, coming=dispatch.level(clients), cohort=0, wanted=0)))

    def faults(self, clients: int) -> Iterator[Fault]:
        """Yield the settings that cannot work with `clients` clients, with fields named relative to the protocol."""
        # Some protocols have the number of tasks as a field of their own.
        is_field = "dispatch" in type(self).model_fields
        for fault in self.dispatch.faults(clients):
            is_given = ("dispatch" if is_field else fault.field) in self.model_fields_set
            told = fault if is_given else Fault(fault.field, f"{fault.message} (the field is not given: its default)")
            yield told.under("dispatch") if is_field else told
        if self.selection.independent and not (self.dispatch.in_cohorts and self.opening.whole_cohort):
            yield Fault(
                "selection",
                f"must draw a fixed number of clients where the server does not wait for whole cohorts, got "
                f"{kind_of(self.selection)}, which draws each client by itself; set protocol.kind: sync and open: all",
            )
        if self.partial_work != "whole" and self.opening.updates == 1:
            yield Fault(
                "partial_work",
                f"must be whole where a buffer holds one update, got {self.partial_work}: work counts relative to the "
                "other updates of a buffer",
            )
        elif self.partial_work == "normalised" and self.aggregation != "delta":
            yield Fault(
                "partial_work",
                f"must be whole or work with protocol.aggregation {self.aggregation}, got normalised: its factors do "
                "not add up to one, as those of models must; set it, or protocol.aggregation to delta",
            )
        least, most = self.min_separation, clients // self.updates_per_version(clients)
        if least is not None and least > max(most, 1):
            yield Fault(
                "min_separation",
                f"must be 1..{max(most, 1)}, got {least}: each version takes {self.updates_per_version(clients)} of "
                f"{clients} clients, which then wait; lower it, or raise data.clients",
            )
        # Otherwise every update would be late, and the server would begin another task in its place, without end.
        if self.late == "drop" and not self.dispatch.at_publish(clients):
            yield Fault(
                "late",
                "must be carry where clients are not drawn in cohorts, got drop; set protocol.dispatch.kind: cohort",
            )
        if self.secure_aggregation is not None:
            yield from secure_aggregation_faults(self, clients)
            if type(self).factors is not Protocol.factors:
                got = f"got {kind_of(self)}, which weighs updates by `factors` of its own"
                message = f"must be null where weights are not by samples and staleness, {got}"
                yield Fault("secure_aggregation", message)


def rate_faults(rate: float, aggregation: AggregationMode) -> Iterator[Fault]:
    """Yield a fault for a server rate other than 1 where the aggregation has none, with fields named relative to the
    protocol."""
    if rate != 1 and aggregation not in WITH_RATE:
        yield Fault(
            "server_rate",
            f"must be 1 with protocol.aggregation {aggregation}, which has no rate, got {rate:g}; leave it out or set "
            "protocol.aggregation to delta or mix",
        )


class Sync(Protocol):
    """Synchronous rounds: draw a cohort, wait for its updates, average them. Later updates are dropped. Source: McMahan
    et al. 2017, algorithm 1; over-selection by Bonawitz et al. 2019."""

    kind: Literal["sync"] = "sync"
    participants: Annotated[Count | Share | None, MeasuredIn("clients or share")] = None
    """K, clients per round: a count, a share of all clients below 1, or null for all."""
    over_selection: Annotated[float, Field(ge=1, allow_inf_nan=False), MeasuredIn("factor")] = 1.0
    """Factor by which more clients are drawn than the server waits for."""
    open: AnyOpening = OpenAll()
    """When a round ends: with all updates of the cohort, with a quorum of them, at a deadline, or at the first of
    regular looks that finds enough of them."""
    late: Late = "drop"
    """Treatment of an update that arrives after its round: dropped, or carried into the next round."""
    aggregation: AggregationMode = "delta"
    """Name of the formula by which the aggregate enters the model, see `asyncfl.protocol.model_step`: they differ where
    late updates are carried."""
    server_rate: Annotated[Rate, MeasuredIn("factor")] = 1.0
    """Factor of the averaged update. Must be 1 with the aggregations that have no rate: `normalised` and the literal
    ones."""
    divide_by: Literal["arrived", "expected"] = "arrived"
    """Divisor of the sum of the updates: the samples, or number, of those that arrived | the `participants` that are
    expected, however many were drawn and arrive, with `weighting: uniform`. Source: McMahan, Ramage, Talwar, Zhang
    2018, section 2, the fixed-denominator estimator."""

    @property
    def dispatch(self) -> DispatchPolicy:
        return CohortDispatch(participants=self.participants, over_selection=self.over_selection)

    @property
    def opening(self) -> Opening:
        return self.open

    @property
    def rate(self) -> float:
        return self.server_rate

    @property
    def expected_updates(self) -> int | None:
        return self.participants if self.divide_by == "expected" and isinstance(self.participants, int) else None

    def faults(self, clients: int) -> Iterator[Fault]:
        yield from super().faults(clients)
        yield from (fault.under("open") for fault in self.open.faults(self.dispatch.wanted(clients)))
        if self.selection.independent and self.over_selection != 1:
            message = f"must be 1 where each client is drawn by itself, got {self.over_selection:g}"
            yield Fault("over_selection", f"{message}: such a cohort has no reserves")
        if self.divide_by == "expected":
            if not isinstance(self.participants, int):
                got = "null" if self.participants is None else f"{self.participants:g}"
                yield Fault("participants", f"must be a number of clients with protocol.divide_by expected, got {got}")
            if self.weighting != "uniform" or self.partial_work != "whole":
                got = self.weighting if self.weighting != "uniform" else f"partial_work {self.partial_work}"
                yield Fault("weighting", f"must be uniform, of whole work, with protocol.divide_by expected, got {got}")
        yield from rate_faults(self.server_rate, self.aggregation)


class BufferedProtocol(Protocol):
    """Base class of asynchronous protocols: clients train from the version they were sent; K updates make the next
    version."""

    buffer: Annotated[int, Field(ge=1), MeasuredIn("updates")] = 10
    """K: updates per aggregation. With cohorts, at most the size of a cohort. Otherwise K may exceed the tasks in
    flight: each arrival begins another task, until the buffer is full. Source: SAFL, algorithm 1; Nguyen et al. 2022,
    algorithm 1."""
    dispatch: AnyDispatch = ConstantDispatch(in_flight=20)
    """Policy that decides how many tasks begin, and when."""
    late: Late = "carry"
    """Treatment of an update that arrives after its buffer was aggregated: carried into the next buffer, or dropped
    (with cohorts only)."""
    staleness: AnyStaleness = PolynomialStaleness()
    """Weight of an update by its staleness in versions."""
    divisor: Divisor = "buffer"
    """Divisor of the weights: the sum of all samples in the buffer, or the sum of the weights themselves."""
    max_staleness: Annotated[int, Field(ge=0), MeasuredIn("versions")] | None = None
    """Greatest staleness; older updates are discarded. null keeps all."""
    aggregation: AggregationMode = "delta"
    """Name of the formula by which the aggregate enters the model, see `asyncfl.protocol.model_step`. Source: SAFL,
    algorithm 4 and equation 6."""
    server_rate: Annotated[Rate, MeasuredIn("factor")] = 1.0
    """Factor of the averaged update (FedBuff's eta_g). Must be 1 with the aggregations that have no rate: `normalised`
    and the literal ones."""

    @property
    def opening(self) -> Opening:
        return OpenCount(updates=self.buffer)

    @property
    def rate(self) -> float:
        return self.server_rate

    def faults(self, clients: int) -> Iterator[Fault]:
        yield from super().faults(clients)
        if self.buffer > clients:
            yield Fault("buffer", f"must be 1..clients ({clients}), got {self.buffer}; lower protocol.buffer")
        elif self.dispatch.in_cohorts and self.buffer > (asked := self.dispatch.at_publish(clients)):
            # Clients that have answered are not replaced: a buffer larger than the cohort would never be full.
            yield Fault(
                "buffer",
                f"must be 1..{asked}, the clients that a cohort asks, got {self.buffer}; lower protocol.buffer or "
                "raise protocol.dispatch.participants",
            )
        yield from rate_faults(self.server_rate, self.aggregation)


class Buffered(BufferedProtocol):
    """The buffered protocol with updates weighted by their clients' samples. Source: SAFL, algorithm 1; Nguyen et al.
    2022, algorithm 1."""

    kind: Literal["buffered"] = "buffered"


class FedBuff(BufferedProtocol):
    """The buffered protocol FedBuff: all updates of a buffer have equal weight, but for staleness. Source: Nguyen et
    al. 2022, algorithm 1."""

    kind: Literal["fedbuff"] = "fedbuff"
    weighting: Weighting = "uniform"
    """Weight of an update before staleness: the number of samples of its client, or equal for all."""


class FedAsync(Protocol):
    """FedAsync: every update is aggregated at once, w <- (1 - a s) w + a s w_i. Source: Xie, Koyejo, Gupta 2019,
    algorithm 1."""

    kind: Literal["fedasync"] = "fedasync"
    in_flight: Annotated[Count | Share, MeasuredIn("tasks or share"), Field(examples=[10])] = 20
    """Number of tasks in flight at any time, or a share of the clients."""
    mixing: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.6
    """a: weight of a fresh update against the current model, above 0 to 1."""
    staleness: AnyStaleness = PolynomialStaleness()
    """s: weight of an update by its staleness in versions."""
    max_staleness: Annotated[int, Field(ge=0), MeasuredIn("versions")] | None = None
    """Greatest staleness; older updates are discarded. null keeps all."""

    @property
    def dispatch(self) -> DispatchPolicy:
        return ConstantDispatch(in_flight=self.in_flight)

    @property
    def opening(self) -> Opening:
        return OpenCount(updates=1)

    @property
    def late(self) -> Late:
        return "carry"

    @property
    def aggregation(self) -> AggregationMode:
        return "mix"

    @property
    def rate(self) -> float:
        return self.mixing


if TYPE_CHECKING:
    AnyProtocol = Protocol
else:
    AnyProtocol: Any = choice(Protocol, Sync, Buffered, FedBuff, FedAsync)


NO_SENDER = "a shuffled update has no sender"


def shuffler_faults(data: DataSpec, protocol: Protocol, defence: Defence) -> Iterator[Fault]:
    """Yield the settings that cannot work with a shuffler, with fields named relative to the scenario."""
    if protocol.opening.whole_cohort and protocol.dispatch.in_cohorts:
        asked, wanted = protocol.dispatch.at_publish(data.clients), protocol.dispatch.wanted(data.clients)
        if asked > wanted:
            reason = f"where privacy.shuffler waits for the cohort, got one with reserves: {asked} for {wanted}"
            yield Fault("protocol.over_selection", f"must be 1 {reason}")
        if protocol.late != "drop":
            reason = "late updates started from another model"
            yield Fault("protocol.late", f"must be drop with privacy.shuffler, got carry: {reason}")
    else:
        way_out = "set protocol.kind: sync and protocol.open: {kind: all}"
        yield Fault("privacy.shuffler", f"waits for a whole cohort, which this protocol does not; {way_out}")
    if not protocol.staleness.is_constant:
        got = f"got {kind_of(protocol.staleness)}: a shuffled update has no age"
        yield Fault("protocol.staleness", f"must be constant with privacy.shuffler, {got}")
    if protocol.partial_work != "whole":
        got = f"got {protocol.partial_work}: a shuffled update holds layers of clients that did unequal work"
        yield Fault("protocol.partial_work", f"must be whole with privacy.shuffler, {got}")
    # Sizes matter only if they are weights. Faulty data have no sizes yet.
    weighed = protocol.weighting == "samples" and not list(data.faults())
    if weighed and len(set(data.client_sizes(Streams(0)).tolist())) > 1:
        reason = "where clients hold different numbers of samples, got samples"
        yield Fault("protocol.weighting", f"must be uniform with privacy.shuffler {reason}")
    if protocol.check_norms:
        got = "got true: a row holds layers of several clients, and may be longer than the update of any"
        yield Fault("protocol.check_norms", f"must be null or false with privacy.shuffler, {got}")
    if defence.detector is not None:
        got = f"got {kind_of(defence.detector)}: {NO_SENDER}"
        yield Fault("defence.detector", f"must be null with privacy.shuffler, {got}")
    if defence.strikes is not None:
        yield Fault("defence.strikes", f"must be null with privacy.shuffler: {NO_SENDER}")
    if not defence.rule.is_coordinatewise:
        allowed = "mean, median or trimmed_mean without pre, or another rule that takes each parameter by itself"
        got = f"got {kind_of(defence.rule)}: with privacy.shuffler a row holds layers of several clients"
        yield Fault("defence.rule", f"must be {allowed}, {got}")
