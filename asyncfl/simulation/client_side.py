"""The clients of one seed as the clock needs them."""

from __future__ import annotations

from dataclasses import dataclass

from asyncfl.client import Attackers
from asyncfl.federation.tasks_in_flight import Workload
from asyncfl.privacy.ledger.budgets import BudgetTracker
from asyncfl.server import Scoring
from asyncfl.simulation.training import ClientWork


@dataclass(frozen=True)
class ClientSide:
    """The clients' work in one seed, and its costs."""

    load: Workload
    work: ClientWork | None = None
    """Trains and scores; None to simulate the clock without training."""
    attackers: Attackers | None = None
    """Registers each task that begins, and tells how fast it is done (flooding); None without attackers."""
    budgets: BudgetTracker | None = None
    """Budgets at which clients stop; None without budgets."""
    scoring: Scoring = "parallel"
    """Whether a client scores models during a task (`parallel`) or after it (`serial`)."""
