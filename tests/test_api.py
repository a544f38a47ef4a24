"""Runs in memory and on disk: the same bytes each time, interrupted ones go on, and seeds of two worlds never mix."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from threadpoolctl import threadpool_limits

from asyncfl import DataError, Run, RunError, Scenario, ScenarioError, execute, simulate, timeline
from asyncfl import api as api_module
from asyncfl.base.instrument import Instrument, RowCallback
from asyncfl.simulation.prepare import Federation


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "timing.json"}


def test_a_run_on_disk_is_whole_and_the_same_bytes_each_time(scenario: Scenario, tmp_path: Path) -> None:
    two = scenario.override({"seeds": 2, "privacy": {"kind": "nbafl", "epsilon": 60}})
    first = execute(two, tmp_path / "a")
    second = execute(two, tmp_path / "b")
    assert files(first) == files(second)
    tables = {f"{name}.parquet" for name in ("rounds", "events", "tasks", "clients", "ledger", "spending")}
    assert set(files(first)) == {".asyncfl.json", "scenario.yaml", "summary.json", *tables}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_numpy_computes_with_the_threads_that_torch_has(scenario: Scenario) -> None:
    """Sums of floats depend on the number of threads, and a run tells only one number."""
    clipped = scenario.override({"privacy": {"kind": "nbafl", "epsilon": 60}, "model": {"kind": "mlp", "hidden": [64]}})
    runs = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            runs.append(simulate(clipped).rounds)
    pd.testing.assert_frame_equal(*runs, check_exact=True)


def test_a_run_reads_back_what_was_simulated(scenario: Scenario, tmp_path: Path) -> None:
    run = Run.load(execute(scenario, tmp_path / "run"))
    direct = simulate(scenario)
    for name in ("rounds", "events", "tasks", "clients", "ledger", "spending"):
        assert getattr(run, name).equals(getattr(direct, name)), name
    assert run.summary == json.loads(json.dumps(direct.summary))
    assert run.summary["hash"] == scenario.digest()
    assert run.summary["tasks"] == {"begun": 15, "trained": 15, "used": 15, "trained_not_used": 0, "never_needed": 0}


def test_a_whole_run_is_not_computed_again(scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(scenario, tmp_path / "run")
    monkeypatch.setattr(api_module, "one_seed", lambda *arguments: pytest.fail("trained again"))
    assert execute(scenario, tmp_path / "run") == tmp_path / "run"


def test_an_interrupted_run_goes_on_with_the_seeds_it_lacks(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = scenario.override({"seeds": 2})
    trained: list[int] = []
    original = api_module.one_seed

    def killed_in_seed_1(description: Scenario, seed: int, progress: Any, *more: Any) -> Run:
        trained.append(seed)
        if seed == 1 and trained.count(1) == 1:
            raise KeyboardInterrupt
        return original(description, seed, progress, *more)

    monkeypatch.setattr(api_module, "one_seed", killed_in_seed_1)
    with pytest.raises(KeyboardInterrupt):
        execute(two, tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".asyncfl.json", ".partial"]
    (kept,) = (tmp_path / "run" / ".partial").glob("*/seed-0")
    assert len(kept.parent.name) == len(two.digest())
    with pytest.raises(RunError, match=r"holds no run: summary\.json is missing"):
        Run.load(tmp_path / "run")
    execute(two, tmp_path / "run")
    assert trained == [0, 1, 1]
    assert files(tmp_path / "run") == files(execute(two, tmp_path / "straight"))


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_diverged_seed_does_not_lose_the_others(scenario: Scenario, rounds: int) -> None:
    private = {"privacy": {"kind": "nbafl", "epsilon": 2e-18, "clip_norm": 20}, "protocol.rounds": rounds, "seeds": 2}
    run = simulate(scenario.override(private))
    assert run.rounds["diverged"].tolist() == [False, True] * 2
    assert run.summary["diverged"] == [0, 1]
    assert run.summary["seeds"]["0"]["stopped"] == "diverged: the model of version 1 or its loss is not finite"
    assert not run.ledger["exact_epsilon"].isna().any()


def test_nested_mappings_stand_for_the_scenario_that_they_describe(scenario: Scenario, tmp_path: Path) -> None:
    described = scenario.model_dump(mode="json")
    assert simulate(described).rounds.equals(simulate(scenario).rounds)
    clocks = [timeline(one)[0].events["time_s"].to_pylist() for one in (described, scenario)]
    assert clocks[0] == clocks[1]
    folder = execute(described, tmp_path / "run")
    assert Run.load(folder).scenario == scenario.settled()
    wrong: list[Any] = [None, "scenario.yaml", 3]
    for given in wrong:
        with pytest.raises(ScenarioError, match="a scenario must be a mapping of fields"):
            simulate(given)
    with pytest.raises(ScenarioError, match=r"data\.clients: .*got 0"):
        simulate({**described, "data": {**described["data"], "clients": 0}})


def test_the_seed_cache_serves_runs_with_other_numbers_of_seeds(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (scenario.model_copy(update={"seeds": tuple(range(n))}) for n in (2, 3))
    plain = execute(many, tmp_path / "plain")
    seed_cache = tmp_path / "seed_cache"
    execute(few, tmp_path / "few", seed_cache=seed_cache)
    computed: list[int] = []

    original = api_module.one_seed

    def counted(of: Scenario, seed: int, *rest: Any) -> Run:
        computed.append(seed)
        return original(of, seed, *rest)

    monkeypatch.setattr(api_module, "one_seed", counted)
    found = execute(many, tmp_path / "many", seed_cache=seed_cache)
    assert computed == [2]
    assert files(found) == files(plain)
    assert sorted(place.name for place in seed_cache.glob("*/*")) == ["seed-0", "seed-1", "seed-2"]
    # a seed that cannot be read is computed again
    next(seed_cache.glob("*/seed-1")).joinpath("rounds.parquet").write_bytes(b"")
    for _ in range(2):
        assert files(execute(many, tmp_path / "again", force=True, seed_cache=seed_cache)) == files(plain)
    assert computed == [2, 1]
    other = many.override({"training.lr": 0.123})
    execute(other, tmp_path / "other", seed_cache=seed_cache)
    assert computed == [2, 1, 0, 1, 2]


RULE = """
import numpy as np
from asyncfl.defences import Rule


