"""The NbAFL scheme: clipping, guarantees, notes, and published values of its noise."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asyncfl.privacy import Contribution, Nbafl, PrivacyContext
from asyncfl.privacy.client_weights import UNEVEN_WEIGHTS
from asyncfl.privacy.flags import AMPLIFICATION, CLASSICAL, CLIP_NORM, FLAGS, HEURISTIC
from asyncfl.privacy.ledger.rows import scheme_notes
from asyncfl.privacy.schemes.nbafl import amplification_discount, model_std, paper_discount

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
    made = scheme.upload_noise(EVERYONE, None, SMALL), scheme.model_noise(EVERYONE, None)
    assert [one.sensitivity for one in made] == [math.inf, math.inf]


def test_median_clipping_makes_the_norm_grow():
    # k = 2cT/(m N epsilon): 2 * 3.8843893 * 25/(100 * 50 * 50), and (1 + k^2 d)^(T/2)
    k = 2 * 3.8843893 * 25 / (100 * 50 * 50)
    expected = (1 + k**2 * MLP_PARAMETERS) ** 12.5
    assert Nbafl(epsilon=50).norm_growth(EVERYONE) == pytest.approx(expected, rel=1e-6)
    assert Nbafl(epsilon=50, clip_norm=20).norm_growth(EVERYONE) == 1
    assert math.isfinite(Nbafl(epsilon=1e-3).norm_growth(EVERYONE))


def test_notes_explain_every_flag_and_name_assumptions():
    usual = Nbafl(epsilon=50)
    flags = [HEURISTIC, CLASSICAL, CLIP_NORM]
    assert [note.partition(": ")[0] for note in scheme_notes(usual, EVERYONE)[:3]] == sorted(
        flags, key=list(FLAGS).index
    )
    assumption, growth = scheme_notes(usual, EVERYONE)[3:]
    assert "an assumption about the eavesdropper" in assumption
    assert "4.26-fold" in growth
    assert any(note.startswith(AMPLIFICATION) for note in scheme_notes(Nbafl(epsilon=6), FIGURE_4))
    assert not any(AMPLIFICATION in note for note in scheme_notes(Nbafl(epsilon=6, b_rule="none"), FIGURE_4))


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
    assert UNEVEN_WEIGHTS in scheme.notes(uneven)
    assert UNEVEN_WEIGHTS not in scheme.notes(FIGURE_4)


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


def noise(clients=50, participants=50, rounds=25, samples=100, exposures=1, weights=(), **fields):
    context = PrivacyContext(clients, participants, rounds, samples, exposures)
    entered = [Contribution(client, samples, weight=weight) for client, weight in weights]
    scheme = Nbafl(**{"epsilon": 60.0, "clip_norm": 20.0} | fields)
    return scheme.noise(context, scheme.clip_norm, entered)


FIGURE_3 = {"samples": 512, "constant": 1.0}


@pytest.mark.parametrize(
    ("epsilon", "figure", "sigma_u", "sigma_d"),
    [
        (50, {}, 0.03107511, 0.01490310),
        (60, {}, 0.02589593, 0.01241925),
        (100, {}, 0.01553756, 0.00745155),
        (6, FIGURE_3, 0.04046239, 0.01940508),
        (8, FIGURE_3, 0.03034679, 0.01455381),
        (10, FIGURE_3, 0.02427743, 0.01164305),
    ],
)
def test_full_participation_equals_the_published_values(epsilon, figure, sigma_u, sigma_d):
    found = noise(epsilon=epsilon, **figure)
    assert (found.sigma_u, found.sigma_a, found.sigma_d) == pytest.approx((sigma_u, sigma_u / 2, sigma_d), abs=5e-9)
    assert found.b == 1


def test_server_noise_falls_to_zero_with_more_exposures():
    assert noise(exposures=3).sigma_d == pytest.approx(0.00685142, abs=5e-9)
    found = noise(exposures=4)
    assert found.sigma_d == 0
    assert found.server_rule == "paper: none, T <= epsilon/gamma (25 <= 28.2843)"


@pytest.mark.parametrize("epsilon", [6, 20, 60, 100])
def test_exact_accounting_needs_the_least_noise_where_all_uploads_are_overheard(epsilon):
    others = ("naive", "naive_delta_split", "advanced", "rdp")
    sigma_u = {name: noise(epsilon=epsilon, exposures=25, composition=name).sigma_u for name in (*others, "analytic")}
    assert sigma_u.pop("analytic") < min(sigma_u.values())


@pytest.mark.parametrize(
    ("clients", "sigma_d"), [(50, 0.01490310), (60, 0.01231078), (80, 0.00906820), (100, 0.00712020)]
)
def test_figure_6_equals_the_published_values(clients, sigma_d):
    found = noise(clients=clients, participants=clients, constant=1.5)
    assert found.sigma_d == pytest.approx(sigma_d, abs=5e-9)


@pytest.mark.parametrize(
    ("row", "gamma", "limit", "printed", "amplified"),
    [
        # Participants, exposures, epsilon, rounds; gamma, epsilon/gamma; b and sigma_d as printed and by amplification.
        ((20, 2, 50, 25), 0.50833912, 98.359536, (None, 0), (1.415801, 0.02365587)),
        ((20, 1, 6, 25), 0.35017248, 17.134413, (3.17644984, 0.08385598), (2.156983, 0.13844894)),
        ((20, 2, 6, 30), 0.21751495, 27.584311, (3.01811506, 0.05614578), (2.202574, 0.13300275)),
        ((45, 1, 50, 25), 2.297384, 21.763882, (1.618756, 0.009606), (1.045867, 0.01584349)),
    ],
)
def test_equation_7_as_printed_and_by_amplification_equals_the_published_values(row, gamma, limit, printed, amplified):
    K, L, epsilon, T = row
    settings = {"participants": K, "exposures": L, "epsilon": epsilon, "rounds": T}
    found, correct = noise(**settings), noise(**settings, b_rule="amplification")
    assert (found.gamma, epsilon / found.gamma) == pytest.approx((gamma, limit), abs=5e-7)
    assert found.b == (None if printed[0] is None else pytest.approx(printed[0], abs=5e-7))
    assert (found.sigma_a is None) == (found.b is None)
    assert found.sigma_d == pytest.approx(printed[1], abs=5e-7)
    assert (correct.b, correct.sigma_d) == (
        pytest.approx(amplified[0], abs=5e-7),
        pytest.approx(amplified[1], abs=5e-9),
    )


CASES = st.fixed_dictionaries(
    {
        "clients": st.integers(2, 200),
        "share": st.floats(0.01, 1),
        "rounds": st.integers(1, 200),
        "exposures": st.integers(1, 20),
        "epsilon": st.floats(0.5, 300),
        "samples": st.integers(1, 1000),
        "clip_norm": st.floats(0.1, 100),
        "composition": st.sampled_from(["naive", "naive_delta_split", "analytic"]),
        "b_rule": st.sampled_from(["paper", "amplification", "none"]),
    }
)


def of_case(case, **changes):
    case = dict(case)
    case["participants"] = max(1, round(case["clients"] * case.pop("share")))
    return case, noise(**(case | changes))


@settings(deadline=None)
@given(CASES)
def test_client_and_server_noise_add_up_to_the_needed_noise(case):
    case, found = of_case(case)
    if found.sigma_d > 0:
        K = case["participants"]
        assert found.sigma_a**2 == pytest.approx(found.sigma_d**2 + found.sigma_u**2 / K, rel=1e-9)
        assert model_std(found, K) == pytest.approx(found.sigma_a, rel=1e-9)


@settings(deadline=None)
@given(CASES)
def test_full_participation_follows_equation_5_for_every_discount(case):
    case, found = of_case(case | {"share": 1.0, "composition": "naive"})
    N, T, L, m = case["clients"], case["rounds"], case["exposures"], case["samples"]
    c = 1.25 * math.sqrt(2 * math.log(125))
    radicand = T**2 - L**2 * N
    assume(radicand == 0 or abs(radicand) > 1e-9 * T**2)
    expected = 2 * c * case["clip_norm"] * math.sqrt(max(0, radicand)) / (m * N * case["epsilon"])
    assert found.b == 1
    assert found.sigma_d == pytest.approx(expected, rel=1e-6)


@given(st.floats(0.01, 500), st.integers(1, 500), st.floats(0.01, 0.999))
def test_the_printed_discount_overstates_amplification(epsilon, rounds, share):
    assert paper_discount(epsilon, rounds, 1.0) == amplification_discount(epsilon, rounds, 1.0) == 1
    correct = amplification_discount(epsilon, rounds, share)
    printed = paper_discount(epsilon, rounds, share)
    assert correct >= 1
    assert printed is None or printed >= correct * (1 - 1e-9)


@given(st.floats(0.1, 100), st.integers(1, 200), st.floats(0.01, 0.999))
def test_amplification_discount_inverts_subsampling(epsilon, rounds, share):
    per_round = epsilon / rounds
    stretched = amplification_discount(epsilon, rounds, share) * per_round
    assert math.log1p(share * math.expm1(stretched)) == pytest.approx(per_round, rel=1e-9)


def test_server_noise_for_unequal_weights():
    even = noise(epsilon=6.0)
    assert noise(epsilon=6.0, weights=[(client, 1 / 50) for client in range(50)]) == even
    # One client has three of the 50 updates.
    often = noise(epsilon=6.0, weights=[(max(client, 2), 1 / 50) for client in range(50)])
    assert often.sigma_u == even.sigma_u
    assert often.sigma_a == pytest.approx(3 * even.sigma_a)
    assert often.sigma_d**2 == pytest.approx(often.sigma_a**2 - even.sigma_u**2 / 50)
    # One client has half of the weight: K sum p_j^2 = 50 (1/4 + 1/4/49).
    uneven = noise(epsilon=6.0, weights=[(0, 0.5), *((client, 0.5 / 49) for client in range(1, 50))])
    assert uneven.sigma_a == pytest.approx(25 * even.sigma_a)
    assert uneven.sigma_d**2 == pytest.approx(uneven.sigma_a**2 - (0.25 + 0.25 / 49) * even.sigma_u**2)
