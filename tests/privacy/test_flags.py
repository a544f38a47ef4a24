"""Objections to a claim, for each scheme."""

from dataclasses import replace
from typing import Any

import pytest

from asyncfl.privacy import GaussianUpload, Mechanisms, Nbafl, PrivacyContext, Scheme
from asyncfl.privacy.flags import CLASSICAL, HEURISTIC, INVALID, OVERDRAWN
from asyncfl.privacy.ledger.rows import flags_of

CONTEXT = PrivacyContext(clients=50, participants=50, rounds=25, smallest_samples=100, exposures=1)


def found(scheme: Scheme, context: PrivacyContext = CONTEXT, once: float | None = None, of_models: bool = False) -> Any:
    stated = scheme.model_guarantee(context) if of_models else scheme.upload_guarantee(context)
    return flags_of(scheme, context, stated, once, of_models)


def gaussian(epsilon: float, **fields: Any) -> dict[str, Any]:
    return {"kind": "gaussian", "epsilon": epsilon, **fields}


def test_a_classical_mechanism_past_its_limit_is_flagged() -> None:
    past = gaussian(20, calibration="classical")
    assert found(Mechanisms(client=past)) == [CLASSICAL]
    assert found(Mechanisms(client=gaussian(20))) == []
    assert found(Mechanisms(client=gaussian(8.4, calibration="classical"))) == []
    shared = gaussian(20, calibration="classical", releases="rounds")
    assert found(Mechanisms(client=shared)) == [], "one of 25 releases has .8"
    both = Mechanisms(client=gaussian(1), server=past)
    assert (found(both), found(both, of_models=True)) == ([], [CLASSICAL])
    literal = {"kind": "laplace", "epsilon": 1, "sensitivity_from": "seed_literal"}
    assert found(Mechanisms(client=literal)) == [INVALID]


@pytest.mark.parametrize(
    ("composition", "per_release", "past"),
    [
        # The limit is 6.772 at delta = .01, and 7.688 at a twenty-fifth of it.
        ("naive", 6.7, False),
        ("naive", 6.8, True),
        ("naive_delta_split", 7.6, False),
        ("naive_delta_split", 7.7, True),
        ("analytic", 50, False),
        ("rdp", 50, False),
    ],
)
def test_the_classical_limit_uses_the_delta_of_one_release(composition: Any, per_release: float, past: bool) -> None:
    context = replace(CONTEXT, exposures=25)
    scheme = Nbafl(epsilon=25 * per_release, clip_norm=1.0, composition=composition, constant=1, sensitivity="2C")
    assert (CLASSICAL in found(scheme, context)) == past
    assert (CLASSICAL in found(scheme, context, once=per_release)) == past


def test_noise_in_each_epoch_is_flagged_if_it_exceeds_the_claim() -> None:
    three = replace(CONTEXT, epochs=3)
    scheme = GaussianUpload(epsilon=6, noise="epoch")
    assert found(scheme, three) == [OVERDRAWN, HEURISTIC]
    assert found(scheme) == found(GaussianUpload(epsilon=6), three) == [HEURISTIC]
    assert found(GaussianUpload(epsilon=9, noise="epoch"), three) == [CLASSICAL, OVERDRAWN, HEURISTIC]
    assert found(GaussianUpload(epsilon=12, noise="epoch", budget="total"), three) == [HEURISTIC]