class Half(Rule):
    kind: str = "rule_that_changes:Half"

    def aggregate(self, updates, weights):
        return ({share} * weights @ updates).astype(np.float32)
"""


def with_rule(folder: Path, tiny: dict[str, Any], share: float) -> Scenario:
    (folder / "rule_that_changes.py").write_text(RULE.format(share=share))
    return Scenario.read({**tiny, "defence": {"rule": {"kind": "rule_that_changes:Half"}}, "seeds": 3})


@pytest.mark.parametrize("field", ["training.lr", "a file", "its mark"])
def test_a_finished_seed_of_another_scenario_or_edited_is_computed_again(
    tmp_path: Path, tiny: dict[str, Any], caplog: pytest.LogCaptureFixture, field: str
) -> None:
    scenario = Scenario.read(tiny | {"seeds": [0, 1]})
    plain = execute(scenario, tmp_path / "plain")

    def after_one(row: dict[str, Any]) -> None:
        if row["seed"] == 1:
            raise KeyboardInterrupt

    for name, one in (("run", scenario), ("other", scenario.override({"training.lr": 0.5}))):
        with pytest.raises(KeyboardInterrupt):
            execute(one, tmp_path / name, [RowCallback(after_one)])
    (kept,) = (tmp_path / "run").glob(".partial/*/seed-0")
    if field == "training.lr":
        (foreign,) = (tmp_path / "other").glob(".partial/*/seed-0")
        shutil.rmtree(kept)
        shutil.copytree(foreign, kept)
        said = "it is of another scenario or seed"
    elif field == "a file":
        table = pq.read_table(kept / "rounds.parquet")
        pq.write_table(table.set_column(0, "seed", table["seed"]), kept / "rounds.parquet", compression="none")
        said = "rounds.parquet was changed after the run was written"
    else:
        (kept / ".asyncfl.json").unlink()
        said = "it has no mark of a finished seed"
    assert files(execute(scenario, tmp_path / "run")) == files(plain)
    assert f"seed 0 in {kept} is not used and computed again: " in caplog.text
    assert said in caplog.text


def with_data(folder: Path, tiny: dict[str, Any], share: float) -> Scenario:
    features = np.random.default_rng(0).random((60, 4))
    np.savez(folder / "mine.npz", x_train=share * features, y_train=np.arange(60) % 3)
    own = {"dataset": {"kind": "npz", "path": str(folder / "mine.npz")}, "clients": 2, "samples_per_client": 10}
    return Scenario.read({**tiny, "data": {**own, "test_samples": 10}, "seeds": 3})


Make = Callable[[Path, dict[str, Any], float], Scenario]


@pytest.fixture(params=[with_rule, with_data])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Writes code or data of one's own, with a number in it."""
    monkeypatch.syspath_prepend(tmp_path)
    yield request.param
    sys.modules.pop("rule_that_changes", None)


