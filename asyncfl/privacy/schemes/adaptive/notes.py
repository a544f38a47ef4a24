"""What a reader of an adaptive run's results must see."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from asyncfl.privacy.accounting.gaussian import classical_limit
from asyncfl.privacy.noise.shares import UNEVEN

if TYPE_CHECKING:
    from asyncfl.privacy.context import PrivacyContext
    from asyncfl.privacy.schemes.adaptive.scheme import AdaptiveBudgets


NAMED = 5
"""Clients that a sentence names."""


def notes_of(scheme: AdaptiveBudgets, context: PrivacyContext) -> list[str]:
    """Sentences for `Scheme.notes`; `scheme` is not off."""
    notes = []
    if scheme.equal_spend is not None and not scheme.adapts:
        listed = ", ".join(f"{budget:.4g}" for budget in scheme.budgets)
        how = "sum of epsilon" if scheme.equal_spend == "naive" else "sum of epsilon squared"
        notes.append(
            f"constant budgets {listed}: the {how} over the uploads is that of the run whose budgets follow the loss; "
            "they were taken from its losses, a release that no ledger covers"
        )
    if scheme.sensitivity in ("2M/batch", "2M/n"):
        notes.append(
            f"sensitivity {scheme.sensitivity} is heuristic: it is that of one mean gradient, not of what is clipped "
            "after a whole epoch; sensitivity: 2M always holds"
        )
    if scheme.adapts:
        notes.append(
            "budgets follow the clients' losses, which no noise protects: how much noise an upload carries depends on "
            "the data, a release that no ledger covers"
        )
    notes.append("a budget is spent on every upload; the ledger says what each client spent in all")
    notes += _classical(scheme)
    if scheme.threshold is not None:
        notes.append(_threshold(scheme))
        if not context.equal_weights:
            notes.append(f"{UNEVEN}; the sensitivity of published models is heuristic")
    if scheme.shuffler is not None:
        notes.append(
            "shuffler: no amplification is claimed, the ledger takes the server to know whose each upload is; noise of "
            "each client's own size and layers that fit one another tell them apart"
        )
    return notes


def _classical(scheme: AdaptiveBudgets) -> list[str]:
    limit = classical_limit(scheme.delta, scheme.constant)
    past = [f"{client} ({epsilon:.4g})" for client, epsilon in enumerate(scheme.budgets) if limit < epsilon < math.inf]
    named = f"that of client {', '.join(past[:NAMED])}"
    if len(past) > NAMED:
        named += f" and {len(past) - NAMED} more"
    which = [named] if past else []
    which += ["one whose budget grows beyond"] if scheme.adapts else []
    if not which:
        return []
    return [
        f"the classical calibration holds up to epsilon {limit:.4g} for delta {scheme.delta:g} and constant "
        f"{scheme.constant:g}; an upload past it ({', or '.join(which)}) gives away more than claimed, see the ledger"
    ]


def _threshold(scheme: AdaptiveBudgets) -> str:
    each = f"threshold {scheme.threshold:g} is for the model of one round; the ledger composes the rounds"
    if scheme.round_budget == "sum":
        return f"{each}; a sum of budgets is what it costs to have data at every client"
    return f"{each}; sigma_D is the source's, for Delta and not for the mean's Delta/K: more than is missing"
