"""A privacy budget at which a client stops taking part: `privacy.stop_at` of every scheme.

A client counts each upload, and noised scores (`privacy.scores`), when it begins to send, whether or not they arrive.
An upload that would exceed the budget is not sent, and the client stays silent for the rest of the run. What counts is
what a client can know in advance: all uploads on a tapped link count as caught, and to an adversary with models alone
an update counts by its own noise or, without any, by the server's guaranteed multiplier (`Scheme.model_multiplier`).
If the scheme's sensitivity is heuristic, so is the budget.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from asyncfl.base.component import Described
from asyncfl.base.quantities import MeasuredIn


class StopAt(Described):
    """Upper bound on the epsilon of everything that one client releases to an adversary."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False, examples=[200.0]), MeasuredIn("epsilon")]
    """Budget of each client for the whole run."""
    delta: Annotated[float, Field(ge=0, lt=1), MeasuredIn("probability")] | None = None
    """Probability with which the budget may be broken, 0..1; 0: pure, for Laplace noise; null: the delta that the
    scheme states for its uploads."""
    accountant: Literal["exact", "rdp", "basic", "naive"] = "exact"
    """Composition of the releases: the smallest epsilon that holds | Renyi accounting | the sum of the releases'
    epsilons | the sum of the scheme's claims, which spends the scheme's delta with every upload."""
    adversary: Literal["server", "eavesdropper", "both", "curious", "public"] = "server"
    """Adversary whose knowledge is bounded: the server | an eavesdropper (`world.tap`) | both together | the curious
    clients (`privacy.curious`) | the public, which reads all published models."""
    of: Literal["uploads", "models", "all"] = "uploads"
    """Releases that count: the client's uploads and scores | published models alone | everything that the adversary may
    hold."""

    @model_validator(mode="after")
    def _check_meaning(self) -> StopAt:
        if self.accountant == "naive" and self.delta is not None:
            raise ValueError(
                f"delta has no meaning with accountant: naive, which adds up claims, got {self.delta:g}; leave it out, "
                "or use exact, rdp or basic"
            )
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
