"""Layers that are the clients' own, where clients are on machines of their own: what the server cannot know of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from asyncfl.base.errors import Fault
from asyncfl.scenario import Scenario


def unseen_faults(scenario: Scenario) -> Iterator[Fault]:
    """What would take the clients' own layers, or give them some."""
    if scenario.model.initial is not None:
        yield Fault(
            "model.initial",
            "must be null where model.personal is set and clients are on machines of their own: they are sent the "
            "shared layers alone, and begin with own ones that the scenario's seed draws",
        )
    evaluation = scenario.evaluation
    if evaluation.keep != "none":
        yield Fault(
            "evaluation.keep",
            "must be none where model.personal is set: the server never has a whole model; leave it out",
        )
    if evaluation.clients_every:
        yield Fault(
            "evaluation.clients_every",
            f"must be 0 where model.personal is set, got {evaluation.clients_every}: nobody has a client's own layers "
            "but itself; leave it out",
        )
    if evaluation.metrics:
        yield Fault(
            "evaluation.metrics", "must be empty where model.personal is set: the server never has a whole model"
        )


def unseen_notes(renewed: Iterable[int]) -> list[str]:
    """What a reader of the numbers must know. `renewed`: clients that came back as another process."""
    notes = [
        "live: model.personal leaves the server the shared layers alone, so no version is judged: what is known are "
        "the losses that clients report of their own training (train_loss in clients.parquet), without privacy or "
        "where protocol.selection needs them"
    ]
    if clients := sorted(renewed):
        named = ", ".join(map(str, clients))
        notes.append(
            f"live: clients {named} came back as other processes, and began with the initial personal layers again"
        )
    return notes
