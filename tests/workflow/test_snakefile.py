"""The real Snakefile on tiny experiments, in a folder of its own; and the margins of our own experiments."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from asyncfl.experiments.files import find
from asyncfl.experiments.loading import load

ROOT = Path(__file__).resolve().parents[2]

TINY: dict[str, Any] = {
    "title": "A tiny grid",
    "source": {"paper": "nbafl", "figure": 2},
    "scenario": {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 3, "samples_per_client": 10, "test_samples": 20},
        "model": {"kind": "mlp", "hidden": [4]},
        "training": {"epochs": 1},
        "protocol": {"kind": "sync", "rounds": 2},
        "privacy": {"kind": "nbafl", "epsilon": 60},
    },
    "axes": {"privacy.epsilon": [50, 60]},
    "seeds": {"quick": 2, "full": 3},
    "figure": {"kind": "curves", "hue": "privacy.epsilon"},
    "claims": [{"check": "order", "along": "privacy.epsilon", "says": "the loss falls with the budget"}],
}


ALONG = {"along": "privacy.epsilon", "value": "final train_loss"}
LOOKS = {
    **TINY,
    "axes": {"privacy.epsilon": [50, 60, 70]},
    "seeds": {"quick": {"looks": [2, 3, 4]}, "full": 3},
    "claims": [
        # two cells that differ by what can hardly be seen, and one that says nothing of chance
        {"check": "no_worse", "at": 60, "than": 50, "margin": 0.0005, **ALONG, "says": "60 is no worse than 50"},
        {
            "check": "at_least",
            "threshold": 1000.0,
            "value": "final train_loss",
            "where": {"privacy.epsilon": [70]},
            "says": "the loss stays below 1000",
        },
    ],
}


def snakemake(place: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    config = {"results": str(place / "results"), "experiments": str(place / "experiments"), **settings}
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(place)]
    command += ["--cores", "2", *words, "--config", *(f"{name}={value}" for name, value in config.items())]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ASYNCFL_", "SNAKEMAKE_"))}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
    return subprocess.run(command, env=own, capture_output=True, text=True, check=False)


def planned(place: Path) -> set[str]:
    """Names of the rules that a dry run would execute."""
    result = snakemake(place, "--dry-run")
    assert result.returncode == 0, result.stderr
    text = result.stdout + result.stderr
    return set(re.findall(r"^(?:local)?rule (\w+):", text, flags=re.MULTILINE)) - {"all"}


def write(place: Path, name: str, description: dict[str, Any]) -> None:
    path = place / "experiments" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(description, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the workflow ran through two experiments that share a cell."""
    place = tmp_path_factory.mktemp("workflow")
    write(place, "tiny/one", TINY)
    write(place, "tiny/two", {**TINY, "axes": {"privacy.epsilon": [60, 100]}})
    result = snakemake(place)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"^2 statements of ours: .*\n\nTo look at: .*index.html$", result.stderr, re.MULTILINE)
    return place


def test_one_command_makes_runs_tables_figures_and_verdicts(finished):
    results = finished / "results"
    index = pd.read_csv(results / "runs" / "index.csv")
    quick = index[index["scale"] == "quick"]
    assert len(quick) == 4
    assert quick["run"].nunique() == 3  # the cell that both have is one run
    assert {path.name for path in (results / "runs").iterdir() if path.is_dir()} == set(quick["run"])
    for name in ("one", "two"):
        made = {path.name for path in (results / "quick" / "tiny" / name).iterdir()}
        assert {"curves.csv", "final.csv", "cells.csv", "claims.csv", "figure.svg", "figure.png"} <= made
    claims = (results / "claims.md").read_text()
    assert "2 statements of ours:" in claims
    assert "no evidence" in claims
    assert "stand-in" in (results / "quick" / "tiny" / "one" / "figures.csv").read_text()
    assert "quick/tiny/two/figure.svg" in (results / "papers" / "nbafl.html").read_text()
    assert not list(results.rglob("*.part"))


def test_once_finished_only_an_edited_experiment_has_anything_to_do(finished):
    assert planned(finished) == set()
    before = (finished / "experiments" / "tiny" / "two.yaml").read_text()
    claims = [{**TINY["claims"][0], "says": "said otherwise"}]
    try:
        write(finished, "tiny/two", {**TINY, "axes": {"privacy.epsilon": [60, 100, 200]}, "claims": claims})
        rules = planned(finished)
        [run] = (name for name in rules if name.startswith("run_"))
        assert run.startswith("run_tiny_two_")
        assert rules - {run} == {"analysis_tiny_two", "index_of_runs", "report_on_claims"}
    finally:
        (finished / "experiments" / "tiny" / "two.yaml").write_text(before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"results": "/dev/null/x"}, "results folder /dev/null/x: /dev/null: Not a directory; choose another"),
        (
            {"experiments": "bad"},
            "bad.yaml: 2 faults\n  axes.privacy.epsilo: is no field of kind nbafl; did you mean epsilon?\n"
            "  claims.0.along: there is no axis privacy.epsilon; did you mean privacy.epsilo?",
        ),
    ],
)
def test_bad_input_is_one_message_and_status_1(tmp_path, settings, message):
    write(tmp_path, "tiny/one", TINY)
    faulty = {**TINY, "axes": {"privacy.epsilo": [1]}, "figure": {"kind": "curves", "hue": "privacy.epsilo"}}
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "bad.yaml").write_text(yaml.safe_dump(faulty), encoding="utf-8")
    result = snakemake(tmp_path, "--dry-run", **settings)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "results").exists()


