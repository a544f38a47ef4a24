"""The formulas of adaptive budgets: how a budget follows the loss, the noise of clients and server, equal spending.

Budgets. A client's budget as a function of how far its loss has fallen.

    linear         epsilon = epsilon_0 + k (loss_max - loss)                    equation 6
    exponential    epsilon = epsilon_0 exp(k (loss_max - loss))                 equation 7

With the same k the two are not comparable: at epsilon_0 = 4 and a fall of 1.8, k = 1 gives 5.8 and 24.2. A matched k
lets both reach the same budget when the loss has fallen by D; up to there the exponential lies below the linear rule.

Budgets that follow the loss depend on the data that they are to protect. The losses are no noised release, so that no
accountant covers what the choice of the noise says about them.

Noise. Noise of clients with budgets of their own, and what the server adds to reach a global threshold.

    sigma_i = c Delta/epsilon_i                                                 equations 9 to 12
    sigma_D = c Delta sqrt(max(0, epsilon_max^-2 - epsilon^-2))                 equations 15 to 18

c is a factor times c1 = sqrt(2 ln(1.25/delta)). The source leaves Delta open. Readings of it, for what is clipped to M:

- `2M/batch` (default): that of the mean of a batch of gradients, each of norm M at most, where one sample is replaced.
  It gives accuracies of the shape of the source's table 3. An update is no such mean, so it is heuristic.
- `2M`: holds for whatever is clipped to M, where all data of a client are replaced; not the default: 32 times the noise
  at a batch of 32, with which nothing is learnt at the source's budgets.
- `M`: holds where a client takes part or not; not the default for the same reason.
- `2M/n`, n the client's samples: that of one mean gradient over all its data, as NbAFL and SAFL have it; heuristic, and
  not the default: it leaves next to no noise.

epsilon is the `sum` of the budgets of a round (equation 15), or their `max`: where a sample lies with one client only,
the mean of the uploads says no more about it than that client's upload does.

Comparison. The constant budgets that spend as much as varying ones.

A budget that grows over a run spends more than the one it began with. Whoever compares it with a constant budget has
to give that one as much: with the same sum over the run (`naive` composition), or with the same sum of squares, which
is what Renyi accounting of Gaussian noise goes by (`rdp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from asyncfl.privacy.accounting.composition import noise_multiplier

Adjustment = Literal["linear", "exponential", "none"]

LARGEST = 1e100
"""No budget grows beyond: its noise has long been nothing, and its square and sums are still numbers."""


def matched_k(k: float, epsilon: float, loss_span: float) -> float:
    """k of the exponential rule that gives the budget of the linear rule with `k` once the loss has fallen by a span.

    ln(1 + k D/epsilon)/D. `epsilon` > 0: the budget at which the two are matched; `loss_span` D > 0; k >= 0.
    """
    return math.log1p(k * loss_span / epsilon) / loss_span


def adjusted_budget(adjustment: Adjustment, epsilon: float, k: float, loss_max: float, loss: float) -> float:
    """Budget of the next upload after a task whose mean training loss was `loss`, before any floor. Equations 6 and 7.

    `loss_max`: the client's loss in its first task. `k` is the rule's own (`matched_k` for a matched exponential one).
    Where the loss has risen the budget may be 0 or below; beyond the floats it is infinite.
    """
    fall = loss_max - loss
    if adjustment == "none":
        return epsilon
    if adjustment == "linear":
        return epsilon + k * fall
    try:
        return epsilon * math.exp(k * fall)
    except OverflowError:
        return math.inf


# --- noise

DeltaReading = Literal["2M/batch", "2M", "M", "2M/n"]
RoundBudget = Literal["sum", "max"]


def sensitivity_of(reading: DeltaReading, clip_norm: float, batch: int, samples: int) -> float:
    """Delta, L2, of what is clipped to `clip_norm` M. `batch`: samples per step; `samples`: of the client."""
    if reading == "M":
        return clip_norm
    if reading == "2M":
        return 2 * clip_norm
    return 2 * clip_norm / (batch if reading == "2M/batch" else samples)


def client_std(sensitivity: float, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """sigma_i: standard deviation of the noise on each parameter; 0 at infinite epsilon. `constant`: factor on c1."""
    return sensitivity * noise_multiplier(1, epsilon, delta, constant)


def round_budget(epsilons: Sequence[float], rule: RoundBudget = "sum") -> float:
    """epsilon of one round from those of the uploads in it, at least one."""
    return math.fsum(epsilons) if rule == "sum" else max(epsilons)


def missing_std(sensitivity: float, threshold: float, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """sigma_D: what the server adds to each parameter of the mean, once; 0 while `epsilon` is within `threshold`."""
    unit = sensitivity * noise_multiplier(1, 1.0, delta, constant)
    try:
        return unit * math.sqrt(max(0.0, threshold**-2 - epsilon**-2))
    except OverflowError:
        # Of a threshold so small the square is beyond the floats: what is there already is nothing beside it.
        return unit / threshold


# --- comparison

Spend = Literal["naive", "rdp"]


def constant_budget(spent: Sequence[float], measure: Spend) -> float:
    """Constant epsilon that spends over the same number of uploads what `spent` (one per upload, at least one) did.

    `naive`: the same sum. `rdp`: the same sqrt(mean epsilon^2), never smaller. Infinite where one of `spent` is.
    """
    try:
        return _constant_budget(spent, measure)
    except OverflowError:
        # The sum or the squares are beyond the floats, the mean is not.
        largest = max(spent)
        return largest * _constant_budget([epsilon / largest for epsilon in spent], measure)


def _constant_budget(spent: Sequence[float], measure: Spend) -> float:
    if measure == "naive":
        return math.fsum(spent) / len(spent)
    return math.sqrt(math.fsum(epsilon**2 for epsilon in spent) / len(spent))
