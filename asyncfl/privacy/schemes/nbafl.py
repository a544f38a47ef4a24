"""NbAFL: clients clip and noise their models before the server averages, and the server adds what is still missing.

Source: Wei et al., Federated Learning With Differential Privacy: Algorithms and Performance Analysis,
algorithm 1. The noise itself is computed in `server_noise`; what it is worth, in `ledger`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Tag

from asyncfl.privacy.accounting.composition import Composition, classical_share
from asyncfl.privacy.accounting.gaussian import classical_limit
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.noise import server_noise
from asyncfl.privacy.noise.server_noise import BRule, NbaflNoise, Sensitivity, model_std, nbafl_noise
from asyncfl.privacy.noise.shares import UNEVEN, max_client_weight, noise_scale, of_clients
from asyncfl.privacy.ranges import Budget, Delta, Factor
from asyncfl.privacy.release import Status
from asyncfl.privacy.scheme import Guarantee, Scheme, State
from asyncfl.privacy.schemes.exposures import AnyExposures, resolve_exposures

NORM_GROWTH_WORTH_A_NOTE = 2.0


def _form(value: Any) -> str:
    return "word" if isinstance(value, str) else "number"


ClipNorm = Annotated[
    Annotated[Literal["median"], Tag("word")] | Annotated[Factor, Tag("number")],
    Discriminator(_form),
]


class Nbafl(Scheme):
    """Noising before aggregation: Gaussian noise on clipped models, on the way up and on the way down."""

    kind: Literal["nbafl"] = "nbafl"
    epsilon: Budget
    """Privacy budget of the whole run, for uploads and for published models each; .inf: no clipping and no noise."""
    delta: Delta = 0.01
    """Probability with which the budget may be broken, 0..1, exclusive."""
    exposures: AnyExposures = 1
    """L: uploads of one client that an eavesdropper is assumed to hold; a number, a share or `measured`."""
    clip_norm: ClipNorm = "median"
    """C: L2 norm that models are clipped to, a number or the median of the unclipped norms of each aggregation."""
    constant: Factor = 1.25
    """Factor on c1 = sqrt(2 ln(1.25/delta)); compositions `analytic` and `rdp` have no c1 and leave it out."""
    sensitivity: Sensitivity = "2C/m"
    """What one sample, or one client, can change; readings in `server_noise.upload_sensitivity`."""
    composition: Composition = "naive"
    """How the noise grows with the number of releases; readings in `composition`."""
    b_rule: BRule = "paper"
    """Discount for drawing K of N clients; readings in `server_noise`."""

    @property
    def off(self) -> bool:
        """Whether epsilon is infinite: no clipping and no noise."""
        return math.isinf(self.epsilon)

    def noise(
        self, context: PrivacyContext, clip_norm: float, contributions: Sequence[Contribution] = ()
    ) -> NbaflNoise:
        """Noise of clients and server at one clip norm, with the intermediate quantities, before the server's rate.

        `contributions`: see `server_std`. How much more than in an even mean they weigh is looked at, not how many they
        are: the paper's noise is that of K.
        """
        return nbafl_noise(
            clients=context.clients,
            participants=context.participants,
            rounds=context.rounds,
            exposures=context.exposures,
            samples=context.smallest_samples,
            clip_norm=clip_norm,
            epsilon=self.epsilon,
            delta=self.delta,
            constant=self.constant,
            sensitivity=self.sensitivity,
            composition=self.composition,
            b_rule=self.b_rule,
            max_client_weight=max_client_weight(context, contributions),
            noise_scale=noise_scale(context, contributions),
        )

    def resolve_exposures(self, rounds: int, participants: int, clients: int) -> int | None:
        """L, or None where it must be measured; without noise 0. Raises ScenarioError if L > rounds."""
        return 0 if self.off else resolve_exposures(self.exposures, rounds, participants, clients)

    def clip_norm_of(self, norms: NDArray[np.floating], state: State | None = None) -> float | None:
        """The number, or the median of `norms` (n,); None at infinite epsilon."""
        if self.off:
            return None
        return float(np.median(norms)) if self.clip_norm == "median" else float(self.clip_norm)

    def upload_std(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """sigma_u, the same for all clients: m is the smallest data set's, not this client's own."""
        return 0.0 if self.off or clip_norm is None else self.noise(context, clip_norm).sigma_u

    def server_std(
        self,
        context: PrivacyContext,
        clip_norm: float | None,
        state: State | None = None,
        contributions: Sequence[Contribution] = (),
    ) -> float:
        """sigma_d, computed in `server_noise.nbafl_noise`, times the server's rate."""
        if self.off or clip_norm is None:
            return 0.0
        return context.rate * self.noise(context, clip_norm, contributions).sigma_d

    def upload_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Delta_u, see `server_noise.upload_sensitivity`; infinite without clipping."""
        if self.off or clip_norm is None:
            return math.inf
        return server_noise.upload_sensitivity(clip_norm, context.smallest_samples, self.sensitivity)

    def model_sensitivities(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution]
    ) -> dict[int, float]:
        """Delta_d, see `server_noise.model_sensitivity`, with what the client's updates weigh in place of 1/K; infinite
        without clipping."""
        if self.off or clip_norm is None:
            return super().model_sensitivities(context, clip_norm, contributions)
        whole = server_noise.model_sensitivity(clip_norm, context.smallest_samples, 1, self.sensitivity)
        return of_clients(context, contributions, lambda one: whole)

    def _status(self, proven: bool) -> Status:
        # A median of the clients' norms depends on the data it is to protect.
        return "proven" if proven and self.clip_norm != "median" else "heuristic"

    def upload_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """(epsilon, delta) for L uploads of a client, for one replaced sample (`2C`: any change of its data)."""
        if self.off:
            return None
        whole = self.sensitivity == "2C"
        neighbours = "one client's data replaced" if whole else "one sample replaced"
        return Guarantee(neighbours, self._status(whole), self.epsilon, self.delta, context.exposures)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """(epsilon, delta) for all T published models."""
        if self.off:
            return None
        whole = self.sensitivity != "2C/m"
        neighbours = "one client's data replaced" if whole else "one sample replaced"
        status = self._status(whole and context.equal_weights)
        return Guarantee(neighbours, status, self.epsilon, self.delta, context.rounds)

    def norm_growth(self, context: PrivacyContext, n_parameters: int) -> float:
        """Factor by which noise alone makes the model's norm grow over the run, if C is the median; else 1.

        Clipping to the median makes noise proportional to the norm, so each round multiplies the norm by
        sqrt(1 + k^2 d), k the noise of a published model at C = 1 and d its `n_parameters`.
        """
        if self.off or self.clip_norm != "median":
            return 1.0
        k = model_std(self.noise(context, 1.0), context.participants)
        log_growth = context.rounds / 2 * math.log1p(k**2 * n_parameters)
        return math.exp(min(log_growth, 700.0))

    def notes(self, context: PrivacyContext, n_parameters: int) -> list[str]:
        """What is assumed about the adversary and what does not hold."""
        if self.off:
            return []
        notes = [
            f"exposures: {context.exposures} overheard uploads per client are an assumption about the "
            "eavesdropper, not a guarantee"
        ]
        if self.sensitivity != "2C":
            notes.append(
                "sensitivity 2C/m is heuristic: it is derived for an average of per-sample minimisers, "
                "not for a model trained by SGD; sensitivity: 2C always holds for a clipped model"
            )
        if not context.equal_weights:
            notes.append(f"{UNEVEN}; the sensitivity of published models is heuristic")
        notes += self._clip_notes(context, n_parameters)
        if context.participants < context.clients and self.b_rule != "none":
            notes += self._draw_notes(context)
        notes += self._composition_notes(context)
        return notes

    def _clip_notes(self, context: PrivacyContext, n_parameters: int) -> list[str]:
        if self.clip_norm != "median":
            return []
        notes = ["clip_norm: median is computed from the clients' norms, a release that no ledger covers"]
        growth = self.norm_growth(context, n_parameters)
        if growth > NORM_GROWTH_WORTH_A_NOTE:
            notes.append(
                f"clip_norm: median feeds noise back into the norm, which grows about {growth:.3g}-fold over "
                f"{context.rounds} rounds from noise alone"
            )
        return notes

    def _draw_notes(self, context: PrivacyContext) -> list[str]:
        notes = ["the discount b holds only while the eavesdropper cannot tell which clients were drawn"]
        if self.b_rule == "paper":
            b = self.noise(context, 1.0).b
            found = "does not exist here, so the server adds nothing" if b is None else f"is {b:.4g} here"
            notes.append(
                f"b_rule: paper, whose b {found}, does not invert amplification by subsampling; "
                "b_rule: amplification does"
            )
        if self.composition in ("analytic", "rdp"):
            notes.append(
                "b is derived for an even split of epsilon over the rounds; with composition "
                f"{self.composition} it is heuristic"
            )
        return notes

    def _composition_notes(self, context: PrivacyContext) -> list[str]:
        if self.composition in ("analytic", "rdp"):
            if self.constant == 1:
                return []
            return [f"constant {self.constant:g} has no effect: composition {self.composition} has no c1"]
        notes = []
        if self.composition == "naive" and max(context.exposures, context.rounds) > 1:
            notes.append(
                "composition: naive gives (epsilon, releases x delta), strictly; naive_delta_split repairs that"
            )
        return notes + self._limit_notes(context)

    def _limit_notes(self, context: PrivacyContext) -> list[str]:
        """The classical calibration past its limit, which one release alone decides: an upload has epsilon/L.

        Where no upload is overheard it is a published model, with epsilon/T.
        """
        uploads, models = (context.exposures, "overheard uploads"), (context.rounds, "published models")
        n, what = uploads if context.exposures else models
        one = classical_share(n, self.epsilon, self.delta, self.composition)
        limit = classical_limit(one.delta, self.constant)
        if one.epsilon <= limit:
            return []
        each = f"each of {n} {what} has {one.epsilon:.4g} of {self.epsilon:g} and" if n > 1 else ""
        return [
            f"the classical calibration holds up to epsilon {limit:.4g} for delta {one.delta:.4g} and "
            f"constant {self.constant:g}; {each or f'one release at {one.epsilon:.4g}'} gives away more than claimed, "
            "see the ledger"
        ]
