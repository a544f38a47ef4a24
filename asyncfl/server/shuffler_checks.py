"""Checks of a protocol and a defence with a shuffler, a trusted node that swaps layers between the clients' updates.

The server then receives rows without an owner: each combines layers of several clients. Only operations that treat all
rows alike may follow: a mean of equal weights, or a rule that treats each coordinate by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from asyncfl.base.component import kind_of
from asyncfl.base.errors import Fault
from asyncfl.base.streams import Streams
from asyncfl.data.data_spec import DataSpec
from asyncfl.defences import Defence
from asyncfl.server.protocol import Protocol


def shuffler_faults(data: DataSpec, protocol: Protocol, defence: Defence) -> Iterator[Fault]:
    """Yield the settings that cannot work with a shuffler, with fields named relative to the scenario."""
    # Sizes matter only if they are weights. Faulty data have no sizes yet.
    weighed = protocol.weighting == "samples" and not list(data.faults())
    equal = not weighed or len(set(data.client_sizes(Streams(0)).tolist())) == 1
    yield from (fault.under("privacy") for fault in _cohort_faults(protocol))
    yield from (fault.under("protocol") for fault in _protocol_faults(protocol, data.clients, equal))
    yield from (fault.under("defence") for fault in _defence_faults(defence))


def _cohort_faults(protocol: Protocol) -> Iterator[Fault]:
    """Yield a fault for a protocol that does not wait for its whole cohort, with fields named relative to the
    scheme."""
    if not _waits_for_all(protocol):
        way_out = "set protocol.kind: sync and protocol.open: {kind: all}"
        yield Fault("shuffler", f"waits for a whole cohort, which this protocol does not; {way_out}")


def _protocol_faults(protocol: Protocol, clients: int, equal_samples: bool) -> Iterator[Fault]:
    """Yield the faults of `protocol` with a shuffler in a federation of `clients`, with fields named relative to the
    protocol.

    `equal_samples`: whether all clients hold the same number of samples.
    """
    if _waits_for_all(protocol):
        asked, wanted = protocol.dispatch.at_publish(clients), protocol.dispatch.wanted(clients)
        if asked > wanted:
            message = (
                f"must be 1 where privacy.shuffler waits for the cohort, got one with reserves: {asked} for {wanted}"
            )
            yield Fault("over_selection", message)
        if protocol.late != "drop":
            yield Fault(
                "late", "must be drop with privacy.shuffler, got carry: late updates started from another model"
            )
    if not protocol.staleness.is_constant:
        kind = kind_of(protocol.staleness)
        message = f"must be constant with privacy.shuffler, got {kind}: a shuffled update has no age"
        yield Fault("staleness", message)
    if protocol.partial_work != "whole":
        reason = "a shuffled update holds layers of clients that did unequal work"
        yield Fault("partial_work", f"must be whole with privacy.shuffler, got {protocol.partial_work}: {reason}")
    if protocol.weighting == "samples" and not equal_samples:
        message = "must be uniform with privacy.shuffler where clients hold different numbers of samples, got samples"
        yield Fault("weighting", message)


def _defence_faults(defence: Defence) -> Iterator[Fault]:
    """Yield the faults of `defence` with a shuffler, with fields named relative to the defence."""
    if defence.detector is not None:
        message = (
            f"must be null with privacy.shuffler, got {kind_of(defence.detector)}: a shuffled update has no sender"
        )
        yield Fault("detector", message)
    if defence.strikes is not None:
        yield Fault("strikes", "must be null with privacy.shuffler: a shuffled update has no sender")
    if not defence.rule.is_coordinatewise:
        allowed = "mean, median or trimmed_mean without pre, or another rule that takes each parameter by itself"
        reason = "with privacy.shuffler a row holds layers of several clients"
        yield Fault("rule", f"must be {allowed}, got {kind_of(defence.rule)}: {reason}")


def _waits_for_all(protocol: Protocol) -> bool:
    return protocol.opening.whole_cohort and protocol.dispatch.in_cohorts
