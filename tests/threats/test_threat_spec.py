"""Who attacks, and when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.streams import Streams
from asyncfl.threats import Attack, LabelFlip, LyingEvaluator, Rhythm, Threats


def threats(**fields):
    return Threats.model_validate({"attack": {"kind": "label_flip"}, "attackers": 0.4, **fields})


@pytest.mark.parametrize(
    ("attackers", "clients", "count"),
    [(0.4, 100, 40), (7, 100, 7), (0, 10, 0), (0.0, 10, 0), (1.0, 10, 10), (1, 10, 1)],
)
def test_share_or_number(attackers, clients, count):
    spec = threats(attackers=attackers)
    found = spec.draw(Streams(0), clients)
    assert len(found) == spec.count(clients) == count
    assert spec.off == (count == 0)


def test_a_pool_stays_and_other_seeds_have_others():
    spec = threats()
    pools = [spec.draw(Streams(seed), 100) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(pools[0], pools[1])
    assert not np.array_equal(pools[0], pools[2])


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0, 1), st.integers(0, 99))
def test_attackers_are_distinct_clients_and_more_include_fewer(clients, a, b, seed):
    few, many = (threats(attackers=share).draw(Streams(seed), clients) for share in sorted((a, b)))
    assert set(few) <= set(many) <= set(range(clients))
    assert len(set(many)) == len(many)
    assert (np.diff(many) > 0).all()


def test_other_streams_are_not_touched():
    streams = Streams(3)
    before = streams.generator("selection").random(3)
    threats().draw(streams, 20)
    np.testing.assert_array_equal(streams.generator("selection").random(3), before)


def test_more_attackers_per_round_than_it_has_tasks_are_a_fault():
    (fault,) = threats(selection="per_round", attackers=5).too_many(4)
    assert fault.field == "attackers"
    assert "0..4, the tasks of a round" in fault.message
    assert not list(threats(selection="per_round", attackers=4).too_many(4))
    assert not list(threats(attackers=5).too_many(4))


def test_attacks_begin_and_end():
    spec = threats(from_version=3, until_version=5)
    assert [spec.active(version) for version in range(7)] == [False] * 3 + [True] * 2 + [False] * 2
    assert threats().active(0)
    with pytest.raises(ValueError, match="until_version must be above from_version"):
        threats(from_version=3, until_version=3)


def test_sleepers_are_honest_first():
    spec = threats(rhythm={"asleep": 2, "awake": 1}, from_version=1)
    assert [spec.active(1, turn) for turn in range(7)] == [False, False, True, False, False, True, False]
    assert not spec.active(0, 2)
    assert Rhythm(asleep=1).attacks(1)


def test_answers_of_attackers():
    scores, random = np.array([0.75]), np.random.default_rng(0)
    assert threats().lie(scores, random) == pytest.approx([0.25])
    assert threats(attackers_lie=False).lie(scores, random) == pytest.approx([0.75])
    smart = {"kind": "lying_evaluator", "decoy_score": 0.8}
    assert threats(attack=smart).lie(scores, random) == pytest.approx([0.75])


@pytest.mark.parametrize("attackers", [-1, 1.5, -0.1, "half", True, None, float("nan")])
def test_impossible_numbers_are_refused(attackers):
    with pytest.raises(ValueError, match="attackers"):
        threats(attackers=attackers)


def test_faults_with_the_rest_of_a_scenario():
    spec = threats(attackers=11, attack={"kind": "label_flip", "source_class": 0, "target_class": 10})
    faults = [str(fault) for fault in spec.faults(10, 10, (1, 28, 28))]
    assert faults[0].startswith("attackers: must be 0..clients (10)")
    assert faults[1].startswith("attack.target_class: must be 0..9")
    assert list(threats().faults(10, 10, (1, 28, 28))) == []


def test_a_description_survives_writing_and_reading():
    spec = threats(
        attack={"kind": "combined", "attacks": [{"kind": "label_flip"}, {"kind": "flooding"}]}, attackers=1.0
    )
    for again in (
        Threats.model_validate(spec.model_dump(mode="json")),
        Threats.model_validate_json(spec.model_dump_json()),
    ):
        assert again == spec
        assert again.count(10) == 10


def test_an_attack_of_ones_own():
    spec = threats(attack={"kind": f"{__name__}:Silence"})
    assert spec.attack.kind.endswith(":Silence")
    assert spec.model_dump(mode="json")["attack"] == {"kind": spec.attack.kind}


class Silence(Attack):
    kind: str


def test_objects_are_taken_as_they_are():
    attack = LyingEvaluator(answer="mirror")
    assert Threats(attack=attack, attackers=2).attack is attack
    assert Threats(attack=LabelFlip(), attackers=0).off
