"""Attackers of a scenario and their schedule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl import Scenario, simulate
from asyncfl.base.streams import Streams
from asyncfl.threats import Rhythm, Threats


def threats(**fields):
    return Threats.model_validate({"attack": {"kind": "label_flip"}, "attackers": 0.4, **fields})


@pytest.mark.parametrize(
    ("attackers", "clients", "count"),
    [(0.4, 100, 40), (7, 100, 7), (0, 10, 0), (0.0, 10, 0), (1.0, 10, 10), (1, 10, 1)],
)
def test_attackers_are_a_number_or_a_share(attackers, clients, count):
    spec = threats(attackers=attackers)
    found = spec.draw(Streams(0), clients)
    assert len(found) == spec.count(clients) == count
    assert spec.off == (count == 0)


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_larger_pool_includes_smaller_pool(clients, a, b, seed):
    few, many = (threats(attackers=share).draw(Streams(seed), clients) for share in sorted((a, b)))
    assert set(few) <= set(many) <= set(range(clients))
    assert len(set(many)) == len(many)
    assert (np.diff(many) > 0).all()


def test_more_attackers_than_tasks_of_a_round_are_a_fault():
    (fault,) = threats(selection="per_round", attackers=5).too_many(4)
    assert fault.field == "attackers"
    assert "0..4, the tasks of a round" in fault.message
    assert not list(threats(selection="per_round", attackers=4).too_many(4))
    assert not list(threats(attackers=5).too_many(4))


def test_attacks_start_and_stop_at_versions():
    spec = threats(from_version=3, until_version=5)
    assert [spec.active(version) for version in range(7)] == [False] * 3 + [True] * 2 + [False] * 2
    assert threats().active(0)
    with pytest.raises(ValueError, match="until_version must be above from_version"):
        threats(from_version=3, until_version=3)


def test_sleeping_attackers_are_honest_first():
    spec = threats(rhythm={"asleep": 2, "awake": 1}, from_version=1)
    assert [spec.active(1, turn) for turn in range(7)] == [False, False, True, False, False, True, False]
    assert not spec.active(0, 2)
    assert Rhythm(asleep=1).attacks(1)


def test_attackers_answer_scoring_requests_honestly_unless_they_are_to_lie():
    scores, random = np.array([0.75]), np.random.default_rng(0)
    assert threats().lie(scores, random) == pytest.approx([0.75])
    assert threats(attackers_lie=True).lie(scores, random) == pytest.approx([0.25])
    smart = {"kind": "lying_evaluator", "decoy_score": 0.8}
    assert threats(attack=smart).lie(scores, random) == pytest.approx([0.75])


@pytest.mark.parametrize("attackers", [-1, 1.5, -0.1, "half", True, None, float("nan")])
def test_impossible_numbers_of_attackers_are_refused(attackers):
    with pytest.raises(ValueError, match="attackers"):
        threats(attackers=attackers)


def test_faults_with_clients_and_data():
    spec = threats(attackers=11, attack={"kind": "label_flip", "source_class": 0, "target_class": 10})
    faults = [str(fault) for fault in spec.faults(10, 10, (1, 28, 28))]
    assert faults[0].startswith("attackers: must be 0..clients (10)")
    assert faults[1].startswith("attack.target_class: must be 0..9")
    assert list(threats().faults(10, 10, (1, 28, 28))) == []


def test_the_last_clients_attack():
    assert threats(selection="last", attackers=2).draw(Streams(3), 7).tolist() == [5, 6]
    assert threats(selection="last", attackers=0).draw(Streams(3), 7).tolist() == []


def test_a_share_of_attackers_that_rounds_to_nobody_is_noted(scenario: Scenario) -> None:
    def notes(attackers: float) -> str:
        threats = {"attack": {"kind": "sign_flip"}, "attackers": attackers}
        (seed,) = simulate(scenario.override({"threats": threats})).summary["seeds"].values()
        return " ".join(seed["notes"])

    few = 0.4 / scenario.data.clients
    assert f"threats.attackers: {few:g} of {scenario.data.clients} clients is less than half a client: nobody" in notes(
        few
    )
    assert "nobody attacks" not in notes(1.6 / scenario.data.clients)
    assert "nobody attacks" not in notes(0)
