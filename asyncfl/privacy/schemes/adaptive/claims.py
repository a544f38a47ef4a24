"""What an adaptive scheme states, and what it does not.

The source claims each upload to be (epsilon_t, delta)-private at the budget epsilon_t that its noise was calibrated
for, and nothing about a run. So each client is promised its own budget for one upload, epsilon_i before its loss is
known. Where budgets are adjusted, an upload claims the budget that it had: the ledger's `claimed_epsilon` is the
largest that a client's uploads claimed, and its `naive_epsilon` their sum, which is what basic composition makes of
them (and of delta as many times as there were uploads). A budget that follows the loss is itself a release; none of
these numbers covers it, and the ledger's flags say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asyncfl.privacy.context import PrivacyContext
from asyncfl.privacy.release import Status
from asyncfl.privacy.scheme import Guarantee

if TYPE_CHECKING:
    from asyncfl.privacy.schemes.adaptive.scheme import AdaptiveBudgets

OF_CLIENT = {"2M": "one client's data replaced", "M": "one client's data added or removed"}
"""Readings of Delta that hold for what is clipped to M -> the neighbours that they hold for."""


def of_uploads(scheme: AdaptiveBudgets, budget: float) -> Guarantee:
    """(`budget`, delta) for one upload."""
    return Guarantee(_neighbours(scheme), _status(scheme), budget, scheme.delta, 1)


def of_models(scheme: AdaptiveBudgets, context: PrivacyContext) -> Guarantee | None:
    """(threshold, delta) for the model of one round; None without a threshold."""
    if scheme.threshold is None:
        return None
    neighbours = _neighbours(scheme)
    everywhere = f"{neighbours}, at every client" if scheme.round_budget == "sum" else neighbours
    status = _status(scheme) if context.equal_weights else "heuristic"
    return Guarantee(everywhere, status, scheme.threshold, scheme.delta, 1)


def _status(scheme: AdaptiveBudgets) -> Status:
    # A budget that follows the loss is chosen with the data that it is to protect.
    constant = scheme.adjustment == "none" and scheme.equal_spend is None
    return "proven" if constant and scheme.sensitivity in OF_CLIENT else "heuristic"


def _neighbours(scheme: AdaptiveBudgets) -> str:
    return OF_CLIENT.get(scheme.sensitivity, "one sample replaced")
