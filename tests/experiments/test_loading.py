import pytest

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.loading import load


def faults(path):
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert caught.value.source == str(path)
    return {fault.field: fault.message for fault in caught.value.faults}


def test_a_sound_file(write, described):
    experiment = load(write(described), "nbafl/fig2")
    assert experiment.name == "nbafl/fig2"
    assert str(experiment.source) == "NbAFL, fig. 2"


def test_all_faults_of_a_file_at_once(write, described):
    described["titel"] = described.pop("title")
    described["scenario"]["data"]["clints"] = 5
    described["scenario"]["protocol"]["participants"] = 70
    described["axes"]["privacy.epsilo"] = [1]
    described["claims"][0]["along"] = "nonsense"
    found = faults(write(described))
    assert found["title"] == "is required and missing"
    assert "did you mean title" in found["titel"]
    assert "did you mean clients" in found["scenario.data.clints"]
    assert "got 70" in found["scenario.protocol.participants"]
    assert "is no field" in found["axes.privacy.epsilo"]
    assert "there is no axis nonsense" in found["claims.0.along"]


@pytest.mark.parametrize(
    ("part", "value", "field", "message"),
    [
        ("axes", {"privacy.epsilon": [60, -1]}, "axes.privacy.epsilon", "-1"),
        ("axes", {"privacy.epsilon": []}, "axes.privacy.epsilon", "at least one value"),
        ("axes", {"privacy.epsilon": [50, 50]}, "axes.privacy.epsilon", "twice"),
        ("quick", {"axes.privacy.epsilon": [7]}, "quick.axes.privacy.epsilon", "7 is not among"),
        ("quick", {"axes.privacy.epsilon": 50}, "quick.axes.privacy.epsilon", "must be a list"),
        ("quick", {"axes.x": [7]}, "quick.axes.x", "there is no x"),
        ("quick", {"privacy.epsilon": 7}, "quick.privacy.epsilon", "thin it with axes.privacy.epsilon"),
        ("quick", {"protocol.rouns": 7}, "quick.protocol.rouns", "did you mean rounds"),
        ("quick", {"variants.L.two.protocol.rounds": 7}, "quick.variants.L.two.protocol.rounds", "there is no"),
        ("quick", {"variants.L.one.protocol.rouns": 7}, "quick.variants.L.one.protocol.rouns", "did you mean rounds"),
        ("variants", {"L": {"one": {"privacy.exposurs": 1}}}, "variants.L.one.privacy.exposurs", "did you mean"),
        ("figure", {"kind": "curves", "hue": "L"}, "figure", "axis protocol.rounds is neither x, hue nor panels"),
        ("figure", {"kind": "bound", "bound": "b", "x": "T"}, "figure.bound", "'b' is not among bounds"),
        ("tables", [{"rows": "epsilon"}], "tables.0.rows", "there is no axis epsilon"),
        ("scenario", None, "scenario", "is required"),
        ("seeds", {"quick": "few"}, "seeds.quick", "'few'"),
        ("variants", {"privacy.epsilon": {"x": {}}}, "variants.privacy.epsilon", "is also an axis"),
        (
            "variants",
            {"epochs": {"1": {}, "5": {}}},
            "variants.epochs",
            "must have a label that is no number, got 1, 5",
        ),
    ],
)
def test_each_fault_names_its_field(write, described, part, value, field, message):
    described[part] = value
    assert message in faults(write(described))[field]


@pytest.mark.parametrize(
    ("claim", "field", "message"),
    [
        ({"check": "best_at", "along": "privacy.epsilon", "at": 7, "says": ""}, "at", "7 is not among the values"),
        ({"check": "order", "along": "L", "where": {"L": "two"}, "says": ""}, "where", "'two' is not among"),
        ({"check": "order", "along": "L", "value": "last loss", "says": ""}, "value", "must be 'final"),
        ({"check": "order", "along": "L", "bound": "b", "says": ""}, "bound", "'b' is not among bounds; bounds: none"),
    ],
)
def test_each_fault_of_a_claim_names_its_field(write, described, claim, field, message):
    described["claims"] = [claim]
    found = faults(write(described))
    assert [message in text for name, text in found.items() if name.endswith(field)] == [True]


def test_names_used_twice(write, described):
    described["figures"] = [described.pop("figure")] * 2
    assert "two figures or tables are named 'figure'" in faults(write(described))["figures"]


def test_files_that_are_no_experiment(write, tmp_path):
    assert "must hold fields" in faults(write(["a", "b"]))[""]
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1")
    assert "is no YAML" in faults(broken)[""]
    with pytest.raises(ScenarioError, match="cannot be read"):
        load(tmp_path / "absent.yaml")


def test_columns_of_domains_are_no_fault_where_not_all_cells_are_known(write, described):
    described["axes"]["privacy.epsilon"] = [50, -1]
    described["quick"] = {"axes.privacy.epsilon": [50]}
    described["figure"] = {**described["figure"], "y": "test_accuracy_svhn"}
    assert list(faults(write(described))) == ["axes.privacy.epsilon"]
    described["axes"]["privacy.epsilon"] = [50, 60]
    assert list(faults(write(described))) == ["figure.y"]
