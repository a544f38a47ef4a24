"""Observers of the tasks of a run: audits, which train some tasks again on other data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asyncfl.client.assignment import Assignment
from asyncfl.privacy import Contribution

if TYPE_CHECKING:
    from asyncfl.client.payloads import Payloads


@dataclass(frozen=True)
class Collection:
    """Tasks whose updates the server collected together, with their uploads."""

    version: int
    """The newest version at that time."""
    assignments: Sequence[Assignment]
    """Each task with the model that its client was sent."""
    payloads: Payloads
    """Their uploads, one row per assignment; the models are valid until the next collection."""


class TaskObserver:
    """Base class of observers. An observer uses no random stream of the run and changes nothing, so that an observed
    run equals an unobserved one."""

    def trained(self, assignment: Assignment, contribution: Contribution, attacked: bool) -> None:
        """Called after a task was trained ahead of its collection, because the scheme needs every task."""

    def carried_out(self, collection: Collection) -> None:
        """Called for each collection, before the privacy scheme updates its state."""
