"""Adaptive budgets: each client has a budget that follows its loss, and the server adds noise up to a threshold.

Source: Xu, Tong, Dai, Research on Federated Learning Adaptive Differential Privacy Method Based on Heterogeneous Data,
Netinfo Security 25(1), 2025, algorithms 2 and 3. With loss_max the loss of a client's first task, and c a factor times
c1 = sqrt(2 ln(1.25/delta)); in brackets its equations:

    linear      epsilon = epsilon_0 + k (loss_max - loss)    (6)
    exponential epsilon = epsilon_0 exp(k (loss_max - loss)) (7)
    client      sigma_i = c Delta/epsilon_i                  (9-12)
    server      sigma_D = c Delta sqrt(max(0, epsilon_max^-2 - epsilon^-2)) (15-18)

With the same k the two rules are not comparable: at epsilon_0 = 4 and a fall of 1.8, k = 1 gives 5.8 and 24.2. The loss
of a task is the mean over its last epoch, so the first two uploads use the initial budget. All tasks count, also those
whose update is lost. A loss that is not finite leaves the floor.

The source does not define Delta. Readings of it, for a vector clipped to M:

- `2M/batch` (default): the sensitivity of the mean of a batch of gradients with norm at most M, one sample replaced. It
  gives accuracies of the shape of the source's table 3. An update is no such mean, so it is heuristic.
- `2M`: holds for any vector clipped to M, all data of a client replaced; `M` for a client that takes part or not. Not
  the default: at a batch of 32 it is 32 times the noise, with which nothing is learnt at the source's budgets.
- `2M/n`, n the client's samples, as in NbAFL and SAFL: heuristic, and it leaves hardly any noise.

Algorithm 3 prints the server's noise inside the sum over clients (`server_noise: per_update`, which leaves
sigma_D/sqrt(n) on the mean), although it is computed for the mean (`once`, the default, equation 18). It adds the mean
of "gradients" after a local epoch to the model, with a sign that would increase the loss. Readings:

- `update` (default): w_local - w, and w += mean.
- `gradient`: g = -(w_local - w)/(lr steps), exact for plain SGD, is clipped to M and noised, and w -= lr mean(g). Not
  the default: the model moves 1/steps as far as the clients do.

The source claims that each upload is (epsilon_t, delta)-private for its budget, and claims nothing about a run. A
budget that follows the loss is itself a release that none of these numbers covers, and the flags say so.

The `Shuffler` of algorithm 3 is credited by no accountant: amplification by shuffling requires uploads that differ only
in their data. Here each client's noise has its own size, and the layers of one model match each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Vector
from asyncfl.base.component import Described
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning.layout import Layout
from asyncfl.learning.training import Training
from asyncfl.privacy.accounting.calibrate import ClassicalRelease, noise_multiplier
from asyncfl.privacy.client_weights import (
    UNEVEN_WEIGHTS,
    client_sensitivities,
    noise_scale,
    planned_contributions,
    relative_weights,
)
from asyncfl.privacy.flags import BUDGETS
from asyncfl.privacy.ranges import Budget, Delta, Factor
from asyncfl.privacy.release import Contribution, PrivacyContext, Status, Unit, Upload
from asyncfl.privacy.scheme import (
    ClipTarget,
    Guarantee,
    ModelNoise,
    Noise,
    Scheme,
    State,
    model_without_noise,
)

Adjustment = Literal["linear", "exponential", "none"]
Spend = Literal["naive", "rdp"]

LARGEST = 1e100  # of budgets: noise for it is negligible, and its square and sums are still finite

OF_CLIENT = {"2M": "replace", "M": "zero_out"}
"""Readings of Delta that hold for any vector clipped to M -> the neighbouring relation."""


def swapped_order(rows: int, swaps: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return (rows,) which row is in each place after `swaps` random swaps of two different places."""
    order = np.arange(rows)
    if rows < 2:
        return order
    first = random.integers(rows, size=swaps)
    second = random.integers(rows - 1, size=swaps)
    second += second >= first
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        order[one], order[other] = order[other], order[one]
    return order


