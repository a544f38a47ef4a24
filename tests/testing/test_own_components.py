"""Every base class can be derived from by a user, and named by import path; the page that says so leaves none out."""

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

from asyncfl.api import execute, simulate
from asyncfl.base.component import Component, default_property, own_sources
from asyncfl.base.errors import ScenarioError
from asyncfl.experiments.code import code_digest
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario

PAGE = Path(__file__).parents[2] / "docs" / "own-components.md"

AWAY = {"kind": "alternating", "on_s": 0.5, "off_s": 0.2}

CHANGES: list[dict[str, Any]] = [
    {"data.dataset": {"kind": "every_kind:Halfspace", "numbers": 4}, "data.source": "auto"},
    {"data.partition": {"kind": "every_kind:Striped"}},
    {"data.concept": {"kind": "every_kind:Mirrored", "groups": 2}},
    {"model": {"kind": "every_kind:Softmax"}},
    {"protocol.dispatch": {"kind": "every_kind:Everyone"}},
    {"protocol": {"kind": "sync", "rounds": 2, "open": {"kind": "every_kind:Pairs"}}},
    {"protocol.selection": {"kind": "every_kind:Latest"}},
    {"protocol.secure_aggregation": {"kind": "every_kind:Trusted"}},
    {"protocol.staleness": {"kind": "every_kind:Slow"}},
    {"protocol": {"kind": "every_kind:Eager", "rounds": 3, "staleness": {"kind": "every_kind:Slow"}}},
    {"world.device": {"kind": "every_kind:TwoSpeeds"}},
    {"world.uplink.latency_s": {"kind": "every_kind:Coin", "side": 0.5}},
    {"world.availability": {"kind": "every_kind:Present"}},
    {"world.availability": AWAY, "world.failure_detection": {"kind": "every_kind:Delayed"}},
    {"world.uplink.loss": {"kind": "every_kind:FirstPacket"}, "world.uplink.retransmissions": 1},
    {"compression": {"kind": "every_kind:Signs"}},
    {"algorithm": {"kind": "every_kind:Halved"}},
    {"privacy": {"kind": "every_kind:Whisper"}},
    {"privacy": {"kind": "mechanisms", "client": {"kind": "every_kind:Coarse"}}},
    {"privacy": {"kind": "dp_ftrl", "noise_multiplier": 1.0, "factorisation": {"kind": "every_kind:Halves"}}},
    {"privacy": {"kind": "nbafl", "epsilon": 100, "exposures": {"kind": "every_kind:Twice"}}},
    {"threats": {"attack": {"kind": "every_kind:Silent"}, "attackers": 2}},
    {"defence.rule": {"kind": "every_kind:Largest"}},
    {"defence.rule": {"kind": "every_kind:Summed"}},
    {"defence.rule": {"kind": "every_kind:Midrange"}},
    {"defence.rule": {"kind": "median", "pre": [{"kind": "every_kind:PairsOfTwo"}]}},
    {
        "defence.detector": {"kind": "every_kind:Downhill"},
        "defence.root_samples": 20,
        "defence.strikes": {"threshold": 3},
    },
]


@pytest.fixture(autouse=True)
def _in_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.fixture
def buffered(tiny: dict[str, Any]) -> Scenario:
    tiny["data"]["samples_per_client"] = 10
    tiny["protocol"] = {"kind": "buffered", "rounds": 3, "buffer": 3, "dispatch": {"kind": "continuous"}}
    return Scenario.read(tiny)


def named(change: dict[str, Any]) -> list[str]:
    return re.findall(r"every_kind:\w+", json.dumps(change))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: ",".join(named(change)))
