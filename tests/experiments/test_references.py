"""Typos in what an experiment shows and claims are found before anything is run."""

import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.loading import load


def faults(path):
    with pytest.raises(ScenarioError) as caught:
        load(path)
    return {fault.field: fault.message for fault in caught.value.faults}


FIGURE = {"kind": "final", "x": "protocol.rounds", "hue": "privacy.epsilon", "panels": "L"}
TABLE = {"rows": "protocol.rounds", "columns": "privacy.epsilon", "where": {"L": "one"}}
CLAIM = {"check": "order", "along": "privacy.epsilon", "says": ""}


@pytest.mark.parametrize(
    ("part", "value", "field", "message"),
    [
        ("figure", {**FIGURE, "y": "test_acuracy"}, "figure.y", "did you mean test_accuracy?"),
        ("figure", {**FIGURE, "x": "protocol.round"}, "figure.x", "did you mean protocol.rounds?"),
        ("figure", {**FIGURE, "panels": None, "where": {"L": "on"}}, "figure.where", "did you mean one?"),
        ("figure", {**FIGURE, "where": {"l": "one"}}, "figure.where", "there is no axis l; did you mean L?"),
        (
            "figure",
            {**FIGURE, "panels": None, "where": {"L": "one"}, "ys": ["train_loss", "bytes_upp"]},
            "figure.ys.1",
            "mean bytes_up?",
        ),
        ("figure", {**FIGURE, "y": "test_accuracy_usps"}, "figure.y", "there is no column test_accuracy_usps"),
        ("figure", {"kind": "curves", "x": "tme_s", "hue": "L"}, "figure.x", "must be 'round', 'time_s'"),
        (
            "figure",
            {"kind": "curves", "y": "versions", "hue": "L", "where": {"privacy.epsilon": 50, "protocol.rounds": 2}},
            "figure.y",
            "there is no column versions",
        ),
        (
            "figure",
            {**FIGURE, "bound": {"theorem": 2, "settings": {"ro": 1}}},
            "figure.bound",
            "there is no argument ro",
        ),
        ("tables", [{**TABLE, "value": "test_los"}], "tables.0.value", "did you mean test_loss?"),
        ("tables", [{**TABLE, "where": {}}], "tables.0", "axis L is neither rows nor columns"),
        ("claims", [{**CLAIM, "value": "final tain_loss"}], "claims.0.value", "did you mean train_loss?"),
        ("claims", [{**CLAIM, "value": "round 9 train_loss"}], "claims.0.value", "the runs end at round 4"),
        ("claims", [{**CLAIM, "along": "privacy.epsilo"}], "claims.0.along", "did you mean privacy.epsilon?"),
        ("claims", [{**CLAIM, "where": {"L": "shar"}}], "claims.0.where", "did you mean share?"),
        ("targets", {"cheap": {"reaches": 0.7}}, "targets.cheap", "must be named time_to_..."),
        ("targets", {"bytes_to_7": {"cost": "round", "reaches": 0.7}}, "targets.bytes_to_7", "rounds_to_..."),
        ("targets", {"time_to_7": {"column": "accuracy", "reaches": 1}}, "targets.time_to_7.column", "test_accuracy?"),
    ],
)
def test_a_name_that_does_not_exist_is_a_fault_of_its_field(write, described, part, value, field, message):
    described[part] = value
    found = faults(write(described))
    assert list(found) == [field]
    assert message in found[field]


def test_existing_columns_are_accepted(write, described):
    described["variants"]["data"] = {"two domains": {"data.domains": ["mnist", "usps"]}, "one": {}}
    described["targets"] = {"bytes_to_70": {"cost": "bytes", "column": "test_accuracy_usps", "reaches": 0.7}}
    fixed = {"L": "one", "data": "two domains"}
    described["figure"] = {**FIGURE, "panels": None, "where": fixed, "y": "bytes_to_70"}
    described["tables"] = [{**TABLE, "where": fixed, "value": "detector_cut"}]
    described["claims"] = [
        {**CLAIM, "value": "final exposures_up_max", "where": {"L": ["one", "share"]}},
        {**CLAIM, "value": "best protocol.rounds of mean test_accuracy_domains_min"},
        {**CLAIM, "value": "round 4 epsilon_exact_sum"},
    ]
    assert load(write(described)).claims[2].column == "epsilon_exact_sum"


def test_names_within_bounds(write, described):
    described["bounds"] = {"gap": {"theorem": 2, "axes": {"rounds": {"to": 9}, "epsilon": [50, 60]}}}
    described["claims"] = [
        {"check": "interior_best", "bound": "gap", "along": "rounds", "value": "final bound", "says": ""},
        {"check": "interior_best", "bound": "gap", "along": "round", "value": "final train_loss", "says": ""},
    ]
    described["figures"] = [{"name": "b", "kind": "bound", "bound": "gap", "x": "rounds"}]
    assert faults(write(described)) == {
        "claims.1.along": "there is no axis round; did you mean rounds?",
        "claims.1.value": "there is no column train_loss; columns: bound",
        "figures.0": "axis epsilon is neither x, hue nor panels; name it, or fix it to one value with where",
    }


def test_a_regression_has_no_accuracy_to_name(write, described):
    described["scenario"]["data"] = {"dataset": "diabetes", "clients": 4, "samples_per_client": 20}
    described["targets"] = {"time_to_7": {"reaches": 0.7}}
    described["figure"] = {**FIGURE, "y": "test_accuracy"}
    found = faults(write(described))
    assert set(found) == {"targets.time_to_7.column", "figure.y"}
    assert all(message.startswith("there is no column test_accuracy; ") for message in found.values())
    described["targets"]["time_to_7"]["column"] = described["figure"]["y"] = "test_r2"
    load(write(described))
