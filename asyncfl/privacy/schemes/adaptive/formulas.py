"""Formulas of adaptive budgets: how a budget follows the loss, the noise of clients and server, and equal spending.

Budgets. A client's budget as a function of how far its loss has fallen.

    linear         epsilon = epsilon_0 + k (loss_max - loss)                    equation 6
    exponential    epsilon = epsilon_0 exp(k (loss_max - loss))                 equation 7

With the same k the two rules are not comparable: at epsilon_0 = 4 and a fall of 1.8, k = 1 gives 5.8 and 24.2. A
matched k lets both reach the same budget when the loss has fallen by D. Until then the exponential rule is below the
linear one.

Budgets that follow the loss depend on the data that they protect. The losses are not a noised release, so no accountant
covers what the choice of the noise reveals about them.

Noise. Clients add noise for their own budgets, and the server adds the rest up to a global threshold.

    sigma_i = c Delta/epsilon_i                                                 equations 9 to 12
    sigma_D = c Delta sqrt(max(0, epsilon_max^-2 - epsilon^-2))                 equations 15 to 18

c is a factor times c1 = sqrt(2 ln(1.25/delta)). The source does not define Delta. Readings of it, for a vector clipped
to M:

- `2M/batch` (default): the sensitivity of the mean of a batch of gradients with norm at most M, one sample replaced. It
  gives accuracies of the shape of the source's table 3. An update is no such mean, so it is heuristic.
- `2M`: holds for any vector clipped to M, all data of a client replaced. Not the default: at a batch of 32 it is 32
  times the noise, with which nothing is learnt at the source's budgets.
- `M`: holds for a client that takes part or not. Not the default for the same reason.
- `2M/n`, n the client's samples: the sensitivity of one mean gradient over all its data, as in NbAFL and SAFL.
  Heuristic, and not the default: it leaves hardly any noise.

epsilon is the `sum` of the budgets of a round (equation 15) or their `max`: if a sample is held by one client only, the
mean of the uploads reveals no more about it than that client's upload.

Comparison. Constant budgets that spend as much as varying budgets.

A budget that grows during a run spends more than its initial value. A fair comparison gives the constant budget as
much: the same sum over the run (`naive` composition), or the same sum of squares, which decides Renyi accounting of
Gaussian noise (`rdp`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from asyncfl.privacy.accounting.composition import noise_multiplier

Adjustment = Literal["linear", "exponential", "none"]

LARGEST = 1e100
"""Upper limit of budgets. Noise for such a budget is negligible, and its square and sums are still finite."""


def matched_k(k: float, epsilon: float, loss_span: float) -> float:
    """Return the k of the exponential rule that gives the same budget as the linear rule once the loss has fallen by
    `loss_span`.

    ln(1 + k D/epsilon)/D. `epsilon` > 0: the initial budget at which the rules are matched; `loss_span` D > 0; k >= 0.
    """
    return math.log1p(k * loss_span / epsilon) / loss_span


def adjusted_budget(adjustment: Adjustment, epsilon: float, k: float, loss_max: float, loss: float) -> float:
    """Return the budget of the next upload after a task with mean training loss `loss`, before any floor. Equations 6
    and 7.

    `loss_max`: loss of the client's first task. `k`: the rule's own factor (`matched_k` for a matched exponential
    rule). If the loss has risen the budget may be 0 or negative; on overflow it is infinite.
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
    """Return the L2 sensitivity Delta of a vector clipped to `clip_norm` M. `batch`: samples per step; `samples`: of
    the client; `reading`: interpretation of Delta, see the module's header."""
    if reading == "M":
        return clip_norm
    if reading == "2M":
        return 2 * clip_norm
    return 2 * clip_norm / (batch if reading == "2M/batch" else samples)


def client_std(sensitivity: float, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """Return sigma_i, the standard deviation of the noise on each parameter; 0 at infinite epsilon. `constant`: factor
    on c1."""
    return sensitivity * noise_multiplier(1, epsilon, delta, constant)


def round_budget(epsilons: Sequence[float], rule: RoundBudget = "sum") -> float:
    """Return the epsilon of one round by `rule` from the `epsilons` of its uploads, at least one."""
    return math.fsum(epsilons) if rule == "sum" else max(epsilons)


def missing_std(sensitivity: float, threshold: float, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """Return sigma_D, which the server adds once to each parameter of the mean; 0 while `epsilon` is within
    `threshold`."""
    unit = sensitivity * noise_multiplier(1, 1.0, delta, constant)
    try:
        return unit * math.sqrt(max(0.0, threshold**-2 - epsilon**-2))
    except OverflowError:
        # The square of so small a threshold overflows; the noise that is there already is negligible.
        return unit / threshold


# --- comparison

Spend = Literal["naive", "rdp"]


def constant_budget(spent: Sequence[float], measure: Spend) -> float:
    """Return the constant epsilon that spends as much as `spent`, one epsilon per upload, over the same number of
    uploads.

    `naive`: the same sum. `rdp`: the same sqrt(mean epsilon^2), never smaller. Infinite if one entry of `spent` is.
    """
    try:
        return _constant_budget(spent, measure)
    except OverflowError:
        # The sum or the squares overflow, the mean does not.
        largest = max(spent)
        return largest * _constant_budget([epsilon / largest for epsilon in spent], measure)


def _constant_budget(spent: Sequence[float], measure: Spend) -> float:
    if measure == "naive":
        return math.fsum(spent) / len(spent)
    return math.sqrt(math.fsum(epsilon**2 for epsilon in spent) / len(spent))
