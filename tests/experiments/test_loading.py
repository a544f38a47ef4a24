"""Fields of experiments, and faults of their files: typos are found before anything is run."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.evidence.decision import Looks
from asyncfl.experiments.loading import load
from asyncfl.experiments.spec import LookPlan, SeedPlan, Source
from tests.experiments.results_folder import EPSILON, make_experiment


def faults(path):
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert caught.value.source == str(path)
    return {fault.field: fault.message for fault in caught.value.faults}


def test_a_sound_file(write, described):
    experiment = load(write(described), "nbafl/fig2")
    assert experiment.name == "nbafl/fig2"
    assert str(experiment.source) == "NbAFL, fig. 2"


@pytest.mark.parametrize(
    "name",
    ["dp_sgd", "niid_bench", "niid_bench_fashion", "niid_bench_fedprox", "clock", "over_selection", "uploads_by_speed"],
)
def test_comparisons_with_other_libraries_cite_their_source(name):
    file = Path(__file__).parents[2] / "workflow" / "experiments" / "outside" / f"{name}.yaml"
    assert load(file, f"outside/{name}", check=False).claims
    assert re.search(r"[0-9a-f]{40}|pull request \d+|arXiv:\d{4}\.\d{5}", file.read_text(encoding="utf-8"))


def test_all_faults_of_a_file_at_once(write, described):
    described["titel"] = described["title"]
    described["claims"][0]["direction"] = "up"
    found = faults(write(described))
    assert "did you mean title" in found.pop("titel")
    assert list(found) == ["claims.0.direction"]


def test_all_faults_between_fields_at_once(write, described):
    described["scenario"]["data"]["clints"] = 5
    described["claims"][0]["along"] = "nonsense"
    found = faults(write(described))
    assert "did you mean clients" in found["scenario.data.clints"]
    assert "there is no axis nonsense" in found["claims.0.along"]


def test_faults_of_fields_and_between_them_at_once(write, described):
    described["titel"] = described["title"]
    described["scenario"]["data"]["clints"] = 5
    described["axes"]["privacy.epsilon"] = []
    described["claims"] = [
        {"check": "order", "along": "L", "says": "best", "direction": "up"},
        {**described["claims"][0], "along": "x"},
    ]
    described["figure"]["hue"] = "nonsense"
    found = faults(write(described))
    assert set(found) == {
        *("titel", "claims.0.direction"),
        *("scenario.data.clints", "axes.privacy.epsilon", "quick.axes.privacy.epsilon", "claims.1.along", "figure.hue"),
    }


def test_a_fault_of_axes_hides_only_what_refers_to_them(write, described):
    described["axes"]["privacy.epsilon"] = 3
    described["scenario"]["data"]["clints"] = 5
    described["claims"][0]["direction"] = "up"
    assert set(faults(write(described))) == {"axes.privacy.epsilon", "scenario.data.clints", "claims.0.direction"}


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


FIGURE = {"kind": "final", "x": "protocol.rounds", "hue": "privacy.epsilon", "panels": "L"}
ONE, FIXED = {"L": "one"}, {"privacy.epsilon": 50, "protocol.rounds": 2}
TABLE = {"rows": "protocol.rounds", "columns": "privacy.epsilon", "where": {"L": "one"}}
CLAIM = {"check": "order", "along": "privacy.epsilon", "says": ""}


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
        ("quick", {"variants.L.two.protocol.rounds": 7}, "quick.variants.L.two.protocol.rounds", "there is no"),
        ("quick", {"variants.L.one.protocol.rouns": 7}, "quick.variants.L.one.protocol.rouns", "did you mean rounds"),
        ("variants", {"L": {"one": {"privacy.exposurs": 1}}}, "variants.L.one.privacy.exposurs", "did you mean"),
        ("figure", {"kind": "curves", "hue": "L"}, "figure", "axis protocol.rounds is neither x, hue nor panels"),
        ("figure", {"kind": "bound", "bound": "b", "x": "T"}, "figure.bound", "'b' is not among bounds"),
        ("scenario", None, "scenario", "is required"),
        ("seeds", {"quick": "few"}, "seeds.quick", "'few'"),
        ("seeds", {"cells": [{"where": {"M": 1}, "seeds": 1}]}, "seeds.cells.0.where", "there is no axis M"),
        (
            "seeds",
            {"cells": [{"where": {"L": "two"}, "seeds": 1}]},
            "seeds.cells.0.where",
            "'two' is not among the values",
        ),
        ("variants", {"privacy.epsilon": {"x": {}}}, "variants.privacy.epsilon", "is also an axis"),
        ("variants", {"run": {"x": {}}}, "variants.run", "is also a column of its tables"),
        ("variants", {"staleness_mean": {"x": {}}}, "variants.staleness_mean", "is also a column of its tables"),
        ("variants", {"epochs": {"1": {}, "5": {}}}, "variants.epochs", "a label that is no number, got 1, 5"),
        ("figure", {**FIGURE, "y": "test_acuracy"}, "figure.y", "did you mean test_accuracy?"),
        ("figure", {**FIGURE, "x": "protocol.round"}, "figure.x", "did you mean protocol.rounds?"),
        ("figure", {**FIGURE, "panels": None, "where": {"L": "on"}}, "figure.where", "did you mean one?"),
        ("figure", {**FIGURE, "where": {"l": "one"}}, "figure.where", "there is no axis l; did you mean L?"),
        (
            "figure",
            {**FIGURE, "panels": None, "where": ONE, "ys": ["train_loss", "bytes_upp"]},
            "figure.ys.1",
            "bytes_up?",
        ),
        ("figure", {**FIGURE, "y": "test_accuracy_usps"}, "figure.y", "there is no column test_accuracy_usps"),
        ("figure", {"kind": "curves", "x": "tme_s", "hue": "L"}, "figure.x", "must be 'round', 'time_s'"),
        (
            "figure",
            {"kind": "curves", "y": "versions", "hue": "L", "where": FIXED},
            "figure.y",
            "is no column versions",
        ),
        ("figure", {**FIGURE, "bound": {"theorem": 2, "settings": {"ro": 1}}}, "figure.bound", "is no argument ro"),
        ("tables", [{**TABLE, "value": "test_los"}], "tables.0.value", "did you mean test_loss?"),
        ("tables", [{**TABLE, "where": {}}], "tables.0", "axis L is neither rows nor columns"),
        ("claims", [{**CLAIM, "value": "last loss"}], "claims.0.value", "must be 'final|mean|lowest"),
        ("claims", [{**CLAIM, "value": "final tain_loss"}], "claims.0.value", "did you mean train_loss?"),
        ("claims", [{**CLAIM, "value": "round 9 train_loss"}], "claims.0.value", "the runs end at round 4"),
        ("claims", [{**CLAIM, "along": "privacy.epsilo"}], "claims.0.along", "did you mean privacy.epsilon?"),
        ("claims", [{**CLAIM, "where": {"L": "shar"}}], "claims.0.where", "did you mean share?"),
        ("claims", [{**CLAIM, "check": "best_at", "at": 7}], "claims.0.at", "7 is not among the values"),
        ("claims", [{**CLAIM, "bound": "b"}], "claims.0.bound", "'b' is not among bounds; bounds: none"),
        ("claims", [{**CLAIM, "paper": "safl"}], "claims.0.printed", "is required beside paper: safl"),
        ("targets", {"cheap": {"reaches": 0.7}}, "targets.cheap", "must be named time_to_..."),
        ("targets", {"bytes_to_7": {"cost": "round", "reaches": 0.7}}, "targets.bytes_to_7", "rounds_to_..."),
        ("targets", {"time_to_7": {"column": "accuracy", "reaches": 1}}, "targets.time_to_7.column", "test_accuracy?"),
    ],
)
def test_each_fault_names_its_field(write, described, part, value, field, message):
    described[part] = value
    assert message in faults(write(described))[field]


def test_existing_columns_are_accepted(write, described):
    described["variants"]["data"] = {"two domains": {"data.domains": ["mnist", "usps"]}, "one": {}}
    described["targets"] = {"bytes_to_70": {"cost": "bytes", "column": "test_accuracy_usps", "reaches": 0.7}}
    fixed = {"L": "one", "data": "two domains"}
    described["figure"] = {**FIGURE, "panels": None, "where": fixed, "y": "bytes_to_70"}
    described["tables"] = [{**TABLE, "where": fixed, "value": "detector_cut_last"}]
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


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"paper": "nbafl", "figure": 2}, "NbAFL, fig. 2"),
        ({"paper": "adaptive", "figure": "table 3"}, "adaptive DP, table 3"),
        ({"paper": "dp_fedavg"}, "DP-FedAvg"),
        ({"paper": "nobody", "figure": 0}, "nobody, fig. 0"),
        ({"paper": "outside", "figure": "Opacus"}, "Opacus"),
    ],
)
def test_a_source_is_written_as_paper_and_figure(source: dict[str, Any], told: str) -> None:
    assert str(Source.model_validate(source)) == told


def test_seeds_are_counted_listed_or_looked_at() -> None:
    plan = SeedPlan(quick=3, full=LookPlan(looks=(2, 5)))
    assert (plan.at("quick"), plan.at("full")) == ((0, 1, 2), (0, 1, 2, 3, 4))
    assert (plan.looks("quick").at, plan.looks("full")) == ((), Looks((0, 1, 2, 3, 4), (2, 5)))
    listed = SeedPlan(quick=(7, 1), full=1)
    assert (listed.at("quick"), listed.at("full")) == ((7, 1), (0,))
    with pytest.raises(ValidationError, match=r"must be numbers of seeds in ascending order, got \[5, 2\]"):
        LookPlan(looks=(5, 2))
    added = SeedPlan(full=LookPlan(looks=(6, 12, 24), added=(24,))).looks("full")
    assert (added.at, added.added) == ((6, 12, 24), (24,))
    with pytest.raises(ValidationError, match=r"something of the level is left .*, got \[24\] after \[3, 6, 12\]"):
        LookPlan(looks=(3, 6, 12, 24), added=(24,))


def test_margins_are_numbers_that_have_a_reason() -> None:
    claim = {"check": "alike", "along": EPSILON, "at": 50, "than": 60, "says": "s"}
    made = make_experiment(
        margins={"0.05": "as the paper has it", "1e-1": "twice that"},
        claims=[
            {**claim, "margin": 0.05},
            {**claim, "margin": 0.1},
            {**claim, "margin": 0.2},
            {**claim, "margin": 0.05, "margin_why": "its own"},
        ],
    )
    told = [made.margin_why(one) for one in made.claims]
    assert told == ["as the paper has it", "twice that", "", "its own"]
    with pytest.raises(ValidationError, match="names of margins must be numbers, got 'five'"):
        make_experiment(margins={"five": "x"})


def test_runs_that_are_attacked_afterwards_get_no_looks(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "workflow" / "experiments" / "audit" / "membership.yaml"
    text = re.sub(r"full: \[[^]]*\]", "full: {looks: [3, 6]}", file.read_text())
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(ScenarioError, match="runs are attacked after the last look"):
        load(tmp_path / "mine.yaml", "audit/mine")
