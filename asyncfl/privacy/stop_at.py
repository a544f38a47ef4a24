"""A budget at which a client stops answering: `privacy.stop_at` of every scheme.

A client counts each upload when it begins to send it, whether or not it arrives: an eavesdropper may hear it. It sends
none that would take it past the budget; what takes it just there it still sends. After that it answers nothing for the
rest of the run, which goes on with the others. What an upload is worth is the scheme's own noise over the scheme's own
sensitivity, as in the ledger (`ledger.budgets`): where that sensitivity is heuristic, so is the budget.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.component import Described

StopAccountant = Literal["exact", "rdp", "basic", "naive"]


class StopAt(Described):
    """Largest epsilon that all uploads of one client may be worth together."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """The budget of each client for the whole run."""
    delta: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Probability with which it may be broken, 0..1; 0: pure, for Laplace noise; null: the delta that the scheme states
    for its uploads."""
    accountant: StopAccountant = "exact"
    """What uploads are worth together: the smallest epsilon that holds | by Renyi accounting | what each is worth,
    added up | what the scheme claims for each, added up, which spends its delta with every upload."""

    @model_validator(mode="after")
    def _check_delta(self) -> StopAt:
        if self.accountant == "naive" and self.delta is not None:
            raise ValueError(
                f"delta has no meaning with accountant: naive, which adds up claims, got {self.delta:g}; leave it out, "
                "or use exact, rdp or basic"
            )
        return self

    def __str__(self) -> str:
        delta = "" if self.delta is None else f", delta {self.delta:g}"
        return f"epsilon {self.epsilon:g} ({self.accountant}{delta})"
