"""The NbAFL scheme: clipping, noise, guarantees and notes."""

import dataclasses
import math

import numpy as np
import pytest

from asyncfl.privacy import Contribution, Nbafl, PrivacyContext

SMALL, LARGE = Contribution(0, 100), Contribution(0, 900)
MLP_PARAMETERS = 203_530
EVERYONE = PrivacyContext(
    clients=50, participants=50, rounds=25, smallest_samples=100, exposures=1, n_parameters=MLP_PARAMETERS
)
FIGURE_4 = PrivacyContext(
    clients=50, participants=20, rounds=25, smallest_samples=100, exposures=2, n_parameters=MLP_PARAMETERS
)


def test_defaults_match_the_paper():
    scheme = Nbafl(epsilon=60)
    assert scheme.clip_target.payload == "model"
    assert (scheme.delta, scheme.exposures, scheme.clip_norm, scheme.constant) == (0.01, 1, "median", 1.25)
    assert (scheme.sensitivity, scheme.composition, scheme.b_rule) == ("2C/m", "naive", "paper")


def test_infinite_epsilon_means_no_clipping_and_no_noise():
    scheme = Nbafl(epsilon=math.inf)
    assert scheme.start(EVERYONE).clip_norm(np.array([1.0])) is None
    assert scheme.upload_noise(EVERYONE, None, SMALL).std == scheme.model_noise(EVERYONE, None).std == 0
    assert scheme.assumed_exposures(25, 50, 50) == 0
    assert scheme.upload_guarantee(EVERYONE) is scheme.model_guarantee(EVERYONE) is None
    assert scheme.notes(EVERYONE) == []
    assert scheme.norm_growth(EVERYONE) == 1
    assert (
        scheme.upload_noise(EVERYONE, None, SMALL).sensitivity
        == scheme.model_noise(EVERYONE, None).sensitivity
        == math.inf
    )


def test_median_clipping_makes_the_norm_grow():
    # k = 2cT/(m N epsilon): 2 * 3.8843893 * 25/(100 * 50 * 50), and (1 + k^2 d)^(T/2)
    k = 2 * 3.8843893 * 25 / (100 * 50 * 50)
    expected = (1 + k**2 * MLP_PARAMETERS) ** 12.5
    assert Nbafl(epsilon=50).norm_growth(EVERYONE) == pytest.approx(expected, rel=1e-6)
    assert Nbafl(epsilon=50, clip_norm=20).norm_growth(EVERYONE) == 1
    assert math.isfinite(Nbafl(epsilon=1e-3).norm_growth(EVERYONE))


def noted(scheme, context, words):
    return [note for note in scheme.notes(context) if words in note]


def test_notes_name_every_assumption_that_fails():
    usual = Nbafl(epsilon=50)
    assert noted(usual, EVERYONE, "assumption")
    assert noted(usual, EVERYONE, "heuristic")
    assert noted(usual, EVERYONE, "no ledger covers")
    assert noted(usual, EVERYONE, "4.26-fold")
    assert noted(usual, EVERYONE, "releases x delta")
    assert noted(usual, EVERYONE, "up to epsilon 13.77")
    assert not noted(usual, EVERYONE, "b_rule")


def test_notes_explain_the_sampling_discount():
    assert noted(Nbafl(epsilon=50), FIGURE_4, "does not exist here, so the server adds nothing")
    assert noted(Nbafl(epsilon=6), FIGURE_4, "b_rule: paper, whose b is ")
    assert noted(Nbafl(epsilon=6, b_rule="amplification"), FIGURE_4, "cannot tell which clients were drawn")
    assert noted(Nbafl(epsilon=6, composition="analytic"), FIGURE_4, "even split")
    assert noted(Nbafl(epsilon=6, composition="analytic"), FIGURE_4, "no effect")
    assert not noted(Nbafl(epsilon=6, b_rule="none"), FIGURE_4, "drawn")


@pytest.mark.parametrize(
    ("sensitivity", "clip_norm", "upload", "model"),
    [
        ("2C/m", 20, "heuristic", "heuristic"),
        ("2C", 20, "proven", "proven"),
        ("2C/N", 20, "heuristic", "proven"),
        ("2C", "median", "heuristic", "heuristic"),
    ],
)
def test_status_of_the_guarantees_for_each_sensitivity(sensitivity, clip_norm, upload, model):
    scheme = Nbafl(epsilon=60, sensitivity=sensitivity, clip_norm=clip_norm)
    of_upload, of_model = scheme.upload_guarantee(FIGURE_4), scheme.model_guarantee(FIGURE_4)
    assert (of_upload.status, of_model.status) == (upload, model)
    assert (of_upload.releases, of_model.releases) == (2, 25)
    assert (of_model.unit, of_model.neighbours) == ("sample" if sensitivity == "2C/m" else "client", "replace")
    uneven = dataclasses.replace(FIGURE_4, equal_weights=False)
    assert scheme.upload_guarantee(uneven).status == upload
    assert scheme.model_guarantee(uneven).status == "heuristic"
    assert noted(scheme, uneven, "weigh more than 1/n")
    assert not noted(scheme, FIGURE_4, "weigh more than 1/n")


def test_server_noise_grows_with_the_weight_of_one_client():
    scheme = Nbafl(epsilon=6, clip_norm=20, sensitivity="2C")
    even = scheme.noise(EVERYONE, 20.0)
    everyone = [Contribution(client, 100, weight=1 / 50) for client in range(50)]
    assert scheme.model_noise(EVERYONE, 20.0, everyone).std == scheme.model_noise(EVERYONE, 20.0).std == even.sigma_d
    twice = [Contribution(client // 2, 100, weight=1 / 50) for client in range(50)]
    missing = math.sqrt((2 * even.sigma_a) ** 2 - even.sigma_u**2 / 50)
    assert scheme.model_noise(EVERYONE, 20.0, twice).std == pytest.approx(missing)
    assert scheme.model_noise(EVERYONE, 20.0, twice).sensitivities == pytest.approx(
        dict.fromkeys(range(25), 2 * 40 / 50)
    )
    doubled = dataclasses.replace(EVERYONE, rate=2.0)
    assert scheme.model_noise(doubled, 20.0).std == 2 * even.sigma_d
    assert scheme.model_noise(doubled, 20.0).sensitivity == 2 * scheme.model_noise(EVERYONE, 20.0).sensitivity
    short = everyone[:10]
    assert scheme.model_noise(EVERYONE, 20.0, [dataclasses.replace(one, weight=0.1) for one in short]).std == (
        even.sigma_d
    ), "the paper's noise is for K, the ledger counts who came"
