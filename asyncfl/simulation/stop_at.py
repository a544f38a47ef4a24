"""Clients that stop answering at their budget: when, and how the server hears of it."""

from __future__ import annotations

from asyncfl.messages import BudgetSpent
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.simulation.clock import Clock, Tell
from asyncfl.simulation.task import Tasks
from asyncfl.trace import Kind


class SpentBudgets:
    """Who of one seed has spent its budget."""

    def __init__(self, meter: BudgetTracker | None, clock: Clock, tasks: Tasks, tell: Tell) -> None:
        """`meter` None: there are no budgets to stop at."""
        self.meter = meter
        self.clock = clock
        self.tasks = tasks
        self.tell = tell
        self.spent: dict[int, float] = {}
        """Client -> when its budget was spent: its last upload began then."""

    def begin(self, clients: int) -> None:
        """Have those say so whose budget is too small for any upload."""
        for client in range(clients if self.meter is not None else 0):
            self._check(client)

    def send(self, client: int) -> None:
        """An upload begins. Sent is spent, whether or not it arrives: somebody may hear it."""
        if self.meter is not None:
            self.meter.send(client)
            self._check(client)

    def _check(self, client: int) -> None:
        """Have the client say so where one more upload would take it past its budget."""
        meter = self.meter
        if meter is None or meter.affords(client, self.tasks.turns[client]):
            return
        self.spent[client] = self.clock.now
        detail = (
            f"epsilon {meter.spent(client):.6g} of {meter.stop_at.epsilon:g} spent on {meter.uploads(client)} uploads, "
            f"one more would make it {meter.would_spend(client):.6g}"
        )
        self.clock.record(Kind.BUDGET_SPENT, client=client, detail=detail)
        self.tell(BudgetSpent(self.clock.now, client))
