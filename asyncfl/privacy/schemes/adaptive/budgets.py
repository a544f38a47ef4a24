"""A client's budget as a function of how far its loss has fallen.

    linear         epsilon = epsilon_0 + k (loss_max - loss)                    equation 6
    exponential    epsilon = epsilon_0 exp(k (loss_max - loss))                 equation 7

With the same k the two are not comparable: at epsilon_0 = 4 and a fall of 1.8, k = 1 gives 5.8 and 24.2. A matched k
lets both reach the same budget when the loss has fallen by D; up to there the exponential lies below the linear rule.

Budgets that follow the loss depend on the data that they are to protect. The losses are no noised release, so that no
accountant covers what the choice of the noise says about them.
"""

from __future__ import annotations

import math
from typing import Literal

Adjustment = Literal["linear", "exponential", "none"]

LARGEST = 1e100
"""No budget grows beyond: its noise has long been nothing, and its square and sums are still numbers."""


def linear_budget(epsilon: float, k: float, fall: float) -> float:
    """epsilon + k fall. `epsilon` > 0; `fall`: loss_max - loss, negative where the loss has risen. Equation 6."""
    return epsilon + k * fall


def exponential_budget(epsilon: float, k: float, fall: float) -> float:
    """epsilon exp(k fall); infinite where that is beyond the floats. Arguments as for `linear_budget`. Equation 7."""
    try:
        return epsilon * math.exp(k * fall)
    except OverflowError:
        return math.inf


def matched_k(k: float, epsilon: float, loss_span: float) -> float:
    """k of the exponential rule that gives the budget of the linear rule with `k` once the loss has fallen by a span.

    ln(1 + k D/epsilon)/D. `epsilon` > 0: the budget at which the two are matched; `loss_span` D > 0; k >= 0.
    """
    return math.log1p(k * loss_span / epsilon) / loss_span


def adjusted_budget(adjustment: Adjustment, epsilon: float, k: float, loss_max: float, loss: float) -> float:
    """Budget of the next upload after a task whose mean training loss was `loss`, before any floor.

    `loss_max`: the client's loss in its first task. `k` is the rule's own (`matched_k` for a matched exponential one).
    """
    if adjustment == "none":
        return epsilon
    rule = linear_budget if adjustment == "linear" else exponential_budget
    return rule(epsilon, k, loss_max - loss)
