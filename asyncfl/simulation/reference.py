"""Schemes that are measured by another scheme's run: that run comes first, with the same scenario and seed.

What it left behind is kept for the process, so that the controls of one adaptive run simulate it once.
"""

from __future__ import annotations

from typing import Any

from asyncfl.scenario import Evaluation, Scenario

KEPT = 16
"""Runs that are remembered."""

_uploads: dict[tuple[str, int], list[dict[str, Any]]] = {}


def measured(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with a privacy scheme that needs no other run; unchanged where it needs none."""
    reference = scenario.privacy.reference
    if reference is None:
        return scenario
    # Nothing that is judged changes what is trained.
    unjudged = Evaluation(train_every=0, test_every=0)
    first = scenario.model_copy(update={"privacy": reference.scheme, "evaluation": unjudged, "seeds": (seed,)})
    return scenario.model_copy(update={"privacy": reference.settle(_run(first, seed))})


def _run(scenario: Scenario, seed: int) -> list[dict[str, Any]]:
    from asyncfl.simulation.seed import simulate_seed

    key = scenario.digest(), seed
    if key not in _uploads:
        found = simulate_seed(scenario, seed).uploads
        while len(_uploads) >= KEPT:
            del _uploads[next(iter(_uploads))]
        _uploads[key] = found
    return _uploads[key]
