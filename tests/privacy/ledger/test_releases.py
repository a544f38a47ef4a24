"""Releases of scores and claims of uploads."""

from __future__ import annotations

import math

import pytest

from asyncfl.privacy import Contribution, GaussianUpload, PrivacyContext
from asyncfl.privacy.ledger.releases import Release, answer_release, upload_release
from asyncfl.privacy.scheme import Guarantee, Unit
from asyncfl.privacy.score_noise import ScoreNoise


def test_scores_without_noise_count_as_no_mechanism() -> None:
    stated = Guarantee("sample", "replace", "proven", 2.0, 1e-5, 10)
    assert answer_release(None, stated, 3, 20) == Release("gaussian", 0.0, 0.0, 0, "replace", "proven", 0.0, 1e-5)
    assert answer_release(None, None, 3, 20) == Release("gaussian", 0.0, 0.0, 0, "none", "none", 0.0, 0.0)


@pytest.mark.parametrize(("unit", "sensitivity"), [("sample", math.sqrt(3) / 20), ("client", math.sqrt(3))])
def test_scores_with_noise_are_one_gaussian_release(unit: Unit, sensitivity: float) -> None:
    stated = Guarantee(unit, "replace", "proven", 2.0, 1e-5, 10)
    found = answer_release(ScoreNoise(std=0.25), stated, 3, 20)
    assert found == Release("gaussian", 0.25, sensitivity, 1, "replace", "proven", 0.0, 1e-5)
    noise = ScoreNoise(epsilon=0.5)
    budgeted = answer_release(noise, stated, 3, 20)
    assert (budgeted.epsilon, budgeted.std) == (0.5, noise.std_of(3, 20))


class _Promising(GaussianUpload):
    """Promises each client something else."""

    def upload_guarantee(self, context: PrivacyContext, client: int | None = None) -> Guarantee:
        return Guarantee("sample", "replace", "proven", 99.0 if client is None else 10.0 * (client + 1), 1e-5, 1)


@pytest.mark.parametrize(("client", "claim"), [(-1, 99.0), (0, 10.0), (1, 20.0)])
def test_an_upload_claims_what_its_client_was_promised(client: int, claim: float) -> None:
    context = PrivacyContext(clients=2, participants=2, rounds=3, smallest_samples=20, exposures=1)
    assert upload_release(_Promising(epsilon=5), context, None, Contribution(client, 20)).epsilon == claim
