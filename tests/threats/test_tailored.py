from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from asyncfl.protocol.aggregation import DefenceState
from asyncfl.simulation.simulate import simulate_seed
from asyncfl.testing import view
from asyncfl.threats import Rehearsal, SignFlip, Tailored, Threats

HONEST = np.array([[3.0, 0, 4], [3, 0, 4], [3, 0, 4], [3, 0, 4]])
"""Equal updates of length 5; p is their negative."""


def server(weigh, strike=lambda rows: np.zeros(len(rows), bool)):
    """Return a rehearsal that moves the model by `weigh(rows)` of honest and crafted rows, and its calls."""
    asked = []

    def rehearse(crafted):
        asked.append(crafted)
        return Rehearsal(strike(crafted), weigh(np.concatenate([HONEST, crafted])))

    return rehearse, asked


def gamma_of(crafted):
    """Return gamma: the distance from the mean to the upload in lengths of p."""
    assert (crafted == crafted[0]).all()
    return float(1 - crafted[0] @ HONEST[0] / 25)


def crafted_against(rehearse, attack=None, honest=HONEST[:2]):
    seen = replace(view(honest, HONEST), rehearse=rehearse)
    return (attack or Tailored()).craft(seen)


def longer_than(limit):
    return lambda rows: np.linalg.norm(rows, axis=1) > limit


def test_gamma_is_the_largest_accepted_without_a_strike():
    rehearse, asked = server(lambda rows: rows.mean(axis=0), strike=longer_than(12.0))
    gamma = gamma_of(crafted_against(rehearse))
    # |mean + gamma p| = 5 |1 - gamma| <= 12: gamma <= 3.4.
    # 4 values that are 10 / 4 apart, and the place between two of them in 6 halvings.
    assert 3.4 - 2.5 / 2**6 <= gamma <= 3.4
    assert len(asked) == 11
    finer = gamma_of(crafted_against(rehearse, Tailored(rehearsals=20)))
    assert finer == pytest.approx(3.4, abs=10 / 7 / 2**13)
    # Flags count by their effect on the model.
    flagging, _ = server(lambda rows: rows[~longer_than(12.0)(rows)].mean(axis=0))
    assert 3.4 - 2.5 / 2**6 <= gamma_of(crafted_against(flagging)) <= 3.4


def test_undefended_server_gets_full_strength_and_strict_server_the_mean():
    mean, _ = server(lambda rows: rows.mean(axis=0))
    assert gamma_of(crafted_against(mean)) == pytest.approx(10, abs=0.01)
    assert gamma_of(crafted_against(mean, Tailored(strength=2))) == pytest.approx(2, abs=0.002)
    strict, _ = server(lambda rows: rows.mean(axis=0), strike=lambda rows: np.ones(len(rows), bool))
    np.testing.assert_allclose(crafted_against(strict), HONEST[:2], rtol=1e-6)


@pytest.mark.parametrize("direction", ["unit", "std", "sign"])
def test_directions_are_as_long_as_a_typical_update(direction):
    others = HONEST + np.array([[1, 0, 0], [-1, 0, 0], [0, 2, 0], [0, -2, 0]])
    rehearse, asked = server(lambda rows: rows.mean(axis=0))
    seen = replace(view(HONEST[:2], others), rehearse=rehearse)
    Tailored(direction=direction).craft(seen)
    typical = np.median(np.linalg.norm(others, axis=1))
    assert np.linalg.norm(asked[1][0] - asked[0][0]) == pytest.approx(2.5 * typical, rel=1e-5)


@pytest.fixture
def attacked(scenario):
    """Scenario with two tailored attackers of eleven against a defence."""

    def described(defence, attack=None, **more):
        return scenario.override(
            {
                "data": {**scenario.data.model_dump(mode="json"), "clients": 11},
                "threats": {"attack": attack or {"kind": "tailored", "rehearsals": 6}, "attackers": 3},
                "defence": defence,
                **more,
            }
        )

    return described


def test_rehearsal_does_not_change_the_run(attacked, monkeypatch):
    described = attacked({"detector": {"kind": "evidence"}, "strikes": {}}, {"kind": "sign_flip"})
    quiet = simulate_seed(described, 0)
    asked, craft = [], SignFlip.craft

    def asking(self, view):
        for factor in (1.0, 100.0, np.nan):
            answer = view.rehearse(np.asarray(-factor * view.honest, dtype=np.float32))
            asked.append((factor, answer.struck.all(), np.isfinite(answer.moved).all()))
        return craft(self, view)

    monkeypatch.setattr(SignFlip, "rehearses", True)
    monkeypatch.setattr(SignFlip, "craft", asking)
    watched = simulate_seed(described, 0)
    pd.testing.assert_frame_equal(pd.DataFrame(watched.rounds), pd.DataFrame(quiet.rounds))
    # What is not finite would be refused, and the rest go on without it.
    assert {(struck, finite) for factor, struck, finite in asked if np.isnan(factor)} == {(True, True)}


def test_rehearsed_change_of_the_model_is_the_real_one(attacked, monkeypatch):
    """Without noise the model moves as in the rehearsal."""
    predicted, craft = [], Tailored.craft

    def noting(self, view):
        crafted = craft(self, view)
        if crafted is not None:
            answer = view.rehearse(crafted)
            predicted.append((view.version, float(np.linalg.norm(answer.moved))))
        return crafted

    monkeypatch.setattr(Tailored, "craft", noting)
    moves, step = {}, DefenceState.aggregate

    def watching(self, buffer, verdict):
        outcome = step(self, buffer, verdict)
        moves[buffer.version] = float(np.linalg.norm(outcome.model - buffer.current))
        return outcome

    monkeypatch.setattr(DefenceState, "aggregate", watching)
    simulate_seed(attacked({"rule": {"kind": "median"}}), 0)
    assert predicted
    for version, moved in predicted:
        assert moves[version] == pytest.approx(moved, rel=1e-6)


def test_tailored_attack_rehearses_within_combined(attacked):
    combined = {"kind": "combined", "attacks": [{"kind": "label_flip"}, {"kind": "tailored", "rehearsals": 2}]}
    described = attacked({"rule": {"kind": "median"}}, combined)
    assert described.threats.attack.rehearses
    alone = attacked({"rule": {"kind": "median"}}, {"kind": "label_flip"})
    assert simulate_seed(described, 0).rounds[-1]["test_loss"] > simulate_seed(alone, 0).rounds[-1]["test_loss"]


ADAPTIVE = {"kind": "adaptive", "attack": {"kind": "tailored"}}


@pytest.mark.parametrize(
    ("attack", "field"),
    [
        (ADAPTIVE, "attack.attack"),
        ({"kind": "combined", "attacks": [{"kind": "tailored"}, {"kind": "scaling"}]}, "attack.attacks.0"),
        ({"kind": "combined", "attacks": [ADAPTIVE]}, "attack.attacks.0.attack"),
    ],
)
def test_later_change_of_rehearsed_uploads_is_refused(attack, field):
    threats = Threats.model_validate({"attack": attack, "attackers": 0.2})
    found = {fault.field: fault.message for fault in threats.faults(10, 10, (1, 8, 8))}
    assert list(found) == [field]
    assert "tailored" in found[field]
