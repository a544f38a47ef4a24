"""Settings of a scenario that secure aggregation refuses, since the server holds no single update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from asyncfl.base.component import components_in, kind_of
from asyncfl.base.errors import Fault
from asyncfl.protocol.dispatch import BufferStatus

if TYPE_CHECKING:
    from asyncfl.protocol.secure_aggregation import SecureAggregation
    from asyncfl.protocol.settings import Protocol

INSTEAD = (
    "secure aggregation shows the server sums only; clip updates at clients (privacy), or do without it. Proofs that a "
    "masked update lies within a range are out of scope"
)
WITH = "with protocol.secure_aggregation"


def secure_aggregation_faults(protocol: Protocol, clients: int) -> Iterator[Fault]:
    """Yield settings of a protocol with secure aggregation that cannot work with `clients` clients; fields are relative
    to the protocol."""
    secure = protocol.secure_aggregation
    assert secure is not None
    if secure.needs_cohort and not protocol.masks_by_cohort:
        yield Fault(
            "secure_aggregation.kind",
            f"must be lightsecagg where a buffer mixes cohorts or versions, got {kind_of(secure)}: its masks cancel "
            "within a cohort that is known before; set it, or protocol.kind: sync",
        )
    if protocol.updates_per_version(clients) == 1:
        yield Fault(
            "secure_aggregation", "must be null where a buffer holds one update, got one: a sum of one is that update"
        )
    if protocol.selection.independent:
        got = f"got {kind_of(protocol.selection)}: threshold and field are set for a cohort of known size"
        yield Fault("selection", f"must draw a fixed number of clients {WITH}, {got}")
    elif protocol.masks_by_cohort:
        yield from _opening_faults(protocol, secure, clients)
    if protocol.partial_work != "whole":
        got = f"got {protocol.partial_work}: updates are weighed by samples and staleness alone"
        yield Fault("partial_work", f"must be whole {WITH}, {got}")
    if protocol.aggregation not in ("delta", "mix"):
        got = f"got {protocol.aggregation}: clients mask differences from the model that they were sent"
        yield Fault("aggregation", f"must be delta or mix {WITH}, {got}")
    if protocol.check_norms:
        yield Fault("check_norms", f"must be null or false {WITH}, got true: {INSTEAD}")
    if protocol.selection.tells_losses:
        got = f"got {kind_of(protocol.selection)}: it follows losses of single clients"
        yield Fault("selection", f"must be one that needs no losses {WITH}, {got}")
    # A quorum or a deadline may take the whole cohort, reserves included.
    most = protocol.opening.updates or protocol.dispatch.at_publish(clients) or clients
    for fault in secure.faults(protocol.share_holders(clients), most):
        yield fault.under("secure_aggregation")


def _opening_faults(protocol: Protocol, secure: SecureAggregation, clients: int) -> Iterator[Fault]:
    """Yield a fault where a buffer may open with fewer updates than must answer: its senders alone are asked."""
    asked = protocol.dispatch.at_publish(clients)
    least = protocol.opening.target(BufferStatus(0, asked, asked, protocol.dispatch.wanted(clients), True))
    if least < (needed := secure.needed(asked)) <= asked:
        yield Fault(
            "secure_aggregation.threshold",
            f"must be at most the {least} updates with which a buffer opens, whose senders unmask it, got {needed} of "
            f"{asked} clients; lower it, or let the server wait for more updates",
        )


def faults_with_secure_aggregation(parts: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the parts of a scenario that cannot be had with secure aggregation."""
    defence, privacy, world = map(parts.get, ("defence", "privacy", "world"))
    if (threats := parts.get("threats")) is not None and any(
        kind_of(one) == "wrong_length" for one in components_in(threats)
    ):
        got = "got wrong_length: a masked vector of another length fits into no sum"
        yield Fault("threats.attack", f"must be one of the right length {WITH}, {got}")
    data, algorithm, compression = map(parts.get, ("data", "algorithm", "compression"))
    for field, rule in {} if defence is None else defence.rules.items():
        if not rule.is_linear:
            yield Fault(f"defence.{field}", f"must be mean {WITH}, got {kind_of(rule)}: {INSTEAD}")
    if defence is not None and defence.detector is not None:
        yield Fault("defence.detector", f"must be null {WITH}, got {kind_of(defence.detector)}: {INSTEAD}")
    if defence is not None and defence.strikes is not None:
        yield Fault("defence.strikes", f"must be null {WITH}, got strikes: {INSTEAD}")
    if algorithm is not None and not algorithm.off:
        got = f"got {kind_of(algorithm)}: others are not supported with it"
        yield Fault("algorithm.kind", f"must be fedavg {WITH}, {got}")
    if compression is not None and not compression.off:
        got = f"got {kind_of(compression)}: masked numbers have no smaller form; secure_aggregation.bits rounds them"
        yield Fault("compression.kind", f"must be none {WITH}, {got}")
    if privacy is not None and privacy.mixing_node is not None:
        yield Fault("privacy.shuffler", f"must be null {WITH}, got one: a node cannot mix masked updates")
    if privacy is not None and getattr(privacy, "adaptive", None) is not None:
        yield Fault("privacy.adaptive", f"must be null {WITH}, got adaptive clipping: its bits are sent one by one")
    for name, link in () if world is None else (("downlink", world.downlink), ("uplink", world.uplink)):
        if link.is_shared:
            got = f"got {link.server_bandwidth_bps:g}: messages of its rounds take no part of shared links"
            yield Fault(f"world.{name}.server_bandwidth_bps", f"must be .inf {WITH}, {got}; leave it out")
    yield from _faults_of_measurements(parts.get("evaluation"))
    if data is not None and data.canaries is not None:
        yield Fault("data.canaries", f"must be null {WITH}, got canaries: they are looked for in single updates")


def _faults_of_measurements(evaluation: Any) -> Iterator[Fault]:
    """Yield the measurements that need single updates."""
    if evaluation is None:
        return
    if evaluation.aggregates:
        yield Fault(
            "evaluation.aggregates", f"must be false {WITH}, got true: it compares a sum with its single updates"
        )
    if evaluation.audit is not None:
        yield Fault("evaluation.audit", f"must be null {WITH}, got an audit: its twins are compared by single updates")
    if evaluation.record != "none":
        got = f"got {evaluation.record}: a recording holds single updates"
        yield Fault("evaluation.record", f"must be none {WITH}, {got}")
