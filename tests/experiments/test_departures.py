"""What a paper prints of a scenario's fields, held against the scenarios."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.cell_settings import CellSettings
from asyncfl.experiments.cells import cells
from asyncfl.experiments.departures import PrintedField, departures, read_papers, texts
from asyncfl.experiments.files import find
from asyncfl.experiments.loading import load
from asyncfl.experiments.scores import sentences_of
from asyncfl.experiments.verdicts import judge, with_new_axes
from tests.experiments.results_folder import EPSILON, make_experiment
from tests.experiments.test_next_looks import drawn, grid

EXPERIMENTS = Path(__file__).resolve().parents[2] / "workflow" / "experiments"
PRINTED = {
    "training.epochs": PrintedField(prints="silent", name="E"),
    "training.lr": PrintedField(prints=[0.01, 0.005], name="rate"),
    "data.samples": PrintedField(prints=100, name="samples"),
    "defence.rule.byzantine": PrintedField(prints="silent"),
}


def test_a_field_is_printed_or_ours_or_against_the_print():
    cells = [
        {"training": {"epochs": 1, "lr": 0.01}, "data": {"samples": 600}, "defence": None},
        {"training": {"epochs": 20, "lr": 0.005}, "data": {"samples": 100}, "defence": {"rule": None}},
    ]
    assert texts(departures(PRINTED, cells)) == ("E = 1, 20", "samples = 600 (printed: 100)")
    assert texts(departures(PRINTED, cells[1:])) == ("E = 20", "")
    assert departures(PRINTED, []) == []


def test_values_that_read_alike_are_listed_once_and_in_order():
    printed = {
        "protocol": PrintedField(prints="silent", name="server"),
        "training.gradient_step": PrintedField(prints="printed", name="local step"),
        "training.batch_size": PrintedField(prints=["full", "full"], name="batch"),
    }
    cells = [
        {
            "protocol": {"kind": kind, "participants": number},
            "training": {"gradient_step": "per_batch", "batch_size": 32},
        }
        for number, kind in enumerate(("sync", "sync", "fedbuff", "sync"))
    ]
    silent, against = texts(departures(printed, cells))
    assert silent == "server = sync, fedbuff"
    assert against == "local step = per batch (printed: one step an epoch); batch = 32 (printed: full)"


def test_lists_of_papers_are_read_and_their_faults_named(tmp_path):
    (tmp_path / "safl.yaml").write_text("training.epochs: {prints: silent, name: E}\n")
    found = read_papers(tmp_path, ["safl", "nbafl"])
    assert (list(found), found["safl"]["training.epochs"].values) == (["safl"], None)
    (tmp_path / "safl.yaml").write_text("training.epochs: {print: silent}\ntraining.lr: 0.01\n")
    with pytest.raises(ScenarioError) as error:
        read_papers(tmp_path, ["safl"])
    assert [fault.field for fault in error.value.faults] == ["training.epochs", "training.lr"]


def test_a_list_stands_beside_the_folder_of_experiments(write, described, tmp_path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "nbafl.yaml").write_text(
        yaml.safe_dump(
            {
                "privacy.epsilon": {"prints": [50, 60]},
                "data.clients": {"prints": 50, "name": "N"},
                "training.epochs": {"prints": "silent", "name": "E"},
                "training.lr": {"prints": "silent", "name": "rate"},
            }
        )
    )
    described["claims"] = [{**described["claims"][0], "printed": "fig. 2"}, described["claims"][0]]
    described["prints"] = {"data.clients": {"prints": 6}}
    described["immaterial"] = ["training.lr"]
    settings = CellSettings(load(write(described), "nbafl/fig2"))
    told = [texts(settings.of_claim(claim)) for claim in settings.experiment.claims]
    assert told == [("E = 1", ""), ("", "")]
    del described["prints"]
    settings = CellSettings(load(write(described), "nbafl/fig2"))
    assert settings.in_words({}, "full") == "The source is silent on: E = 1. Against the print: N = 6 (printed: 50)."


def test_a_caption_lists_the_departures_of_the_cells_that_were_computed():
    claim = {"check": "best_at", "along": EPSILON, "at": 20, "says": "20 is best", "where": {"training.epochs": 5}}
    experiment = make_experiment(
        scenario={"protocol": {"kind": "sync", "rounds": 4}, "privacy": {"kind": "nbafl", "epsilon": 60}},
        axes={EPSILON: [10, 20, 60], "training.epochs": [1, 5]},
        quick={f"axes.{EPSILON}": [10, 20]},
        quick_cells="claims",
        figure=None,
        tables=[],
        claims=[claim],
        prints={
            "training.epochs": PrintedField(prints="silent", name="E"),
            EPSILON: PrintedField(prints=20, name="epsilon"),
        },
    )
    settings = CellSettings(experiment)
    every = "The source is silent on: E = 1, 5. Against the print: epsilon = 10, 60 (printed: 20)."
    assert settings.in_words({}, "full") == every
    planned = "The source is silent on: E = 5. Against the print: epsilon = 10 (printed: 20)."
    assert settings.in_words({}, "quick") == planned
    computed = {EPSILON: (20,), "training.epochs": (5,)}
    assert settings.in_words({}, "quick", computed) == "The source is silent on: E = 5."


def test_a_verdict_that_turns_within_a_silent_setting_depends_on_it():
    claim = {"check": "best_at", "along": EPSILON, "at": 20, "says": "20 is best", "printed": "fig. 2"}
    fields = {
        "scenario": {"protocol": {"kind": "sync", "rounds": 4}, "privacy": {"kind": "nbafl", "epsilon": 60}},
        "axes": {EPSILON: [10, 20], "training.epochs": [1, 5]},
        "quick": {},
        "figure": None,
        "tables": [],
        "prints": {"training.epochs": {"prints": "silent", "name": "E"}},
    }
    of = make_experiment(claims=[claim, {**claim, "where": {"training.epochs": 5}}], **fields)
    rows = [
        {EPSILON: epsilon, "training.epochs": epochs, "seed": seed, "round": 4, "diverged": False, "train_loss": loss}
        for epsilon, epochs, loss in ((10, 1, 1.0), (20, 1, 2.0), (10, 5, 2.0), (20, 5, 1.0))
        for seed, loss in enumerate(loss + x for x in (0.0, 0.01, 0.02))
    ]
    ends = pd.DataFrame(rows)
    ends.loc[ends[EPSILON] == 20, "train_loss"] += 0.001 * ends["seed"]
    both, five = judge(of, "full", type(grid(drawn([0] * 6, 1.0, 1), [3] * 6))(of.grid("full"), ends, ends), {})
    assert (both.verdict, both.depends_on, both.silent) == ("depends", "E", "E = 1, 5")
    assert "it holds at epochs = 5" in both.reason
    assert five.verdict == "holds"
    # nothing is said of a paper before each value of what is ours was tried; a table that is older than an axis is at
    # the scenario's value
    table = with_new_axes(of, ends[ends["training.epochs"] == 1].drop(columns="training.epochs"))
    old = type(grid(drawn([0] * 6, 1.0, 1), [3] * 6))(of.grid("full"), table, table)
    both, five = judge(of, "full", old, {})
    assert (both.verdict, five.verdict) == ("not decided", "not run")
    assert both.reason == "it does not hold at epochs = 1; not run at epochs = 5"
    assert (both.undecided, both.leaning, both.seeds) == ("missing", "", 3)


def test_sentences_are_counted_once_whatever_their_checks():
    row = {
        "of": "paper",
        "paper": "safl",
        "source": "table 2",
        "leaning": "",
        "undecided": "",
        "against": "",
        "depends_on": "",
        "p": 0.2,
    }
    claims = pd.DataFrame(
        [
            {**row, "sentence": "a", "verdict": "holds"},
            {**row, "sentence": "a", "verdict": "not run"},
            {**row, "sentence": "a", "verdict": "does not hold", "against": "samples = 600 (printed: 100)"},
            {**row, "sentence": "b", "verdict": "does not hold", "against": "samples = 600 (printed: 100)"},
            {**row, "sentence": "c", "verdict": "not decided", "leaning": "holds"},
            {**row, "sentence": "d", "verdict": "not run"},
            {**row, "of": "ours", "sentence": "", "verdict": "holds"},
        ]
    )
    found = sentences_of(claims).set_index("sentence")
    assert found["verdict"].to_dict() == {"a": "holds", "b": "does not hold", "c": "not decided", "d": "not run"}
    assert found["otherwise"].to_dict() == {"a": False, "b": True, "c": False, "d": False}
    assert found["checks"].to_dict() == {"a": 3, "b": 1, "c": 1, "d": 1}
    assert found["leaning"].to_dict() == {"a": "", "b": "", "c": "holds", "d": ""}


@pytest.mark.parametrize("name", list(find(EXPERIMENTS)))
def test_each_printed_sentence_is_named_and_its_paper_has_a_list(name):
    experiment = load(find(EXPERIMENTS)[name], name, check=False)
    for claim in (claim for claim in experiment.claims if experiment.author(claim) == "paper"):
        assert claim.sentence, claim.says
        assert experiment.printed_fields(experiment.source_of(claim).paper), claim.says


def test_parts_that_are_left_out_are_run_at_no_scale(write, described):
    described["left_out"] = [{"where": {"L": "one", "protocol.rounds": 4}}]
    described["quick"] = {}
    of = load(write(described), "nbafl/fig2")
    for scale in ("quick", "full"):
        found = [(cell.values["L"], cell.values["protocol.rounds"]) for cell in cells(of, scale)]
        assert len(found) == 6
        assert ("one", 4) not in found
    described["left_out"] = [{"where": {"L": "two"}}]
    with pytest.raises(ScenarioError, match=r"left_out\.0\.where"):
        load(write(described), "nbafl/fig2")
