"""Settings that cannot work with a shuffler (`privacy.shuffler`), which exchanges layers between the clients' updates.

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
    if defence.detector is not None:
        got = f"got {kind_of(defence.detector)}: {NO_SENDER}"
        yield Fault("defence.detector", f"must be null with privacy.shuffler, {got}")
    if defence.strikes is not None:
        yield Fault("defence.strikes", f"must be null with privacy.shuffler: {NO_SENDER}")
    if not defence.rule.is_coordinatewise:
        allowed = "mean, median or trimmed_mean without pre, or another rule that takes each parameter by itself"
        got = f"got {kind_of(defence.rule)}: with privacy.shuffler a row holds layers of several clients"
        yield Fault("defence.rule", f"must be {allowed}, {got}")
