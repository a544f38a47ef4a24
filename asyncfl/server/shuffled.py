"""What a protocol and a defence must be like where a trusted node swaps layers between the clients' updates.

The server then gets rows that belong to nobody: each is put together from layers of several clients. Only what treats
all rows alike may follow: a mean of equal weights, or a rule that goes coordinate by coordinate.
"""

from __future__ import annotations

from collections.abc import Iterator

from asyncfl.component import kind_of
from asyncfl.defences import Defence
from asyncfl.errors import Fault
from asyncfl.server.protocol import Protocol


def shuffler_faults(protocol: Protocol, defence: Defence, clients: int, equal_samples: bool) -> Iterator[Fault]:
    """What does not go together with a shuffler in a federation of `clients`, fields named from the scenario on.

    `equal_samples`: whether all clients hold the same number of samples.
    """
    dispatch = protocol.dispatch
    whole = protocol.opening.whole_cohort and dispatch.in_cohorts
    if not whole:
        way_out = "set protocol.kind: sync and protocol.open: {kind: all}"
        yield Fault("privacy.shuffler", f"waits for a whole cohort, which this protocol does not; {way_out}")
    elif (asked := dispatch.at_publish(clients)) > (wanted := dispatch.wanted(clients)):
        message = f"must be 1 where privacy.shuffler waits for the cohort, got one with reserves: {asked} for {wanted}"
        yield Fault("protocol.over_selection", message)
    if whole and protocol.late != "drop":
        message = "must be drop with privacy.shuffler, got carry: late updates started from another model"
        yield Fault("protocol.late", message)
    if not protocol.staleness.is_constant:
        kind = kind_of(protocol.staleness)
        message = f"must be constant with privacy.shuffler, got {kind}: a shuffled update has no age"
        yield Fault("protocol.staleness", message)
    if protocol.weighting == "samples" and not equal_samples:
        message = "must be uniform with privacy.shuffler where clients hold different numbers of samples, got samples"
        yield Fault("protocol.weighting", message)
    if defence.detector is not None:
        message = f"must be null with privacy.shuffler, got {kind_of(defence.detector)}: a shuffled update is nobody's"
        yield Fault("defence.detector", message)
    if defence.strikes is not None:
        yield Fault("defence.strikes", "must be null with privacy.shuffler: a shuffled update is nobody's")
    if not defence.rule.is_coordinatewise:
        allowed = "mean, median or trimmed_mean without pre, or another rule that takes each parameter by itself"
        reason = "with privacy.shuffler a row holds layers of several clients"
        yield Fault("defence.rule", f"must be {allowed}, got {kind_of(defence.rule)}: {reason}")
