"""The real Snakefile on an experiment whose seeds are added look by look."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.workflow.test_snakefile import TINY, planned, snakemake, write

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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the workflow went through all looks of an experiment."""
    place = tmp_path_factory.mktemp("looks")
    write(place, "tiny/looks", LOOKS)
    result = snakemake(place)
    assert result.returncode == 0, result.stdout + result.stderr
    return place


def test_looks_are_planned(tmp_path):
    write(tmp_path, "tiny/looks", LOOKS)
    result = snakemake(tmp_path, "--dry-run")
    assert result.returncode == 0, result.stderr
    said = result.stdout + result.stderr
    assert said.count("checkpoint look_1:") == said.count("checkpoint look_2:") == 1


@pytest.mark.long
def test_one_command_goes_through_all_looks(finished):
    quick = finished / "results" / "quick"
    made = [json.loads((quick / "looks" / f"look_{n}.json").read_text()) for n in (1, 2)]
    assert made == [{"tiny/looks": [1, 1, 0]}, {"tiny/looks": [2, 2, 0]}]
    verdicts = pd.read_csv(quick / "tiny" / "looks" / "claims.csv")
    assert list(verdicts["verdict"]) == ["not decided", "holds"]
    assert list(verdicts["seeds"]) == [4, 2]
    ends = pd.read_csv(quick / "tiny" / "looks" / "ends.csv")
    assert ends.groupby("privacy.epsilon")["seed"].nunique().to_dict() == {50: 4, 60: 4, 70: 2}
    assert "over n = 4 seeds, in some cells 2, of two" in (quick / "tiny" / "looks" / "figures.csv").read_text()


@pytest.mark.long
def test_a_look_adds_seeds_and_repeats_none(finished):
    runs = pd.read_csv(finished / "results" / "runs" / "index.csv")
    of_one = runs[(runs["experiment"] == "tiny/looks") & (runs["scale"] == "quick") & runs["cell"].str.contains(" 60}")]
    timings = [
        json.loads((finished / "results" / "runs" / run / "timing.json").read_text()) for run in of_one["run"].unique()
    ]
    assert sorted(len(timing) for timing in timings) == [2, 3, 4]
    few, more, most = sorted(timings, key=len)
    # the time that a seed took is different each time, so these were computed once
    assert {seed: most[seed] for seed in more} == more
    assert {seed: most[seed] for seed in few} == few


@pytest.mark.long
def test_nothing_is_left_to_do(finished):
    assert planned(finished) == set()


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
