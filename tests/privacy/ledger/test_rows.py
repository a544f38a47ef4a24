"""Rows of the ledger and their flags: published values for the papers' settings, oracles, and laws."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.privacy import GaussianUpload, Mechanisms, Nbafl, NoPrivacy, PrivacyContext, Scheme
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.privacy.flags import CLASSICAL, HEURISTIC, INVALID, NO_NOISE, OVERDRAWN
from asyncfl.privacy.ledger.rows import COLUMNS, claim_holds, flags_of, ledger
from tests.privacy.planned import model_accounts, models_of, upload_accounts, uploads_of

CONTEXT = PrivacyContext(clients=50, participants=50, rounds=25, smallest_samples=100, exposures=1)


def drawn_up(scheme, context, samples, uploads, models, clip_norm=20.0):
    """The ledger of typical releases. `uploads`, `models`: adversary -> numbers of uploads, of updates in models."""
    return ledger(
        scheme,
        context,
        samples,
        upload_accounts(
            scheme, context, {who: uploads_of(scheme, context, samples, n, clip_norm) for who, n in uploads.items()}
        ),
        model_accounts(scheme, context, {who: models_of(scheme, context, n, clip_norm) for who, n in models.items()}),
        clip_norm,
    )


def of(scheme, context=CONTEXT, *, uploads=(), models=(), samples=100, clip_norm=20.0):
    return drawn_up(
        scheme,
        context,
        np.full(len(uploads), samples),
        {"eavesdropper": uploads} if len(uploads) else {},
        {"eavesdropper": models} if len(models) else {},
        clip_norm,
    )


@pytest.mark.parametrize(
    ("epsilon", "once", "all_rounds", "models", "once_by_rdp"),
    [(50, 111.9, 2220, 8.60, 119.3), (60, 154.3, 3161, 11.22, 163.5), (100, 390.3, 8583, 24.41, 406.3)],
)
def test_exact_epsilons_of_nbafl_figure_2_equal_the_published_values(epsilon, once, all_rounds, models, once_by_rdp):
    found = of(Nbafl(epsilon=epsilon), uploads=[0, 1, 25], models=[50] * 25)
    assert found["exact_epsilon"] == pytest.approx([0, once, all_rounds, models], rel=5e-4)
    assert found["rdp_epsilon"][1] == pytest.approx(once_by_rdp, rel=5e-4)
    assert found["claim_holds"].tolist() == [None, False, False, None]
    assert found["claimed_epsilon"].tolist() == [epsilon] * 4
    assert found["naive_epsilon"] == pytest.approx([0, epsilon, 25 * epsilon, epsilon])
    assert found["releases"].tolist() == [0, 1, 25, 25]
    assert found["holder"].tolist() == ["client"] * 3 + ["model"]
    assert found["client"].tolist() == [0, 1, 2, -1]
    assert set(found["status"]) == {"heuristic"}


def test_exact_epsilons_of_nbafl_figure_3_equal_the_published_values():
    context = PrivacyContext(50, 50, 25, 512, 1)
    found = [of(Nbafl(epsilon=epsilon, constant=1), context, uploads=[1])["exact_epsilon"][0] for epsilon in (6, 8, 10)]
    assert found == pytest.approx([5.71, 8.60, 11.92], abs=5e-3)


def test_exact_epsilons_of_safl_equal_the_published_values():
    found = of(GaussianUpload(epsilon=6), uploads=[1, 5, 10, 50], samples=600, clip_norm=None)
    assert found["exact_epsilon"] == pytest.approx([5.62, 15.04, 23.70, 74.88], abs=5e-3)
    assert found["naive_epsilon"].tolist() == [6, 30, 60, 300]
    assert found["claim_holds"].tolist() == [None, False, False, False]


def test_epsilon_is_infinite_without_privacy():
    found = of(NoPrivacy(), uploads=[0, 2], models=[3], clip_norm=None)
    assert found["exact_epsilon"].tolist() == [0, math.inf]
    assert found["naive_epsilon"].tolist() == [0, math.inf]
    assert found["status"].tolist() == ["none", "none"]
    off = of(Nbafl(epsilon=math.inf), uploads=[0, 2], models=[3], clip_norm=None)
    assert off["exact_epsilon"].tolist() == [0, math.inf]
    for table in (found, off):
        assert table["delta"].tolist() == [0, 0]
        assert table["claimed_epsilon"].tolist() == [math.inf, math.inf]
        assert table["claim_holds"].tolist() == [None, None], "nothing is claimed"


@given(
    st.sampled_from(["proven", "heuristic", "disproved", "invalid", "none"]),
    st.lists(st.floats(0, 1e300) | st.just(math.inf), min_size=4, max_size=4),
    st.sampled_from(["", NO_NOISE, HEURISTIC]),
)
def test_claims_with_a_heuristic_sensitivity_are_never_called_proven(
    status: str, numbers: list[float], flag: str
) -> None:
    claimed, provable, exact, measured = (np.array([value]) for value in numbers)
    (found,) = claim_holds(np.array([status], object), claimed, provable, exact, np.array([flag], object), measured)
    if status in ("heuristic", "disproved") or not numbers[1] <= numbers[0] * (1 + 1e-9) or math.isinf(numbers[0]):
        assert found is not True


def test_columns_match_the_documentation():
    for table in (of(Nbafl(epsilon=60), uploads=[1], models=[50]), of(NoPrivacy(), models=[50])):
        assert list(table) == list(COLUMNS)
        assert len({len(column) for column in table.values()}) == 1


def test_a_classical_calibration_past_its_limit_breaks_a_proven_claim():
    client = {"kind": "gaussian", "epsilon": 20, "calibration": "classical"}
    found = of(Mechanisms(client=client), uploads=[0, 1], clip_norm=1.0)
    assert found["status"].tolist() == ["proven", "proven"]
    assert found["flags"].tolist() == ["classical calibration past its limit"] * 2
    assert found["claim_holds"].tolist() == [True, False]
    assert found["exact_epsilon"][1] == pytest.approx(exact_epsilon((20 / 4.844805214) ** 2, 1e-5))


LITERAL = {"kind": "laplace", "epsilon": 1.0, "sensitivity_from": "seed_literal"}


def test_invalid_noise_is_accounted_for_with_the_true_sensitivity():
    context = PrivacyContext(50, 50, 25, 100, 1, n_parameters=25)
    found = of(Mechanisms(client=LITERAL, server=LITERAL), context, uploads=[0, 1, 4], models=[50], clip_norm=1.0)
    # 2 sqrt(25) = 10 times the claim for an upload, a fiftieth of that for a mean of 50: by luck it is enough.
    for name in ("basic", "advanced", "rdp", "exact"):
        assert found[f"{name}_epsilon"] == pytest.approx([0, 10, 40, 0.2]), name
    assert found["claimed_epsilon"].tolist() == [1, 1, 1, 1]
    assert found["naive_epsilon"].tolist() == [0, 1, 4, 1]
    assert found["sensitivity"] == pytest.approx([10, 10, 10, 0.2])
    # By luck is not by proof.
    assert found["claim_holds"].tolist() == [True, False, False, None]
    assert set(found["status"]) == {"invalid"}
    assert set(found["flags"]) == {"sensitivity invalid"}


def test_invalid_noise_on_an_unbounded_model_has_no_known_epsilon():
    client = {**LITERAL, "epsilon": 100}
    found = of(Mechanisms(client=client, clip={"target": "gradient"}), uploads=[0, 1], clip_norm=None)
    assert found["exact_epsilon"].tolist() == found["rdp_epsilon"].tolist() == [0, math.inf]
    assert found["claimed_epsilon"].tolist() == [100, 100]
    assert found["claim_holds"].tolist() == [True, None]
    assert "released without noise" not in found["flags"][1]


def flagged(
    scheme: Scheme, context: PrivacyContext = CONTEXT, once: float | None = None, of_models: bool = False
) -> Any:
    stated = scheme.model_guarantee(context) if of_models else scheme.upload_guarantee(context)
    return flags_of(scheme, context, stated, once, of_models)


def gaussian(epsilon: float, **fields: Any) -> dict[str, Any]:
    return {"kind": "gaussian", "epsilon": epsilon, **fields}


def test_a_classical_mechanism_past_its_limit_is_flagged() -> None:
    past = gaussian(20, calibration="classical")
    assert flagged(Mechanisms(client=past)) == [CLASSICAL]
    assert flagged(Mechanisms(client=gaussian(20))) == []
    assert flagged(Mechanisms(client=gaussian(8.4, calibration="classical"))) == []
    shared = gaussian(20, calibration="classical", releases="rounds")
    assert flagged(Mechanisms(client=shared)) == [], "one of 25 releases has .8"
    both = Mechanisms(client=gaussian(1), server=past)
    assert (flagged(both), flagged(both, of_models=True)) == ([], [CLASSICAL])
    literal = {"kind": "laplace", "epsilon": 1, "sensitivity_from": "seed_literal"}
    assert flagged(Mechanisms(client=literal)) == [INVALID]


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
    assert (CLASSICAL in flagged(scheme, context)) == past
    assert (CLASSICAL in flagged(scheme, context, once=per_release)) == past


def test_noise_in_each_epoch_is_flagged_if_it_exceeds_the_claim() -> None:
    three = replace(CONTEXT, epochs=3)
    scheme = GaussianUpload(epsilon=6, noise="epoch")
    assert flagged(scheme, three) == [OVERDRAWN, HEURISTIC]
    assert flagged(scheme) == flagged(GaussianUpload(epsilon=6), three) == [HEURISTIC]
    assert flagged(GaussianUpload(epsilon=9, noise="epoch"), three) == [CLASSICAL, OVERDRAWN, HEURISTIC]
    assert flagged(GaussianUpload(epsilon=12, noise="epoch", budget="total"), three) == [HEURISTIC]
