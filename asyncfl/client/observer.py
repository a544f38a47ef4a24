"""Who looks on while the tasks of a run are carried out: audits, which train some of them once more on other data."""

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
    """The tasks that the server collected together, and what came of them."""

    version: int
    """The newest version at that moment."""
    assignments: Sequence[Assignment]
    """Each task with the model that its client was sent."""
    payloads: Payloads
    """What they upload, a row for each assignment; the models are on loan until the next collection."""


class TaskObserver:
    """Is told of each collection when it has been carried out. It draws from no stream of the run's and changes
    nothing, so that a run that is looked at is the same run."""

    def trained(self, assignment: Assignment, contribution: Contribution, attacked: bool) -> None:
        """Take note of a task of a scheme that needs every task: it was trained before it is known who wants it."""

    def carried_out(self, collection: Collection) -> None:
        """Take note of a collection, before the scheme does."""
