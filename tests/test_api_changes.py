"""Data or code of one's own that change while a run is computed."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from asyncfl.api import execute, simulate
from asyncfl.base.errors import DataError, RunError
from asyncfl.federation.storage import Run
from asyncfl.scenario import Scenario

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


def changing(make: Make, folder: Path, tiny: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def progress(row: dict[str, Any]) -> None:
        if (row["seed"], row["version"]) == (1, 1):
            make(folder, tiny, 0.25)

    return progress


def test_seeds_of_two_worlds_are_never_put_into_one_run(make: Make, tmp_path: Path, tiny: dict[str, Any]) -> None:
    scenario = make(tmp_path, tiny, 0.5)
    digest, out, seed_cache = scenario.digest(), tmp_path / "run", tmp_path / "seed_cache"
    with pytest.raises(RunError, match=r"changed while seed 1 was computed: .* seed 0 is kept"):
        execute(scenario, out, changing(make, tmp_path, tiny), seed_cache=seed_cache)
    assert sorted(path.name for path in out.glob(".partial/*/*")) == ["seed-0"]
    assert sorted(path.name for path in seed_cache.glob("*/*")) == ["seed-0"]
    (kept,) = out.glob(".partial/*/seed-0/scenario.yaml")
    assert yaml.safe_load(kept.read_text())["seeds"] == [0, 1, 2]
    # As it was again, the run goes on.
    again = make(tmp_path, tiny, 0.5)
    assert again.digest() == digest
    seen: set[int] = set()
    execute(again, out, lambda row: seen.add(row["seed"]))
    assert seen == {1, 2}


def test_a_run_in_memory_is_of_one_world_too(make: Make, tmp_path: Path, tiny: dict[str, Any]) -> None:
    with pytest.raises(RunError, match=r"changed while seed 1 was computed"):
        simulate(make(tmp_path, tiny, 0.5), changing(make, tmp_path, tiny))


def test_temporarily_unreadable_data_cost_no_seed(
    tmp_path: Path, tiny: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    scenario = with_data(tmp_path, tiny, 0.5)
    digest = scenario.digest()
    data, aside, seed_cache = tmp_path / "mine.npz", tmp_path / "aside.npz", tmp_path / "seed_cache"

    def progress(row: dict[str, Any]) -> None:
        if (row["seed"], row["version"]) == (2, 1):
            data.rename(aside)

    folder = execute(scenario, tmp_path / "run", progress, seed_cache=seed_cache)
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
        execute(scenario, tmp_path / "other", again)
    assert sorted(path.name for path in (tmp_path / "other").glob(".partial/*/*")) == ["seed-0", "seed-1"]
