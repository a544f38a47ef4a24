"""Cells of an experiment at each scale, and covering arrays of its factors."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.cells import cells
from asyncfl.experiments.covering import CoveredFactors, covering_array
from asyncfl.experiments.loading import load
from asyncfl.experiments.plan import all_cells


def test_full_scale_is_the_whole_grid_last_axis_fastest(write, described):
    made = cells(load(write(described)), "full")
    assert len(made) == 2 * 2 * 2
    assert [cell.values["L"] for cell in made[:2]] == ["one", "share"]
    assert made[0].values == {"privacy.epsilon": 50, "protocol.rounds": 2, "L": "one"}
    assert made[0].scenario.protocol.rounds == 2
    assert made[0].scenario.privacy.epsilon == 50
    assert made[0].scenario.seeds == (3, 5)
    assert made[1].scenario.privacy.exposures.share == 0.5


def test_quick_scale_thins_and_lowers(write, described):
    experiment = load(write(described))
    made = cells(experiment, "quick")
    assert [cell.values["protocol.rounds"] for cell in made] == [2, 4]
    assert {cell.values["L"] for cell in made} == {"share"}
    assert made[0].scenario.data.samples_per_client == 10
    assert made[0].scenario.seeds == (0,)
    assert experiment.lowered("full") == []
    assert experiment.lowered("quick") == [
        "data.samples_per_client = 10",
        "privacy.epsilon at 1 of 2 values",
        "L at 1 of 2 values",
        "1 of 2 seeds",
    ]


def test_quick_scale_lowers_a_field_within_one_label(write, described):
    described["quick"] = {"variants.L.share.protocol.time_limit_s": 9, "protocol.time_limit_s": 5}
    described["variants"]["L"]["share"]["protocol.time_limit_s"] = 7
    described["variants"]["L"]["p = .5"] = {"privacy.exposures": 2}
    described["quick"]["variants.L.p = .5.privacy.epsilon"] = 3
    del described["axes"]["privacy.epsilon"], described["claims"]
    described["figure"]["hue"] = None
    experiment = load(write(described))
    quick = {c.values["L"]: c.scenario for c in cells(experiment, "quick")}
    assert {label: s.protocol.time_limit_s for label, s in quick.items()} == {"one": 5, "share": 9, "p = .5": 5}
    assert quick["p = .5"].privacy.epsilon == 3
    assert {c.scenario.protocol.time_limit_s for c in cells(experiment, "full")} == {None, 7}
    said = "protocol.time_limit_s = 9 where L is share"
    assert said in experiment.lowered("quick")
    assert said in experiment.lowered("quick", {"L": ["one", "share"]})
    assert said not in experiment.lowered("quick", {"L": "one"})


def test_a_label_may_have_seeds_of_its_own_at_full_scale(write, described):
    for labels in described["variants"]["L"].values():
        labels["seeds"] = 3
    described["variants"]["L"]["share"]["seeds"] = 1
    experiment = load(write(described))
    seeds = {cell.values["L"]: cell.scenario.seeds for cell in cells(experiment, "full")}
    assert seeds == {"one": (0, 1, 2), "share": (0,)}
    assert {cell.scenario.seeds for cell in cells(experiment, "quick")} == {(0,)}


def test_some_cells_may_have_other_seeds_whatever_their_labels_say(write, described):
    described["variants"]["L"]["one"]["seeds"] = 3
    axis, values = next(iter(described["axes"].items()))
    described["seeds"]["cells"] = [{"where": {axis: values[:1], "L": "one"}, "seeds": [7]}]
    experiment = load(write(described))
    made = [cell for cell in cells(experiment, "full") if cell.values["protocol.rounds"] == 2]
    seeds = {(cell.values[axis], cell.values["L"]): cell.scenario.seeds for cell in made}
    assert seeds[values[0], "one"] == (7,)
    assert seeds[values[1], "one"] == (0, 1, 2)
    assert seeds[values[0], "share"] == (3, 5)
    assert experiment.seed_counts("full") == (1, 2, 3)
    assert {cell.scenario.seeds for cell in cells(experiment, "quick")} == {(0,)}


def test_looks_are_the_first_seeds_of_the_plan(write, described):
    described["seeds"] = {"quick": {"looks": [2, 4]}, "full": {"looks": [3, 6, 12]}}
    experiment = load(write(described))
    assert {cell.scenario.seeds for cell in cells(experiment, "quick")} == {(0, 1, 2, 3)}
    assert {cell.scenario.seeds for cell in cells(experiment, "full", 3)} == {(0, 1, 2)}
    assert experiment.seed_counts("full") == (3, 6, 12)
    assert experiment.seeds.looks("full").at == (3, 6, 12)
    assert [len(at_look) for at_look in all_cells(experiment, "quick")] == [len(cells(experiment, "quick"))] * 2


COVERED = {
    "setting": {
        "factors": {
            "budget": {f"eps {number}": {"privacy.epsilon": number} for number in (40, 50, 60, 70)},
            "length": {f"{number} rounds": {"protocol.rounds": number} for number in (2, 3, 4)},
            "L": {"one": {"privacy.exposures": 1}, "two": {"privacy.exposures": 2}},
        }
    }
}


def test_covered_factors_make_all_pairs_but_not_all_combinations(write, described):
    described["covered"] = COVERED
    described["axes"] = {"training.lr": [0.1, 0.2]}
    described["variants"] = {"noise": {"as it is": {}, "more": {"privacy.epsilon": 99}}}
    described["quick"] = {"variants.setting": ["one, eps 40, 2 rounds"]}
    described["figure"] = {"kind": "bars", "x": "setting", "hue": "noise", "panels": "training.lr", "y": "train_loss"}
    described["claims"] = []
    experiment = load(write(described))
    assert list(experiment.grid("full")) == ["training.lr", "setting", "noise"]
    made = cells(experiment, "full")
    pairs = {(c.scenario.privacy.epsilon, c.scenario.protocol.rounds) for c in made if c.values["noise"] == "as it is"}
    assert len(pairs) == 4 * 3
    assert len(made) == 2 * 12 * 2
    # What a variant changes counts, whatever the setting was.
    assert {c.scenario.privacy.epsilon for c in made if c.values["noise"] == "more"} == {99}
    assert {c.values["setting"] for c in cells(experiment, "quick")} == {"one, eps 40, 2 rounds"}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"variants": {"setting": {"x": {}}}}, "covered.setting", "is also a variant"),
        ({"covered": {"setting": {"factors": {"one": {"a": {}}}}}}, "covered.setting.factors", "at least 2"),
        (
            {"covered": {"s": {"factors": {n: {n: {"protocol.rounds": 2}} for n in "ab"}}}},
            "covered.s",
            "factors a and b both change protocol.rounds",
        ),
        (
            {"covered": {"s": {"factors": {"a": {"x": {"protocol.rouns": 2}}, "b": {"y": {}}}}}},
            "variants.s.x, y.protocol.rouns",
            "did you mean rounds",
        ),
    ],
)
def test_faults_of_covered_factors(write, described, change, field, message):
    described = {**described, "covered": COVERED, "axes": {}, "variants": {}, "quick": {}, "claims": [], **change}
    del described["figure"]
    with pytest.raises(ScenarioError) as caught:
        load(write(described))
    [found] = [fault.message for fault in caught.value.faults if fault.field == field]
    assert message in found


def test_quick_scale_may_run_only_the_cells_that_claims_compare(write, described):
    pair = {"check": "no_worse", "along": "L", "at": "one", "than": "share", "says": "one is as good"}
    described["quick"] = {}
    described["variants"]["L"]["two"] = {"privacy.exposures": 2}
    described["claims"] = [{**pair, "where": {"privacy.epsilon": 60, "protocol.rounds": [2]}}]
    experiment = load(write({**described, "quick_cells": "claims"}))
    made = [tuple(cell.values.values()) for cell in cells(experiment, "quick")]
    assert made == [(60, 2, "one"), (60, 2, "share")]
    assert len(cells(experiment, "full")) == 2 * 2 * 3
    assert experiment.lowered("quick") == [
        "privacy.epsilon at 1 of 2 values",
        "protocol.rounds at 1 of 2 values",
        "L at 2 of 3 values",
        "only cells that claims compare",
        "1 of 2 seeds",
    ]


LEVELS = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(LEVELS, st.data())
@settings(max_examples=60)
def test_every_combination_of_any_few_factors_occurs(levels, data):
    strength = data.draw(st.integers(1, min(3, len(levels))))
    rows = covering_array(levels, strength)
    for factors in combinations(range(len(levels)), strength):
        wanted = set(product(*(range(levels[factor]) for factor in factors)))
        assert {tuple(row[factor] for factor in factors) for row in rows} == wanted
    assert all(0 <= level < number for row in rows for level, number in zip(row, levels, strict=True))
    assert len(set(rows)) == len(rows)
    assert rows == covering_array(levels, strength)


@pytest.mark.parametrize(
    ("levels", "strength", "at_most"),
    # Nine rows would do for the first, and the second needs 64: a greedy search adds few.
    [([3, 3, 3, 3], 2, 13), ([16, 4, 4, 3, 3], 2, 68), ([2] * 10, 2, 10), ([3, 4], 2, 12), ([5, 2, 3], 1, 5)],
)
def test_a_covering_array_is_much_smaller_than_the_whole_grid(levels, strength, at_most):
    assert len(covering_array(levels, strength)) <= at_most


def test_a_strength_beyond_the_factors_is_refused():
    with pytest.raises(ValueError, match=r"strength must be 1\.\.2, the factors, got 3"):
        covering_array([2, 2], 3)


def test_settings_are_named_by_their_levels():
    covered = CoveredFactors(
        factors={
            "labels": {"IID": {"data.partition": {"kind": "iid"}}, "shards": {"data.partition": {"kind": "shards"}}},
            "share": {"10 %": {"threats.attackers": 0.1}, "40 %": {"threats.attackers": 0.4}},
        }
    )
    made = covered.settings()
    assert sorted(made) == ["IID, 10 %", "IID, 40 %", "shards, 10 %", "shards, 40 %"]
    assert made["shards, 10 %"] == {"data.partition": {"kind": "shards"}, "threats.attackers": 0.1}
    assert list(covered.doubled()) == []
