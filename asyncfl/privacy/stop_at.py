"""A budget at which a client stops answering: `privacy.stop_at` of every scheme.

A client counts each upload when it begins to send it, whether or not it arrives: an eavesdropper may hear it. It sends
none that would take it past the budget; what takes it just there it still sends. After that it answers nothing for the
rest of the run, which goes on with the others. What an upload is worth is the scheme's own noise over the scheme's own
sensitivity, as in the ledger (`ledger.budgets`): where that sensitivity is heuristic, so is the budget.

What is counted follows from the adversary, and from what the client can know of it before it answers:

- who holds the client's uploads learns nothing more from models that are made of them, so uploads count alone;
- a client cannot know what a tap caught: where it covers uploads (`world.tap.uplink`, and `scoring`, for which updates
  are sent to other clients) each one counts as caught;
- curious clients hold the updates that they are asked to score, where a detector asks clients, and models; the public
  holds models alone;
- to who holds models alone an update is worth what the version that it enters may say of it at most, whatever enters it
  with it: its own noise over its own sensitivity, or where clients add none the server's (`Scheme.model_multiplier`).
  Noise of others that hides it too is not counted on, for nobody knows it before;
- noised scores (`privacy.scores`) count as uploads do, before they are sent, heard or not, since models tell what they
  decided; a client gives them as long as its next upload stays within the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.component import Described
from asyncfl.quantities import MeasuredIn

StopAccountant = Literal["exact", "rdp", "basic", "naive"]
StopAdversary = Literal["server", "eavesdropper", "both", "curious", "public"]
StopOf = Literal["uploads", "models", "all"]


@dataclass(frozen=True)
class BudgetScope:
    """What counts towards a budget."""

    by_models: bool = False
    """Whether the adversary knows of updates by models alone; else it holds them."""


class StopAt(Described):
    """Largest epsilon that what one client gives away may be worth together to an adversary."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False, examples=[200.0]), MeasuredIn("epsilon")]
    """The budget of each client for the whole run."""
    delta: Annotated[float, Field(ge=0, lt=1), MeasuredIn("probability")] | None = None
    """Probability with which it may be broken, 0..1; 0: pure, for Laplace noise; null: the delta that the scheme states
    for its uploads."""
    accountant: StopAccountant = "exact"
    """What uploads are worth together: the smallest epsilon that holds | by Renyi accounting | what each is worth,
    added up | what the scheme claims for each, added up, which spends its delta with every upload."""

    adversary: StopAdversary = "server"
    """Whose knowledge is bounded: the server's | what a tap may hear (`world.tap`) | what both hold together | what
    curious clients are sent (`privacy.curious`) | what everybody may read, all published models."""
    of: StopOf = "uploads"
    """What it is bounded of: the client's uploads and scores | what published models say of it, alone | all that the
    adversary may hold."""

    @model_validator(mode="after")
    def _check_delta(self) -> StopAt:
        if self.accountant == "naive" and self.delta is not None:
            raise ValueError(
                f"delta has no meaning with accountant: naive, which adds up claims, got {self.delta:g}; leave it out, "
                "or use exact, rdp or basic"
            )
        return self

    @model_validator(mode="after")
    def _check_of(self) -> StopAt:
        if self.of == "models" and self.adversary_is_server:
            raise ValueError(
                f"of: models has no meaning with adversary: {self.adversary}, which holds the uploads that models are "
                "made of and knows the server's noise; use of: uploads or all, or adversary: eavesdropper"
            )
        if self.of == "uploads" and self.adversary == "public":
            raise ValueError(
                "of: uploads has no meaning with adversary: public, which holds models alone; use of: models or all"
            )
        return self

    @property
    def adversary_is_server(self) -> bool:
        """Whether the adversary holds all that the server does."""
        return self.adversary in ("server", "both")

    def scope(self, holds_uploads: bool) -> BudgetScope:
        """What counts, where the adversary may hold uploads or not; the server does, the public does not."""
        if self.adversary_is_server:
            return BudgetScope()
        by_models = self.of == "models" or self.adversary == "public" or (self.of == "all" and not holds_uploads)
        return BudgetScope(by_models)

    def __str__(self) -> str:
        delta = "" if self.delta is None else f", delta {self.delta:g}"
        return f"epsilon {self.epsilon:g} ({self.accountant}{delta})"