class Shuffler(Described):
    """Trusted node between the clients and the server that swaps layers between the clients' models.

    For each layer (weight and bias of a module) it draws two different clients N times and swaps their rows, which
    keeps every sum over clients. It waits for the whole cohort and needs updates with equal weights.
    """

    swaps: Annotated[int, Field(ge=0, le=1_000_000, examples=[100]), MeasuredIn("swaps")]
    """N: number of swaps in each layer. Source: Xu, Tong, Dai 2025, algorithm 3, lines 6 to 11."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("s")] = 0.0
    """Virtual seconds between the arrival of the cohort's last update and the delivery to the server."""

    @property
    def description(self) -> str:
        return f"{self.swaps} swaps in each layer"

    def shuffle(self, models: Vector, layout: Layout, sound: NDArray[np.bool_], random: np.random.Generator) -> None:
        """Swap layers in place between the rows that are `sound` (n,) and finite; other rows stay unchanged."""
        usable = np.flatnonzero(sound & np.isfinite(models).all(axis=1))
        for layer in layout.layers:
            order = usable[swapped_order(len(usable), self.swaps, random)]
            models[usable, layer.slice] = models[order, layer.slice]


class AdaptiveBudgets(Scheme):
    """Noise on each upload for a per-client budget that grows as the client's loss falls."""

    kind: Literal["adaptive"] = "adaptive"
    alongside: ClassVar[Mapping[str, Any]] = {"data.clients": 5, "protocol": {"kind": "sync", "rounds": 20}}
    logged: ClassVar[tuple[str, ...]] = (
        "rounds.budget_mean",
        "rounds.budget_min",
        "rounds.budget_max",
        "rounds.sigma_u_mean",
    )
    budgets: Annotated[
        tuple[Budget, ...], Field(min_length=1, examples=[[4.0, 4.0, 8.0, 8.0, 12.0]]), MeasuredIn("epsilon")
    ]
    """epsilon_i: initial budget of each client, one per client; .inf: no noise. All .inf: no clipping either. Source:
    Xu, Tong, Dai 2025, algorithm 2."""
    delta: Annotated[Delta, MeasuredIn("probability")] = 1e-5
    """Probability with which a budget may be broken, 0..1, exclusive."""
    clip_norm: Annotated[Factor, MeasuredIn("L2 norm")] = 1.0
    """M: L2 norm that updates (or gradients, see `upload`) are clipped to. Source: Xu, Tong, Dai 2025, algorithm 2,
    line 3."""
    constant: Annotated[Factor, MeasuredIn("factor")] = 1.0
    """Factor on c1 = sqrt(2 ln(1.25/delta)). Source: Xu, Tong, Dai 2025, equation 17."""
    sensitivity: Literal["2M/batch", "2M", "M", "2M/n"] = "2M/batch"
    """Delta, see `asyncfl.privacy.schemes.adaptive_budgets`. The batch is `training.batch_size`, or the client's
    samples if they are fewer. Source: Xu, Tong, Dai 2025, equation 10."""
    upload: Literal["update", "gradient"] = "update"
    """Payload that is clipped and noised: the update of the model | the mean gradient over the client's steps."""
    adjustment: Adjustment = "linear"
    """Rule by which a budget follows the loss; `none`: budgets are constant. Source: Xu, Tong, Dai 2025, equations 6
    and 7."""
    k: Annotated[float, Field(ge=0, allow_inf_nan=False), MeasuredIn("epsilon per unit of loss")] = 1.0
    """Budget per unit of loss in the linear rule; for the exponential rule see `matched_k`. Source: Xu, Tong, Dai 2025,
    equations 6 and 7."""
    matched_k: bool = True
    """Whether the exponential rule uses the k that reaches the linear rule's budget once the loss has fallen by
    `loss_span`; false: it uses `k` itself and grows far beyond the linear rule."""
    loss_span: Annotated[Factor, MeasuredIn("loss")] = 2.0
    """D: fall of the loss at which the two rules are matched. 2 is about the possible fall for ten classes (ln 10 =
    2.3)."""
    matched_budget: Annotated[Factor, MeasuredIn("epsilon")] | None = None
    """epsilon_0: initial budget at which the two rules are matched; null: each client's own entry of `budgets`."""
    floor: Annotated[Factor, MeasuredIn("epsilon")] = 0.1
    """Smallest budget after an adjustment, where the loss has risen."""
    threshold: Annotated[Factor, MeasuredIn("epsilon")] | None = None
    """epsilon_max: global budget of one round, up to which the server adds noise; null: the server adds none. Source:
    Xu, Tong, Dai 2025, equation 17."""
    round_budget: Literal["sum", "max"] = "sum"
    """epsilon of a round that is compared with the threshold: the sum of its uploads' budgets | the largest of them.
    Source: Xu, Tong, Dai 2025, equation 15."""
    server_noise: Literal["once", "per_update"] = "once"
    """Place of the server's noise: on the mean | on each update before the mean, as in Xu, Tong, Dai 2025, algorithm 3,
    line 13."""
    shuffler: Shuffler | None = None
    """Trusted node between the clients and the server; null: none."""
    equal_spend: Spend | None = None
    """Control experiment with constant budgets: each client spends as much per upload as in the run that all other
    fields describe. That run is simulated first, with the same seed. `naive`: the same sum of epsilon; `rdp`: the same
    sum of squares. null: no control."""

    def faults(self, clients: int, rounds: int, training: Training | None) -> Iterator[Fault]:
        if len(self.budgets) != clients:
            message = f"must be one for each of the {clients} clients, got {len(self.budgets)}"
            yield Fault("budgets", f"{message}; change privacy.budgets or data.clients")
        if self.adjustment != "none":
            for place, budget in enumerate(self.budgets):
                if budget < self.floor:
                    message = f"must be at least privacy.floor ({self.floor:g}), got {budget:g}"
                    yield Fault(f"budgets.{place}", f"{message}; raise it or lower privacy.floor")
        elif self.equal_spend is not None:
            message = f"must be null with privacy.adjustment: none, got {self.equal_spend}"
            yield Fault("equal_spend", f"{message}; it is the control for a run whose budgets change")
        if training is not None and self.upload == "gradient" and (training.momentum or training.proximal_mu):
            got = f"momentum {training.momentum:g} and proximal_mu {training.proximal_mu:g}"
            yield Fault(
                "upload",
                "gradient takes update/steps as the mean gradient, which is exact for plain SGD only: "
                f"training.momentum and training.proximal_mu must be 0, got {got}; set them to 0 or use upload: update",
            )
        if training is not None and self.upload == "gradient" and not training.is_basic:
            yield Fault(
                "upload",
                "gradient takes update/steps as the mean gradient, which is exact for plain SGD only: "
                "training.optimizer must be sgd without weight_decay and schedules; set these or use upload: update",
            )

    @property
    def off(self) -> bool:
        return self._without_noise and self.shuffler is None and self.upload == "update"

    @property
    def _without_noise(self) -> bool:
        return all(map(math.isinf, self.budgets))

    @property
    def clip_target(self) -> ClipTarget:
        return ClipTarget("update")

    @property
    def bounds_uploads(self) -> bool:
        return not self._without_noise and self.sensitivity in OF_CLIENT

    def update_factor(self, context: PrivacyContext, samples: int, epochs: int | None = None) -> float:
        """Return 1, or 1/steps for `gradient`, which turns the update into lr times the mean gradient."""
        if self.upload == "update":
            return 1.0
        return 1 / context.steps_of(samples, epochs)

    @property
    def takes_mean_gradient(self) -> bool:
        return self.upload == "gradient"

    def _unit(self, context: PrivacyContext) -> float:
        # Length in the upload of one unit of the clipped quantity.
        return 1.0 if self.upload == "update" else context.lr

    def _batch(self, context: PrivacyContext, samples: int) -> int:
        return min(context.batch_size, samples) if context.batch_size else samples

    @property
    def adapts(self) -> bool:
        """Whether budgets follow the loss."""
        return self.adjustment != "none" and not self._without_noise

    @property
    def _constant(self) -> bool:
        # A budget that follows the loss, or another run's losses, depends on the data that it should protect.
        return self.adjustment == "none" and self.equal_spend is None

    @property
    def needs_every_task(self) -> bool:
        return self.adapts and self.equal_spend is None

    def start(self, context: PrivacyContext) -> State:
        norm = None if self._without_noise else self.clip_norm * self._unit(context)
        return LossHistory(self, norm)

    def budget(self, client: int, loss_max: float, loss: float) -> float:
        """Return the budget of the client's next upload, at least the floor, given its first and latest loss."""
        epsilon, k = self.budgets[client], self.k
        if math.isinf(epsilon):
            return epsilon
        if self.adjustment == "exponential" and self.matched_k:
            # Both rules reach the same budget once the loss has fallen by D.
            at = epsilon if self.matched_budget is None else self.matched_budget
            k = math.log1p(k * self.loss_span / at) / self.loss_span
        return min(max(self.floor, adjusted_budget(self.adjustment, epsilon, k, loss_max, loss)), LARGEST)

    def _epsilon(self, contribution: Contribution) -> float:
        if contribution.epsilon is not None:
            return contribution.epsilon
        # Of a typical client the largest budget, which reveals most.
        return self.budgets[contribution.client] if contribution.client >= 0 else max(self.budgets)

    def upload_noise(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> Noise:
        """Return sigma_i for the sensitivity Delta."""
        if self._without_noise:
            return Noise(0.0)
        sensitivity = self._delta(context, contribution.samples)
        multiplier = noise_multiplier(1, self._epsilon(contribution), self.delta, self.constant)
        return Noise(sensitivity * multiplier, sensitivity)

    def proven_sensitivity(self, context: PrivacyContext, clip_norm: float | None, contribution: Contribution) -> float:
        """Return 2 M if budgets are constant; infinite if they depend on the data."""
        proven = self._constant and not self._without_noise
        return self._unit(context) * 2 * self.clip_norm if proven else math.inf

    def model_noise(
        self, context: PrivacyContext, clip_norm: float | None, contributions: Sequence[Contribution] = ()
    ) -> ModelNoise:
        """Return sigma_D for the largest Delta of the round, before training for the K largest budgets."""
        if self._without_noise:
            return model_without_noise(context, contributions)
        entered = contributions or planned_contributions(context)
        largest = max(self._delta(context, one.samples) for one in entered)
        if self.round_budget == "max":
            sensitivities = client_sensitivities(context, entered, lambda one: self._delta(context, one.samples))
        else:
            weight = math.fsum(relative_weights(context, entered)) / len(entered)
            sensitivities = dict.fromkeys((one.client for one in entered), context.rate * largest * weight)
        if self.threshold is None:
            return ModelNoise(0.0, sensitivities)
        epsilons = [self._epsilon(one) for one in contributions]
        epsilons = epsilons or sorted(self.budgets, reverse=True)[: context.participants]
        epsilon = math.fsum(epsilons) if self.round_budget == "sum" else max(epsilons)
        unit = largest * noise_multiplier(1, 1.0, self.delta, self.constant)
        std = context.rate * (unit * math.sqrt(max(0.0, self.threshold**-2 - epsilon**-2)))
        if self.server_noise == "per_update":
            std *= noise_scale(context, entered) / math.sqrt(len(entered))
        return ModelNoise(std, sensitivities)

    def _delta(self, context: PrivacyContext, samples: int) -> float:
        divisor = {"2M/batch": self._batch(context, samples), "2M": 1, "M": 2, "2M/n": samples}[self.sensitivity]
        return self._unit(context) * (2 * self.clip_norm / divisor)

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee | None:
        """Return (epsilon, delta) for one upload with the initial budget of `client`, or the largest one."""
        budget = max(self.budgets) if client is None else self.budgets[client]
        if self._without_noise or (client is not None and math.isinf(budget)):
            return None
        return self._guarantee(budget)

    def model_guarantee(self, context: PrivacyContext) -> Guarantee | None:
        """Return (threshold, delta) for the model of one round; None without a threshold."""
        if self._without_noise or self.threshold is None:
            return None
        together = self.round_budget == "sum"
        too_little = together and self.server_noise == "per_update"
        return self._guarantee(self.threshold, context.equal_weights and not too_little, together)

    def _guarantee(self, epsilon: float, proven: bool = True, at_every_client: bool = False) -> Guarantee:
        whole = self.sensitivity in OF_CLIENT
        neighbours = OF_CLIENT.get(self.sensitivity, "replace") + " at every client" * at_every_client
        status: Status = "proven" if proven and whole and self._constant else "heuristic"
        unit: Unit = "client" if whole else "sample"
        return Guarantee(unit, neighbours, status, epsilon, self.delta, 1, at_every_client)

    def flags(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> list[str]:
        return [] if self._constant else [BUDGETS]

    def classical(self, context: PrivacyContext, epsilon: float, of_models: bool = False) -> ClassicalRelease:
        return ClassicalRelease(epsilon, self.delta, self.constant)

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        """Return the scheme unchanged: the budget is passed with the upload."""
        return self, {}

    def notes(self, context: PrivacyContext) -> list[str]:
        if self._without_noise:
            return []
        notes = []
        if self.equal_spend is not None and not self.adapts:
            listed = ", ".join(f"{budget:.4g}" for budget in self.budgets)
            how = "sum of epsilon" if self.equal_spend == "naive" else "sum of epsilon squared"
            notes.append(
                f"constant budgets {listed}: the {how} over the uploads equals that of the run whose budgets follow "
                "the loss; they come from its losses, a release that no ledger covers"
            )
        notes.append("a budget is spent on every upload; the ledger shows the total of each client")
        if self.threshold is not None:
            each = "the cost of having data at every client" if self.round_budget == "sum" else "the largest budget"
            notes.append(
                f"threshold {self.threshold:g} bounds {each} in one round; the ledger composes the rounds, with the "
                "noise that was added"
            )
            if not context.equal_weights:
                notes.append(UNEVEN_WEIGHTS)
        if self.shuffler is not None:
            notes.append(
                "shuffler: no amplification is claimed; the ledger assumes that the server knows the sender of each "
                "upload, because the size of the noise and matching layers identify it"
            )
        return notes

    @property
    def mixing_node(self) -> Shuffler | None:
        return self.shuffler

    @property
    def reference(self) -> Scheme | None:
        controlled = self.equal_spend is not None and self.adapts
        return self.model_copy(update={"equal_spend": None}) if controlled else None

    def settle(self, uploads: Sequence[Upload]) -> Scheme:
        measure = self.equal_spend or "naive"
        spent: list[list[float]] = [[] for _ in self.budgets]
        for upload in uploads:
            spent[upload.client].append(upload.release.epsilon)
        budgets = tuple(
            constant_budget(own, measure) if own else budget for own, budget in zip(spent, self.budgets, strict=True)
        )
        return self.model_copy(update={"budgets": budgets, "adjustment": "none"})


def adjusted_budget(adjustment: Adjustment, epsilon: float, k: float, loss_max: float, loss: float) -> float:
    """Return the budget after a task with mean training loss `loss`, before any floor (equations 6, 7)."""
    fall = loss_max - loss
    if adjustment == "exponential":
        return epsilon * math.exp(min(k * fall, 700.0))  # more is not a float
    return epsilon + k * fall if adjustment == "linear" else epsilon


def constant_budget(spent: Sequence[float], measure: Spend) -> float:
    """Return the constant epsilon that spends as much as `spent`, one epsilon per upload: the same sum (`naive`), or
    the same sqrt(mean epsilon^2) (`rdp`)."""
    if measure == "naive":
        return math.fsum(spent) / len(spent)
    return math.sqrt(math.fsum(epsilon**2 for epsilon in spent) / len(spent))


class LossHistory(State):
    """First and latest loss of each client, and the budget that follows from them."""

    def __init__(self, scheme: AdaptiveBudgets, norm: float | None) -> None:
        self.scheme, self.norm = scheme, norm
        # (clients,) first finite and latest loss (infinite if it was not finite); NaN: none yet.
        self.first, self.last = (np.full(len(scheme.budgets), np.nan) for _ in range(2))

    def clip_norm(self, norms: NDArray[np.floating]) -> float | None:
        return self.norm

    def epsilon(self, client: int, turn: int) -> float | None:
        if not self.scheme.adapts or math.isnan(self.last[client]):
            return self.scheme.budgets[client]
        if math.isnan(self.first[client]):
            return self.scheme.floor
        return self.scheme.budget(client, float(self.first[client]), float(self.last[client]))

    def record_training(self, contribution: Contribution, loss: float, norm: float) -> None:
        client = contribution.client
        if math.isnan(self.first[client]) and math.isfinite(loss):
            self.first[client] = loss
        self.last[client] = loss if math.isfinite(loss) else math.inf
