"""DP-FTRL: clipped updates, and noise of a trusted server that is correlated over the versions of the model.

With independent noise a model carries the noise of every version so far. Correlated noise (`privacy.factorisation`)
takes earlier noise back, and needs no secret sample of clients. Its proof counts the versions that a client's updates
enter: at most k, at least b apart (`protocol.max_participations` and `protocol.min_separation`, which the server
enforces). Such a client moves C g by at most s(k, b) (`Factorisation.sensitivity`), and the noise of version v is

    z s(k, b) S rate/n a_v (C^-1 Z)_v,     Z independent standard normal

for clip norm S, n updates and the largest weight a_v of a client relative to a uniform mean (`client_weights`). So all
versions together are one Gaussian release of multiplier z (z/2 for `replace`), whatever the weights are. The ledger
counts the versions that a client's updates did enter, with their weights, which may be less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.training import Training
from asyncfl.privacy.accounting.gaussian import exact_epsilon, squared_mu_of
from asyncfl.privacy.client_weights import UNEVEN_WEIGHTS, client_sensitivities, max_client_weight
from asyncfl.privacy.correlation import AnyFactorisation, Factorisation, Tree
from asyncfl.privacy.correlation.factorisation import real_participations
from asyncfl.privacy.ranges import LEAST, MOST, Delta, Factor, within
from asyncfl.privacy.release import Contribution, PrivacyContext
from asyncfl.privacy.scheme import ClipTarget, FixedNorm, Guarantee, ModelNoise, Scheme, State


class DpFtrl(Scheme):
    """Clipped updates, and server noise that is correlated over versions.

    Source: Kairouz et al. 2021 (Practical and Private (Deep) Learning without Sampling or Shuffling); Denisov et al.
    2022 and Choquette-Choo et al. 2023 for other factorisations than the tree. Under asynchrony, with weights by
    staleness: ours.
    """

    kind: Literal["dp_ftrl"] = "dp_ftrl"
    factorisation: AnyFactorisation = Tree()
    """Correlation of the noise: a tree, a banded matrix, or none."""
    clip_norm: Annotated[Factor, MeasuredIn("L2 norm")] = 1.0
    """S: L2 norm that updates are clipped to."""
    noise_multiplier: Annotated[
        float, Field(gt=0, allow_inf_nan=False, examples=[1.1]), within(LEAST, MOST), MeasuredIn("sensitivities")
    ]
    """z: noise of the whole run over the most that one client's updates, of length S, can move it."""
    neighbours: Literal["replace", "zero_out"] = "zero_out"
    """Neighbouring relation: a client's data are replaced (sensitivity 2 S) | its updates count as zero (S), which
    stands for adding or removing a client where the times of its updates are public."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which the stated epsilon may be broken, 0..1, exclusive."""

    @property
    def clip_target(self) -> ClipTarget:
        return ClipTarget("update")

    @property
    def bounds_uploads(self) -> bool:
        return True

    @property
    def correlation(self) -> Factorisation:
        found: Factorisation = self.factorisation
        return found

    @property
    def _reach(self) -> float:
        """Sensitivity of one update in units of S."""
        return 2.0 if self.neighbours == "replace" else 1.0

    def _sensitivity(self, context: PrivacyContext) -> float:
        """Return s(k, b)."""
        k, b = _participations(context), context.min_separation
        return self.correlation.sensitivity(context.rounds, k, b)

    def start(self, context: PrivacyContext) -> State:
        return FixedNorm(self.clip_norm)

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return 2 S or S, which clipping proves."""
        return self._reach * self.clip_norm

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return the noise z s(k, b) S rate/n a_v of a version before its correlation."""
        whole = self._reach * self.clip_norm
        sensitivities = client_sensitivities(context, contributions, lambda one: whole)
        n = len(contributions) or context.participants
        even = context.rate * self.noise_multiplier * self._sensitivity(context) * self.clip_norm / n
        return ModelNoise(even * max_client_weight(context, contributions), sensitivities)

    def model_multiplier(self, context: PrivacyContext) -> float | None:
        """Return z s(k, b)/(reach max |C e_v|) where the columns of a client's versions are orthogonal, so that each
        update spends a part of its own; otherwise None."""
        if not self.correlation.separate_columns(context.min_separation):
            return None
        largest = self.correlation.sensitivity(context.rounds, 1, 1)
        return self.noise_multiplier * self._sensitivity(context) / (self._reach * largest)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee:
        """Return the epsilon of all versions together, for a client whose updates enter them at most k times, b
        apart."""
        epsilon = float(exact_epsilon(squared_mu_of(self.noise_multiplier / self._reach), self.delta))
        status: Literal["proven", "heuristic"] = "proven" if context.equal_weights else "heuristic"
        return Guarantee("client", self.neighbours, status, epsilon, self.delta, _participations(context))

    def faults(self, clients: int, rounds: int, training: Training | None) -> Iterator[Fault]:
        """Yield a fault for more versions than a factorisation can hold."""
        if rounds > (most := self.correlation.most_versions):
            yield Fault(
                "factorisation",
                f"correlates the noise of at most {most} versions, got protocol.rounds {rounds}; lower "
                "protocol.rounds or the bands",
            )

    def notes(self, context: PrivacyContext) -> list[str]:
        k, b = _participations(context), context.min_separation
        notes = [
            f"neighbours: {self.neighbours}; the number of updates in a version is assumed to be public",
            "dp_ftrl trusts the server: uploads carry no noise, and no ledger row covers them",
            f"the claim covers clients whose updates enter at most {k} of {context.rounds} versions, {b} or more "
            f"apart: noise for a sensitivity of {self._sensitivity(context):.6g}, where one update alone has "
            f"{self.correlation.sensitivity(context.rounds, 1, 1):.6g}",
        ]
        if not context.equal_weights:
            notes.append(UNEVEN_WEIGHTS)
        return notes


def _participations(context: PrivacyContext) -> int:
    return real_participations(context.rounds, context.max_participations, context.min_separation)
