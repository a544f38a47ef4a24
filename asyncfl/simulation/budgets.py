"""Clients that stop at their privacy budget: when they stop, and how the server learns of it."""

from __future__ import annotations

from asyncfl.base.messages import BudgetSpent
from asyncfl.federation.tasks_in_flight import TaskInFlight, TasksInFlight
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.simulation.clock import Clock
from asyncfl.trace import Kind


class SpentBudgets:
    """The clients of one seed whose budget is spent."""

    def __init__(self, tracker: BudgetTracker | None, clock: Clock, tasks: TasksInFlight) -> None:
        """`tracker`: None without budgets."""
        self.tracker = tracker
        self.clock = clock
        self.tasks = tasks
        self.spent: dict[int, float] = {}
        """Client -> time at which its budget was spent, when its last upload began."""

    def begin(self, clients: int) -> None:
        """Report to the server the clients whose budget is too small for any upload."""
        for client in range(clients if self.tracker is not None else 0):
            self._check(client)

    def send(self, task: TaskInFlight) -> None:
        """Charge the upload of a task as it begins, and report to the server if the client's budget is spent now.

        It counts whether or not it arrives, since it may be overheard.
        """
        if self.tracker is not None:
            self.tracker.charge_upload(task.client, task.epochs)
            self._check(task.client)

    def answers(self, client: int, models: int) -> bool:
        """Whether the client scores `models` models. If so, the scores count from now on, since they may be
        overheard."""
        return client not in self.spent and (self.tracker is None or self.tracker.charge_scores(client, models))

    def _check(self, client: int) -> None:
        """Report to the server a client for which one more upload would exceed its budget."""
        tracker = self.tracker
        if tracker is None or tracker.affords(client, self.tasks.turns[client]):
            return
        self.spent[client] = self.clock.now
        self.clock.record(Kind.BUDGET_SPENT, client=client, detail=tracker.describe_spending(client))
        self.clock.tell(BudgetSpent(self.clock.now, client))
