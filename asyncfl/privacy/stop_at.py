"""A privacy budget at which a client stops taking part: `privacy.stop_at` of every scheme.

A client counts each upload when it begins to send it, whether or not it arrives, because an eavesdropper may hear it.
It sends no upload that would exceed the budget. An upload that reaches the budget exactly is still sent. Then the
client stays silent for the rest of the run, and the run continues with the others. The epsilon of an upload follows
from the scheme's own noise and sensitivity, as in the ledger (`ledger.budgets`). If that sensitivity is heuristic, so
is the budget.

The adversary, and what a client can know of it in advance, decide what is counted:

- An adversary that holds the client's uploads learns nothing more from models made of them, so only uploads count.
- A client cannot know what a tap caught. If the tap covers uploads (`world.tap.uplink`, and `scoring`, which sends
  updates to other clients), every upload counts as caught.
- Curious clients hold models, and updates if a detector asks them for scores. The public holds only models.
- To an adversary that holds only models, an update counts by its own noise over its own sensitivity. If clients add no
  noise, it counts by the server's guaranteed multiplier (`Scheme.model_multiplier`), which holds only if the weights of
  updates do not depend on their values. Noise of other clients is not credited, because no client knows it in advance.
- Noised scores (`privacy.scores`) count like uploads, before they are sent and whether or not they are heard, since the
  published models depend on them. A client returns scores as long as its next upload stays within the budget.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn

StopAccountant = Literal["exact", "rdp", "basic", "naive"]
StopAdversary = Literal["server", "eavesdropper", "both", "curious", "public"]
StopOf = Literal["uploads", "models", "all"]


class StopAt(Described):
    """Upper bound on the epsilon of everything that one client releases to an adversary."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False, examples=[200.0]), MeasuredIn("epsilon")]
    """Budget of each client for the whole run."""
    delta: Annotated[float, Field(ge=0, lt=1), MeasuredIn("probability")] | None = None
    """Probability with which the budget may be broken, 0..1; 0: pure, for Laplace noise; null: the delta that the
    scheme states for its uploads."""
    accountant: StopAccountant = "exact"
    """Composition of the releases: the smallest epsilon that holds | Renyi accounting | the sum of the releases'
    epsilons | the sum of the scheme's claims, which spends the scheme's delta with every upload."""

    adversary: StopAdversary = "server"
    """Adversary whose knowledge is bounded: the server | an eavesdropper (`world.tap`) | both together | the curious
    clients (`privacy.curious`) | the public, which reads all published models."""
    of: StopOf = "uploads"
    """Releases that count: the client's uploads and scores | published models alone | everything that the adversary may
    hold."""

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
                "of: uploads has no meaning with adversary: public, which holds only models; use of: models or all"
            )
        return self

    @property
    def adversary_is_server(self) -> bool:
        """Whether the adversary holds everything that the server holds."""
        return self.adversary in ("server", "both")

    def counts_models(self, holds_uploads: bool) -> bool:
        """Whether the adversary learns of updates only through models. `holds_uploads`: whether it may hold uploads at
        all; the server always does, the public never."""
        if self.adversary_is_server:
            return False
        return self.of == "models" or self.adversary == "public" or (self.of == "all" and not holds_uploads)

    def __str__(self) -> str:
        delta = "" if self.delta is None else f", delta {self.delta:g}"
        return f"epsilon {self.epsilon:g} ({self.accountant}{delta})"