def test_a_run_uses_each_own_component(buffered: Scenario, change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(buffered.override(change).to_yaml(), encoding="utf-8")
    scenario = Scenario.load(path)
    assert Scenario.read(scenario.resolved()) == scenario
    assert list(own_sources(scenario)) == ["every_kind"]
    assert len(code_digest(scenario)) == 16
    assert 1 < scenario.estimated_cost() < 7200
    run = Run.load(execute(scenario, tmp_path / "run"))
    assert run.scenario == scenario
    (seed,) = run.summary["seeds"].values()
    assert seed["stopped"] == "all versions published"
    assert run.summary["fates"]["aggregated"] > 0
    assert run.tables["rounds"]["version"].to_pylist()[-1] == scenario.protocol.rounds
    assert len(run.tables["clients"]) == scenario.data.clients
    assert sum(run.tables["clients"]["aggregated"].to_pylist()) == run.summary["fates"]["aggregated"]


def test_an_own_linear_rule_gives_the_run_of_the_mean(buffered: Scenario) -> None:
    summed, mean = buffered.override({"defence.rule": {"kind": "every_kind:Summed"}}), buffered
    of_models = {"protocol": {**buffered.protocol.model_dump(mode="json"), "aggregation": "alg4_literal"}}
    for change in ({}, of_models, {"privacy": {"kind": "nbafl", "epsilon": 100}}):
        runs = [simulate(one.override(change)).tables for one in (summed, mean)]
        for name in ("rounds", "ledger"):
            assert_frame_equal(runs[0][name].to_pandas(), runs[1][name].to_pandas())
    assert summed.defence.off


def test_a_coordinatewise_own_rule_may_follow_a_shuffler(scenario: Scenario) -> None:
    change = {
        "privacy": {"kind": "adaptive", "budgets": [1.0] * 5, "shuffler": {"swaps": 3, "seconds": 0.0}},
        "defence.rule": {"kind": "every_kind:Midrange"},
    }
    assert simulate(scenario.override(change)).summary["fates"]["aggregated"] == 15
    with pytest.raises(ScenarioError, match=r"defence\.rule: must be mean, .*, got every_kind:Largest: "):
        scenario.override({**change, "defence.rule": {"kind": "every_kind:Largest"}})


def test_an_own_protocol_without_cohorts_has_as_many_participants_as_its_buffer(buffered: Scenario) -> None:
    own = {
        "kind": "every_kind:Rounds",
        "rounds": 3,
        "dispatch": {"kind": "every_kind:Everyone"},
        "opening": {"kind": "every_kind:Pairs"},
        "staleness": {"kind": "every_kind:Slow"},
    }
    with pytest.raises(ScenarioError, match=r"protocol\.late: must be carry where clients are not drawn in cohorts"):
        buffered.override({"protocol": own})
    own["late"] = "carry"
    scenario = buffered.override({"protocol": own, "privacy": {"kind": "nbafl", "epsilon": 100.0, "exposures": 2}})
    assert scenario.participants == 2
    assert simulate(scenario).summary["fates"]["aggregated"] == 6


def test_the_digest_of_a_scenario_covers_files_of_own_devices(buffered: Scenario, tmp_path: Path) -> None:
    speed = tmp_path / "speed.txt"
    speed.write_text("0.02")
    scenario = buffered.override({"world.device": {"kind": "every_kind:Measured", "path": str(speed)}})
    before = scenario.digest()
    assert simulate(scenario).summary["fates"]["aggregated"] == 9
    speed.write_text("0.03")
    assert scenario.digest() != before


def test_every_base_class_has_an_own_component_here() -> None:
    import every_kind

    bases = set(_bases())
    derived = {
        base
        for _, cls in inspect.getmembers(every_kind, inspect.isclass)
        if cls.__module__ == "every_kind"
        for base in cls.__mro__
        if base in bases
    }
    assert {base.__name__ for base in bases - derived} == set()


def test_the_page_names_every_base_class_its_place_and_its_methods() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for base in _bases():
        row = next((line for line in text.splitlines() if f".{base.__name__}`" in line), "")
        place = re.search(rf"`([\w.]+)\.{base.__name__}`", row)
        assert place is not None, f"the page does not say where {base.__name__} is imported from"
        assert getattr(importlib.import_module(place[1]), base.__name__) is base
        methods = [name for name, value in vars(base).items() if _is_public(name, value)]
        missing = [name for name in methods if f"`{name}" not in row]
        assert not missing, f"{base.__name__}: the page does not name {missing}"


def test_wrong_import_paths_are_reported_beside_their_field(buffered: Scenario) -> None:
    for kind, message in {
        "every_kind:Slowly": "module 'every_kind' has no 'Slowly'",
        "every_kin:Slow": "cannot import 'every_kin'",
        "every_kind:Largest": "every_kind:Largest must be a class derived from Staleness",
        "slow": "kind must be one of constant, .* or my_module:MyClass",
    }.items():
        with pytest.raises(ScenarioError, match=f"protocol.staleness: {message}"):
            buffered.override({"protocol.staleness": {"kind": kind}})
    with pytest.raises(ScenarioError, match=r"latency_s\.side: must be a valid number, got 'heads'"):
        buffered.override({"world.uplink.latency_s": {"kind": "every_kind:Coin", "side": "heads"}})


def _is_public(name: str, value: Any) -> bool:
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | default_property))


def _bases() -> Iterator[type[Component]]:
    """The classes that a scenario may name derived ones of: bases of all choices."""
    import asyncfl.scenario  # noqa: F401

    for cls in Component.__subclasses__():
        # Strikes are no choice: there is one way to count them. A metric of one's own is a function, not a class.
        if cls.__module__.startswith("asyncfl.") and cls.__name__ not in ("Strikes", "Metric"):
            yield cls
