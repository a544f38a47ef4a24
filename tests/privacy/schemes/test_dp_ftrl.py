"""Noise, sensitivities and claims of DP-FTRL by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.privacy import Contribution, DpFtrl, PrivacyContext
from asyncfl.privacy.accounting.gaussian import exact_epsilon
from asyncfl.scenario import Scenario

CONTEXT = PrivacyContext(
    clients=40, participants=4, rounds=12, smallest_samples=10, exposures=0, rate=2.0, min_separation=3
)
BANDED = {"kind": "banded", "bands": 3, "coefficients": "square_root"}


def scheme(**fields: Any) -> DpFtrl:
    return DpFtrl(**{"noise_multiplier": 0.5, "clip_norm": 0.1, "factorisation": BANDED} | fields)


def updates(*weights: float, clients: tuple[int, ...] = (0, 1, 2, 3)) -> list[Contribution]:
    return [Contribution(client, 10, weight=weight) for client, weight in zip(clients, weights, strict=False)]


def test_planned_noise_is_that_of_the_worst_pattern() -> None:
    """Columns 1, 1/2, 3/8 three apart do not overlap: four of 12 versions, 4 (1 + 1/4 + 9/64), the last one whole."""
    assert scheme().model_noise(CONTEXT, 0.1).std == pytest.approx(0.5 * math.sqrt(4 * 89 / 64) * 0.1 * 2 / 4)
    once = replace(CONTEXT, max_participations=1)
    assert scheme().model_noise(once, 0.1).std == pytest.approx(0.5 * math.sqrt(89 / 64) * 0.1 * 2 / 4)


def test_a_larger_separation_needs_less_noise() -> None:
    stds = [scheme().model_noise(replace(CONTEXT, min_separation=b), 0.1).std for b in (1, 2, 3, 6, 12)]
    assert stds == sorted(stds, reverse=True)
    assert len(set(stds)) == 5


def test_the_noise_of_a_version_follows_the_update_that_weighs_most() -> None:
    """Weights of rate/n are planned; an update of twice that needs twice the noise, stale ones less."""
    planned = scheme().model_noise(CONTEXT, 0.1).std
    assert scheme().model_noise(CONTEXT, 0.1, updates(0.5, 0.5, 0.5, 0.5)).std == pytest.approx(planned)
    assert scheme().model_noise(CONTEXT, 0.1, updates(1.0, 0.5, 0.1, 0.1)).std == pytest.approx(2 * planned)
    assert scheme().model_noise(CONTEXT, 0.1, updates(0.25, 0.1, 0.1, 0.1)).std == pytest.approx(planned / 2)
    twice = updates(0.5, 0.5, 0.5, 0.5, clients=(0, 0, 1, 2))
    assert scheme().model_noise(CONTEXT, 0.1, twice).std == pytest.approx(2 * planned)
    assert scheme(neighbours="replace").model_noise(CONTEXT, 0.1, twice).sensitivities == {
        0: pytest.approx(0.2), 1: pytest.approx(0.1), 2: pytest.approx(0.1)
    }  # fmt: skip


@pytest.mark.parametrize(("neighbours", "reach"), [("zero_out", 1.0), ("replace", 2.0)])
def test_the_claim_is_one_gaussian_release_for_the_whole_run(neighbours: str, reach: float) -> None:
    for factorisation in ({"kind": "independent"}, {"kind": "tree"}, BANDED):
        told = scheme(neighbours=neighbours, factorisation=factorisation).model_guarantee(CONTEXT)
        assert told.epsilon == pytest.approx(float(exact_epsilon((reach / 0.5) ** 2, 1e-5)))
        assert (told.unit, told.neighbours, told.status, told.releases) == ("client", neighbours, "proven", 4)
    uneven = scheme().model_guarantee(replace(CONTEXT, equal_weights=False))
    assert uneven.status == "heuristic"
    assert any("may weigh more than 1/n" in note for note in scheme().notes(replace(CONTEXT, equal_weights=False)))


def test_uploads_carry_no_noise_and_claim_nothing() -> None:
    one = Contribution(0, 10)
    assert scheme().upload_noise(CONTEXT, 0.1, one).std == 0
    assert scheme().upload_guarantee(CONTEXT) is None
    assert scheme().proven_sensitivity(CONTEXT, 0.1, one) == 0.1


def test_each_update_spends_a_part_of_its_own_only_where_columns_do_not_overlap() -> None:
    multiplier = scheme().model_multiplier(CONTEXT)
    assert multiplier == pytest.approx(0.5 * math.sqrt(4))
    assert scheme(neighbours="replace").model_multiplier(CONTEXT) == pytest.approx(0.5)
    assert scheme().model_multiplier(replace(CONTEXT, min_separation=2)) is None
    assert scheme(factorisation={"kind": "tree"}).model_multiplier(CONTEXT) is None


def test_the_notes_say_what_the_claim_counts_on() -> None:
    notes = scheme().notes(CONTEXT)
    assert any("at most 4 of 12 versions, 3 or more apart: noise for a sensitivity of 2.3585," in one for one in notes)


TREE: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 10, "samples_per_client": 10, "source": "embedded"},
    "model": {"kind": "mlp", "hidden": []},
    "protocol": {"kind": "sync", "rounds": 4},
    "privacy": {"kind": "dp_ftrl", "noise_multiplier": 1.0, "factorisation": {"kind": "tree"}},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy.noise_multiplier": 0.0}, "privacy.noise_multiplier: must be greater than 0"),
        ({"privacy.factorisation": {"kind": "banded"}}, "privacy.factorisation.bands: is required"),
        ({"privacy.factorisation": {"kind": "banded", "bands": 0}}, "privacy.factorisation.bands: must be "),
        (
            {"privacy.factorisation": {"kind": "banded", "bands": 100}, "protocol.rounds": 40_001},
            "privacy.factorisation: correlates the noise of at most 40000 versions, got protocol.rounds 40001",
        ),
        ({"protocol.rounds": 100_001}, "privacy.factorisation: correlates the noise of at most 100000 versions"),
        ({"privacy.factorisation.restart": 0}, "privacy.factorisation.restart: must be "),
        (
            {"privacy.stop_at": {"epsilon": 5.0, "adversary": "public", "of": "models"}},
            "privacy.stop_at.of: models counts what models reveal about clients, which this scheme does not bound",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        Scenario.read(TREE).override(changes)