class ComputedSeeds(Instrument):
    """Instrument that stores which seeds are computed, and the seed of each row."""

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.rows: list[int] = []

    def begin_seed(self, federation: Federation) -> None:
        self.seeds.append(federation.resolved.seed)

    def row(self, row: Mapping[str, Any]) -> None:
        self.rows.append(row["seed"])


def changing(make: Make, folder: Path, tiny: dict[str, Any]) -> RowCallback:
    def progress(row: dict[str, Any]) -> None:
        if (row["seed"], row["version"]) == (1, 1):
            make(folder, tiny, 0.25)

    return RowCallback(progress)


def test_seeds_of_two_worlds_are_never_put_into_one_run(make: Make, tmp_path: Path, tiny: dict[str, Any]) -> None:
    scenario = make(tmp_path, tiny, 0.5)
    digest, out, seed_cache = scenario.digest(), tmp_path / "run", tmp_path / "seed_cache"
    with pytest.raises(RunError, match=r"changed while seed 1 was computed: .* seed 0 is kept"):
        execute(scenario, out, [changing(make, tmp_path, tiny)], seed_cache=seed_cache)
    assert sorted(path.name for path in out.glob(".partial/*/*")) == ["seed-0"]
    assert sorted(path.name for path in seed_cache.glob("*/*")) == ["seed-0"]
    (kept,) = out.glob(".partial/*/seed-0/scenario.yaml")
    assert yaml.safe_load(kept.read_text())["seeds"] == [0, 1, 2]
    # As it was again, the run goes on.
    again = make(tmp_path, tiny, 0.5)
    assert again.digest() == digest
    computed = ComputedSeeds()
    execute(again, out, [computed])
    assert computed.seeds == [1, 2]
    assert computed.rows == [0] * 4 + [1] * 4 + [2] * 4, "rows of finished seeds are read from their files"


def test_a_run_in_memory_is_of_one_world_too(make: Make, tmp_path: Path, tiny: dict[str, Any]) -> None:
    with pytest.raises(RunError, match=r"changed while seed 1 was computed"):
        simulate(make(tmp_path, tiny, 0.5), [changing(make, tmp_path, tiny)])


def test_temporarily_unreadable_data_cost_no_seed(
    tmp_path: Path, tiny: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    scenario = with_data(tmp_path, tiny, 0.5)
    digest = scenario.digest()
    data, aside, seed_cache = tmp_path / "mine.npz", tmp_path / "aside.npz", tmp_path / "seed_cache"

    def progress(row: dict[str, Any]) -> None:
        if (row["seed"], row["version"]) == (2, 1):
            data.rename(aside)

    folder = execute(scenario, tmp_path / "run", [RowCallback(progress)], seed_cache=seed_cache)
    aside.rename(data)
    run = Run.load(folder)
    assert list(run.summary["seeds"]) == ["0", "1", "2"]
    assert run.summary["hash"] == digest
    assert "seed 2 is kept, but the data and code" in caplog.text
    assert "mine.npz" in caplog.text
    # What nobody could verify is not lent to other runs.
    assert sorted(path.name for path in seed_cache.glob("*/*")) == ["seed-0", "seed-1"]

    def again(row: dict[str, Any]) -> None:
        if (row["seed"], row["version"]) == (1, 1):
            data.rename(aside)

    with pytest.raises(DataError, match=r"mine.npz"):
        execute(scenario, tmp_path / "other", [RowCallback(again)])
    assert sorted(path.name for path in (tmp_path / "other").glob(".partial/*/*")) == ["seed-0", "seed-1"]


def test_a_note_of_every_version_is_told_once_without_a_count() -> None:
    """What comes in all 3 + 2 versions is no matter of versions; what comes in 4 of them is."""
    seeds = [
        {"versions": versions, "notes": ["of the run"], "noted": {"always": versions, "at times": 2}}
        for versions in (3, 2)
    ]
    assert api_module._notes(seeds) == ["of the run", "always", "at times (in 4 of 5 versions)"]
