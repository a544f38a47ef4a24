"""The clients of one seed, as far as the clock has to know them."""

from __future__ import annotations

from dataclasses import dataclass

from asyncfl.client import Attackers
from asyncfl.federation.tasks_in_flight import Workload
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.server import Scoring
from asyncfl.simulation.training import ClientWork


@dataclass(frozen=True)
class ClientSide:
    """What the clients of one seed do, and what it costs them."""

    load: Workload
    work: ClientWork | None = None
    """Trains and scores; None: the clock runs alone, without training."""
    attackers: Attackers | None = None
    """Are told of each task that is begun, and how fast it is done (flooding); None: nobody attacks."""
    budgets: BudgetTracker | None = None
    """Budgets at which clients stop answering; None: there are none."""
    scoring: Scoring = "parallel"
    """Whether a client scores models while it is at a task, or after it."""
