"""What cannot work with adaptive budgets, beyond what the fields say by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from asyncfl.errors import Fault
from asyncfl.privacy.context import LocalTraining

if TYPE_CHECKING:
    from asyncfl.privacy.schemes.adaptive.scheme import AdaptiveBudgets


def budget_faults(scheme: AdaptiveBudgets, clients: int) -> Iterator[Fault]:
    """A number of budgets that is not that of the clients, budgets below the floor, a control of what never changes."""
    if len(scheme.budgets) != clients:
        message = f"must be one for each of the {clients} clients, got {len(scheme.budgets)}"
        yield Fault("budgets", f"{message}; change privacy.budgets or data.clients")
    if scheme.adjustment != "none":
        for place, budget in enumerate(scheme.budgets):
            if budget < scheme.floor:
                message = f"must be at least privacy.floor ({scheme.floor:g}), got {budget:g}"
                yield Fault(f"budgets.{place}", f"{message}; raise it or lower privacy.floor")
    elif scheme.equal_spend is not None:
        message = f"must be null with privacy.adjustment: none, got {scheme.equal_spend}"
        yield Fault("equal_spend", f"{message}; it is the control of a run whose budgets change")


def training_faults(scheme: AdaptiveBudgets, training: LocalTraining) -> Iterator[Fault]:
    """Training in which an update over the number of steps is no mean gradient."""
    if scheme.upload == "gradient" and (training.momentum or training.proximal_mu):
        got = f"momentum {training.momentum:g} and proximal_mu {training.proximal_mu:g}"
        yield Fault(
            "upload",
            "gradient takes the update over its steps for the mean gradient, which it is for plain SGD only: "
            f"training.momentum and training.proximal_mu must be 0, got {got}; set them to 0 or use upload: update",
        )
