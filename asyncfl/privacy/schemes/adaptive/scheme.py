"""Adaptive budgets: each client has its own, its loss moves it, and the server adds what is missing to a threshold.

Per round, of the client: budget from the losses of its tasks so far (`budgets`), clipping of what it uploads to M,
Gaussian noise of c Delta/epsilon (`noise`). Then a trusted node may swap layers between the clients (`shuffle`), and
the server averages and adds sigma_D once. Source: Xu, Tong, Dai 2025, algorithms 2 and 3.

Readings. The source uploads "gradients" after a local epoch and adds their mean to the model, with a sign that would
climb the loss. What is uploaded:

- `update` (default): w_local - w, and w += mean.
- `gradient`: the mean gradient over the client's steps, estimated as g = -(w_local - w)/(lr steps), which it is for
  plain SGD (with momentum or a proximal term it is refused); g is clipped to M and noised, and w -= lr mean(g). In
  terms of updates: the update divided by the number of steps, clipped to lr M, with lr times the noise. Not the
  default: the model moves 1/steps as far as clients do.

Loss of a task: the mean over its last epoch. The first two uploads of a client use the budget that it began with: there
is no loss before the first, and no fall before the second. All tasks count, also those whose update is lost: the client
knows its loss. A loss that is not finite counts as the worst there is, and leaves the floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.errors import Fault
from asyncfl.privacy.context import Contribution, LocalTraining, PrivacyContext
from asyncfl.privacy.noise.shares import of_clients, relative_weights
from asyncfl.privacy.scheme import Guarantee, Payload, Scheme, State
from asyncfl.privacy.schemes.adaptive.budgets import LARGEST, Adjustment, adjusted_budget, matched_k
from asyncfl.privacy.schemes.adaptive.checks import budget_faults, training_faults
from asyncfl.privacy.schemes.adaptive.claims import of_models, of_uploads
from asyncfl.privacy.schemes.adaptive.comparison import Spend, constant_budget
from asyncfl.privacy.schemes.adaptive.history import LossHistory
from asyncfl.privacy.schemes.adaptive.noise import (
    DeltaReading,
    RoundBudget,
    client_std,
    missing_std,
    round_budget,
    sensitivity_of,
)
from asyncfl.privacy.schemes.adaptive.notes import notes_of
from asyncfl.privacy.schemes.adaptive.shuffle import Shuffler

Budget = Annotated[float, Field(gt=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class AdaptiveBudgets(Scheme):
    """Noise on each upload by a budget of the client's own that grows as its loss falls."""

    kind: Literal["adaptive"] = "adaptive"
    budgets: Annotated[tuple[Budget, ...], Field(min_length=1)]
    """epsilon_i: the budget that each client begins with, one per client; .inf: no noise. All .inf: no clipping
    either."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """Probability with which a budget may be broken, 0..1, exclusive."""
    clip_norm: Positive = 1.0
    """M: L2 norm that updates (or gradients, `upload`) are clipped to."""
    constant: Positive = 1.0
    """Factor on c1 = sqrt(2 ln(1.25/delta))."""
    sensitivity: DeltaReading = "2M/batch"
    """Delta, see `asyncfl.privacy.schemes.adaptive.noise`; the batch is `training.batch_size`, or the client's
    samples if those are fewer."""
    upload: Literal["update", "gradient"] = "update"
    """What is clipped and noised, see above."""
    adjustment: Adjustment = "linear"
    """How a budget follows the loss; `none`: it stays what it was."""
    k: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Budget per unit of loss of the linear rule; of the exponential rule, see `matched_k`."""
    matched_k: bool = True
    """Whether the exponential rule takes the k with which it reaches the linear rule's budget once the loss has fallen
    by `loss_span`; false: it takes `k` itself, and grows far beyond the linear one."""
    loss_span: Positive = 2.0
    """D: fall of the loss at which the two rules are matched. 2 is about what there is for ten classes (ln 10 =
    2.3)."""
    matched_budget: Positive | None = None
    """epsilon_0: budget at which the two rules are matched; null: for each client its own of `budgets`."""
    floor: Positive = 0.1
    """Least budget that an adjustment leaves, where the loss has risen."""
    threshold: Positive | None = None
    """epsilon_max: global budget of one round, which the server adds noise for; null: it adds none."""
    round_budget: RoundBudget = "sum"
    """epsilon of a round that the threshold is compared with: the sum of its uploads' budgets, or the largest."""
    shuffler: Shuffler | None = None
    """The trusted node between the clients and the server; null: there is none."""
    equal_spend: Spend | None = None
    """The control: constant budgets, for each client the one with which it spends as much per upload as in the run that
    all other fields describe. That run is simulated first, with the same seed. `naive`: as large a sum of epsilon;
    `rdp`: as large a sum of squares. null: this is not the control."""

    def faults(self, clients: int) -> Iterator[Fault]:
        """Budgets that are too few, too many or below the floor, and a control of what never changes."""
        yield from budget_faults(self, clients)

    def training_faults(self, training: LocalTraining, rounds: int) -> Iterator[Fault]:
        """Reading `gradient` without plain SGD."""
        yield from training_faults(self, training)

    # --- what is clipped -------------------------------------------------------------------------------------------

    @property
    def off(self) -> bool:
        """Whether all budgets are infinite, whole updates uploaded, and no shuffler takes its time."""
        return self._without_noise and self.shuffler is None and self.upload == "update"

    @property
    def _without_noise(self) -> bool:
        return all(map(math.isinf, self.budgets))

    @property
    def payload(self) -> Payload:
        """The update."""
        return "update"

    def update_factor(self, context: PrivacyContext, samples: int) -> float:
        """1; of `gradient` 1/steps, which makes the update lr times the mean gradient."""
        if self.upload == "update":
            return 1.0
        return 1 / (context.epochs * -(-samples // self._batch(context, samples)))

    def clip_norm_of(self, norms: NDArray[np.floating], state: State | None = None) -> float | None:
        """M, of `gradient` lr M; None where nothing is clipped. Without a state lr is taken for 1."""
        if self._without_noise:
            return None
        return self.clip_norm * (self._unit(state.context) if isinstance(state, LossHistory) else 1.0)

    def _unit(self, context: PrivacyContext) -> float:
        """What a unit of the clipped quantity is in the upload."""
        return 1.0 if self.upload == "update" else context.lr

    def _batch(self, context: PrivacyContext, samples: int) -> int:
        return min(context.batch_size, samples) if context.batch_size else samples

    # --- budgets ---------------------------------------------------------------------------------------------------

    @property
    def adapts(self) -> bool:
        """Whether budgets follow the loss."""
        return self.adjustment != "none" and not self._without_noise

    @property
    def needs_every_task(self) -> bool:
        """Whether budgets follow the loss: a client knows that of a lost update too."""
        return self.adapts and self.equal_spend is None

    def start(self, context: PrivacyContext) -> State | None:
        """No losses yet."""
        return LossHistory.empty(context)

    def budget(self, client: int, loss_max: float, loss: float) -> float:
        """Budget of the client's next upload after a first loss and a latest loss, see `budgets`; never below floor,
        and infinite only where it was so at the start."""
        epsilon = self.budgets[client]
        if math.isinf(epsilon):
            return epsilon
        k = self.k
        if self.adjustment == "exponential" and self.matched_k:
            k = matched_k(k, epsilon if self.matched_budget is None else self.matched_budget, self.loss_span)
        return min(max(self.floor, adjusted_budget(self.adjustment, epsilon, k, loss_max, loss)), LARGEST)

    def upload_epsilon(self, context: PrivacyContext, state: State | None, client: int, turn: int) -> float | None:
        """The client's budget after the losses so far."""
        if not self.adapts or not isinstance(state, LossHistory) or math.isnan(state.last[client]):
            return self.budgets[client]
        if math.isnan(state.first[client]):
            return self.floor
        return self.budget(client, float(state.first[client]), float(state.last[client]))

    def _epsilon(self, contribution: Contribution) -> float:
        """Budget of an upload; where nobody says whose it is, the largest, which says most."""
        if contribution.epsilon is not None:
            return contribution.epsilon
        return self.budgets[contribution.client] if contribution.client >= 0 else max(self.budgets)

    # --- noise -----------------------------------------------------------------------------------------------------

    def upload_std(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """sigma_i. The `clip_norm` argument is not used: M never changes."""
        if self._without_noise:
            return 0.0
        sensitivity = self._delta(context, contribution.samples)
        return client_std(sensitivity, self._epsilon(contribution), self.delta, self.constant)

    def upload_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Delta; infinite without clipping."""
        return math.inf if self._without_noise else self._delta(context, contribution.samples)

    def server_std(
        self,
        context: PrivacyContext,
        clip_norm: float | None,
        state: State | None = None,
        contributions: Sequence[Contribution] = (),
    ) -> float:
        """sigma_D for the largest Delta of the round, times the server's rate; before training, for the largest budgets
        that K clients have."""
        if self._without_noise or self.threshold is None:
            return 0.0
        epsilons = [self._epsilon(one) for one in contributions]
        if not epsilons:
            epsilons = sorted(self.budgets, reverse=True)[: context.participants]
        epsilon = round_budget(epsilons, self.round_budget)
        return context.rate * missing_std(
            self._largest_delta(context, contributions), self.threshold, epsilon, self.delta, self.constant
        )

    def model_sensitivities(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution]
    ) -> dict[int, float]:
        """Delta times what the client's updates weigh (`max`), or all updates where samples at all clients are replaced
        (`sum`)."""
        if self._without_noise:
            return super().model_sensitivities(context, clip_norm, contributions)
        if self.round_budget == "max":
            return of_clients(context, contributions, lambda one: self._delta(context, one.samples))
        weight = math.fsum(relative_weights(context, contributions)) / len(contributions)
        everywhere = context.rate * self._largest_delta(context, contributions) * weight
        return dict.fromkeys((one.client for one in contributions), everywhere)

    def _delta(self, context: PrivacyContext, samples: int) -> float:
        batch = self._batch(context, samples)
        return self._unit(context) * sensitivity_of(self.sensitivity, self.clip_norm, batch, samples)

    def _largest_delta(self, context: PrivacyContext, contributions: Sequence[Contribution]) -> float:
        sizes = [one.samples for one in contributions] or [context.smallest_samples]
        return max(self._delta(context, size) for size in sizes)

    # --- what it claims --------------------------------------------------------------------------------------------

    def upload_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """For an upload of any client, so with the largest budget at the start; see `claims`. None without noise."""
        return None if self._without_noise else of_uploads(self, max(self.budgets))

    def client_guarantee(self, context: PrivacyContext, client: int) -> Guarantee | None:
        """For an upload of `client`, with the budget that it begins with; None without noise."""
        budget = self.budgets[client]
        return None if math.isinf(budget) else of_uploads(self, budget)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """For the model of one round; None without a threshold."""
        return None if self._without_noise else of_models(self, context)

    def notes(self, context: PrivacyContext, n_parameters: int) -> list[str]:
        """What is heuristic, what depends on the data, and what is not claimed."""
        return [] if self._without_noise else notes_of(self, context)

    # --- the control -----------------------------------------------------------------------------------------------

    @property
    def mixing_node(self) -> Shuffler | None:
        """The shuffler."""
        return self.shuffler

    @property
    def reference(self) -> Scheme | None:
        """Of the control: the scheme that it is to spend as much as; None where that has been measured."""
        if self.equal_spend is None or not self.adapts:
            return None
        return self.model_copy(update={"equal_spend": None})

    def measured_by(self, uploads: Sequence[Mapping[str, Any]]) -> Scheme:
        """The control with its budgets; a client that uploaded nothing keeps what it had."""
        if self.equal_spend is None:
            return self
        spent: list[list[float]] = [[] for _ in self.budgets]
        for upload in uploads:
            spent[upload["client"]].append(float(upload["epsilon"]))
        budgets = tuple(
            constant_budget(own, self.equal_spend) if own else budget
            for own, budget in zip(spent, self.budgets, strict=True)
        )
        return self.model_copy(update={"budgets": budgets, "adjustment": "none"})
