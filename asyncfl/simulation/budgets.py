"""Clients that stop answering at their budget: when, and how the server hears of it."""

from __future__ import annotations

from asyncfl.federation.tasks_in_flight import TaskInFlight, TasksInFlight
from asyncfl.messages import BudgetSpent
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.simulation.clock import Clock
from asyncfl.trace import Kind


class SpentBudgets:
    """Who of one seed has spent its budget."""

    def __init__(self, tracker: BudgetTracker | None, clock: Clock, tasks: TasksInFlight) -> None:
        """`tracker` None: there are no budgets to stop at."""
        self.tracker = tracker
        self.clock = clock
        self.tasks = tasks
        self.spent: dict[int, float] = {}
        """Client -> when its budget was spent: its last upload began then."""

    def begin(self, clients: int) -> None:
        """Have those say so whose budget is too small for any upload."""
        for client in range(clients if self.tracker is not None else 0):
            self._check(client)

    def send(self, task: TaskInFlight) -> None:
        """The upload of a task begins. Sent is spent, whether or not it arrives: somebody may hear it."""
        if self.tracker is not None:
            self.tracker.charge_upload(task.client, task.epochs)
            self._check(task.client)

    def answers(self, client: int, models: int) -> bool:
        """Whether the client scores so many models. If it does it counts from now on: somebody may hear it."""
        return client not in self.spent and (self.tracker is None or self.tracker.charge_scores(client, models))

    def _check(self, client: int) -> None:
        """Have the client say so where one more upload would take it past its budget."""
        tracker = self.tracker
        if tracker is None or tracker.affords(client, self.tasks.turns[client]):
            return
        self.spent[client] = self.clock.now
        self.clock.record(Kind.BUDGET_SPENT, client=client, detail=tracker.describe_spending(client))
        self.clock.tell(BudgetSpent(self.clock.now, client))