def test_pictures_of_uploads_and_looks_are_steps_of_their_own(tmp_path):
    tapped = {**TINY["scenario"], "world": {"uplink": {"latency_s": 0.05}, "tap": {"uplink": True}}}
    write(tmp_path, "tiny/one", {**TINY, "scenario": tapped, "pictures": {"methods": ["first_layer"]}})
    write(tmp_path, "tiny/two", TINY)
    write(tmp_path, "tiny/looks", LOOKS)
    result = snakemake(tmp_path, "--dry-run")
    assert result.returncode == 0, result.stderr
    said = result.stdout + result.stderr
    assert said.count("checkpoint look_1:") == said.count("checkpoint look_2:") == 1
    assert "rule attacks_tiny_one:" in said
    assert "rule attacks_tiny_two:" not in said


@pytest.mark.long
def test_a_run_on_several_cores_is_the_same_run(finished, tmp_path):
    write(tmp_path, "tiny/one", TINY)
    [run] = (rule for rule in planned(tmp_path) if rule.startswith("run_"))
    result = snakemake(tmp_path, "--set-threads", f"{run}=2")
    assert result.returncode == 0, result.stdout + result.stderr
    for place in (tmp_path / "results" / "runs").glob("*/*.parquet"):
        alone = finished / "results" / "runs" / place.parent.name / place.name
        assert place.read_bytes() == alone.read_bytes(), place.name


@pytest.mark.long
def test_one_command_goes_through_all_looks(tmp_path):
    """A look adds seeds and repeats none; after the last there is nothing to do."""
    write(tmp_path, "tiny/looks", LOOKS)
    result = snakemake(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    results, quick = tmp_path / "results", tmp_path / "results" / "quick"
    made = [json.loads((quick / "looks" / f"look_{n}.json").read_text()) for n in (1, 2)]
    assert made == [{"tiny/looks": [1, 1, 0]}, {"tiny/looks": [2, 2, 0]}]
    verdicts = pd.read_csv(quick / "tiny" / "looks" / "claims.csv")
    assert list(verdicts["verdict"]) == ["not decided", "holds"]
    assert list(verdicts["seeds"]) == [4, 2]
    ends = pd.read_csv(quick / "tiny" / "looks" / "ends.csv")
    assert ends.groupby("privacy.epsilon")["seed"].nunique().to_dict() == {50: 4, 60: 4, 70: 2}
    assert "over n = 4 seeds, in some cells 2, of two" in (quick / "tiny" / "looks" / "figures.csv").read_text()
    runs = pd.read_csv(results / "runs" / "index.csv")
    of_one = runs[(runs["experiment"] == "tiny/looks") & (runs["scale"] == "quick") & runs["cell"].str.contains(" 60}")]
    timings = [json.loads((results / "runs" / run / "timing.json").read_text()) for run in of_one["run"].unique()]
    assert sorted(len(timing) for timing in timings) == [2, 3, 4]
    few, more, most = sorted(timings, key=len)
    # the time that a seed took is different each time, so these were computed once
    assert {seed: most[seed] for seed in more} == more
    assert {seed: most[seed] for seed in few} == few
    assert planned(tmp_path) == set()


@pytest.mark.long
def test_without_core_hours_no_seeds_are_added(tmp_path):
    write(tmp_path, "tiny/looks", LOOKS)
    result = snakemake(tmp_path, "tiny_looks", core_hours="0")
    assert result.returncode == 0, result.stdout + result.stderr
    looks = json.loads((tmp_path / "results" / "quick" / "looks" / "look_2.json").read_text())
    assert looks == {"tiny/looks": [0, 0, 0]}
    result = snakemake(tmp_path, "--dry-run", core_hours="many")
    assert result.returncode == 1
    assert "core_hours: must be a number of hours, 0 or more, got 'many'" in result.stderr


OUR_EXPERIMENTS = ROOT / "workflow" / "experiments"


def test_every_margin_states_its_reason() -> None:
    silent = []
    for name, path in find(OUR_EXPERIMENTS).items():
        experiment = load(path, name, check=False)
        silent += [
            f"{name}: {claim.says}"
            for claim in experiment.claims
            if claim.margin_asked and not experiment.margin_why(claim)
        ]
    assert silent == [], "give the number its reason in `margins` of the experiment, or the claim its `margin_why`"


def test_no_order_with_ties_grants_none() -> None:
    for name, path in find(OUR_EXPERIMENTS).items():
        for claim in load(path, name, check=False).claims:
            assert claim.check != "order" or claim.strict or claim.margin > 0, f"{name}: {claim.says}"


@pytest.mark.long
def test_runs_share_a_job_up_to_so_many_estimated_minutes(tmp_path: Path) -> None:
    write(tmp_path, "tiny/one", TINY)
    counts = {}
    for minutes in ("0", "60"):
        result = snakemake(tmp_path, "--dry-run", job_minutes=minutes)
        assert result.returncode == 0, result.stderr
        counts[minutes] = len(set(re.findall(r"rule (run_tiny_one_\w+):", result.stdout + result.stderr)))
    assert counts == {"0": 2, "60": 1}
