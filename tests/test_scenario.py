import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from asyncfl.base.errors import ScenarioError
from asyncfl.scenario import Scenario
from asyncfl.world.distributions import Fixed


def faults(description: Any) -> dict[str, str]:
    """Field -> message of everything that is wrong with a description."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.read(description, "s.yaml")
    assert str(caught.value).startswith("s.yaml: ")
    return {fault.field: fault.message for fault in caught.value.faults}


def test_defaults_are_filled_in_and_survive_yaml(scenario: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(scenario.to_yaml())
    again = Scenario.load(file)
    assert again.settled() == scenario.settled()
    assert "momentum: 0.0" in file.read_text()


def test_a_field_of_another_kind_is_told_with_the_kinds_that_have_it(tiny: dict[str, Any]) -> None:
    tiny["privacy"] = {"kind": "none", "epsilon": 3}
    assert faults(tiny) == {
        "privacy.epsilon": "is no field of kind none; kinds that have it: nbafl, local_gaussian, dp_sgd"
    }


@pytest.mark.parametrize("kind", ["min_max", "min_sum"])
def test_kinds_of_equal_fields_are_told_apart(tiny: dict[str, Any], kind: str) -> None:
    tiny["threats"] = {"attack": {"kind": kind, "speed": 3}, "attackers": 1}
    assert faults(tiny)["threats.attack.speed"].startswith(f"is no field of kind {kind};")


@pytest.mark.parametrize(
    ("protocol", "end"),
    [
        ({"kind": "buffered", "buffer": 2}, " (the field is not given: its default)"),
        ({"kind": "fedasync"}, " (the field is not given: its default)"),
        ({"kind": "fedasync", "in_flight": 20}, ""),
        ({"kind": "buffered", "buffer": 2, "dispatch": {"kind": "constant", "in_flight": 20}}, ""),
    ],
)
def test_a_default_that_does_not_fit_is_told_as_such(tiny: dict[str, Any], protocol: dict[str, Any], end: str) -> None:
    tiny["data"] |= {"clients": 5}
    tiny["protocol"] = {**protocol, "rounds": 2}
    (message,) = faults(tiny).values()
    assert message == f"must be 1..clients (5), got 20; lower it or raise data.clients{end}"


def test_all_faults_of_all_parts_are_reported_at_once(tiny: dict[str, Any]) -> None:
    tiny["training"] = {"lrr": 0.1, "momentum": 1.5}
    tiny["protocol"]["participants"] = 60
    tiny["privacy"] = {"kind": "nbafl", "epsilon": -1, "clip_norm": "most"}
    tiny["world"]["device"] = {"kind": "tortoise"}
    tiny["colour"] = "red"
    found = faults(tiny)
    assert set(found) == {
        "training.lrr",
        "training.momentum",
        "protocol.participants",
        "privacy.epsilon",
        "privacy.clip_norm",
        "world.device",
        "colour",
    }
    assert found["training.lrr"] == "is no field; did you mean lr?"
    assert "got 60; lower it" in found["protocol.participants"]
    assert "got 'tortoise'" in found["world.device"]


@pytest.mark.parametrize("value", [None, [], "text", 3])
def test_a_scenario_must_be_a_mapping(value: Any) -> None:
    assert "must be a mapping" in faults(value)[""]


def test_a_protocol_is_required() -> None:
    assert faults({})["protocol"] == "is required and missing"


@pytest.mark.parametrize(("seeds", "meant"), [(3, (0, 1, 2)), ([4, 7], (4, 7)), (1, (0,))])
def test_seeds_are_a_number_or_a_list(tiny: dict[str, Any], seeds: Any, meant: tuple[int, ...]) -> None:
    assert Scenario.read(tiny | {"seeds": seeds}).seeds == meant


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1], "two", [-1], 1.5, True, [True], 100_001])
def test_seeds_that_are_none(tiny: dict[str, Any], seeds: Any) -> None:
    assert any(field.startswith("seeds") for field in faults(tiny | {"seeds": seeds}))


def test_overriding_changes_fields_by_dotted_name(scenario: Scenario) -> None:
    changed = scenario.override({"training.lr": 0.5, "privacy": {"kind": "nbafl", "epsilon": 3}, "seeds": 2})
    assert (changed.training.lr, changed.privacy.epsilon, changed.seeds) == (0.5, 3, (0, 1))
    assert scenario.training.lr == 0.05


def test_overriding_a_field_that_does_not_exist_is_a_fault(scenario: Scenario) -> None:
    with pytest.raises(ScenarioError, match=r"training\.speed: is no field"):
        scenario.override({"training.speed": 1})


def test_the_digest_names_everything_a_run_depends_on(scenario: Scenario) -> None:
    assert len(scenario.digest()) == 16
    assert scenario.override({"training.lr": 0.05}).digest() == scenario.digest()
    changes: list[dict[str, Any]] = [{"training.lr": 0.06}, {"seeds": 2}, {"data.clients": 6}, {"seeding.clock": 0}]
    digests = {scenario.override(change).digest() for change in changes}
    assert len(digests | {scenario.digest()}) == 5


def _unsaid(part: BaseModel, written: Any, name: str = "") -> Iterator[str]:
    """Fields of `part` and of what it holds that `written` leaves out; a constant is written as its number."""
    for field in type(part).model_fields:
        if field not in written:
            yield f"{name}{field}"
        elif isinstance(held := getattr(part, field), BaseModel) and not isinstance(held, Fixed):
            yield from _unsaid(held, written[field], f"{name}{field}.")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.5, "clip_norm": 0.5}},
        {"privacy": {"kind": "local_gaussian", "epsilon": 6, "clip_norm": 2}, "training.gradient_clip": 2},
    ],
)
def test_a_resolved_scenario_says_every_field(scenario: Scenario, changes: dict[str, Any]) -> None:
    settled = scenario.override(changes).settled()
    assert list(_unsaid(settled, settled.resolved())) == []


def test_privacy_that_is_off_is_no_privacy_whatever_it_is_called(scenario: Scenario) -> None:
    off = scenario.override({"privacy.kind": "nbafl", "privacy.epsilon": float("inf"), "privacy.exposures": 3})
    assert off.digest() == scenario.digest()


def test_the_source_of_the_data_is_part_of_the_digest(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCFL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    embedded = Scenario.read(tiny).digest()
    tiny["data"]["source"] = "auto"
    assert Scenario.read(tiny).digest() == embedded


def test_the_cost_grows_with_the_work(scenario: Scenario) -> None:
    assert scenario.override({"protocol.rounds": 30_000}).estimated_cost() > 2 * scenario.estimated_cost()
    assert scenario.override({"model": {"kind": "cnn"}}).estimated_cost() > scenario.estimated_cost()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"protocol": {"kind": "synch", "rounds": 3}}, "got 'synch'; did you mean sync?"),
        ({"world": {"uplink": {"loss": 0.3}}}, "did you mean {kind: independent, probability: 0.3}?"),
        ({"world": {"device": 0.01}}, "did you mean {kind: fixed, s_per_sample: 0.01}?"),
        ({"world": {"tap": {}}}, "world.tap: must name a tapped link (uplink, downlink or scoring: true)"),
        ({"world": {"tap": {"at": "receiver"}}}, "world.tap: must name a tapped link"),
    ],
)
def test_a_value_that_means_nothing_is_told_with_what_may_have_been_meant(
    tiny: dict[str, Any], changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ScenarioError, match=re.escape(told)):
        Scenario.read({**tiny, **changes})


def test_a_tap_whose_links_are_named_as_untapped_is_none() -> None:
    Scenario.read({"protocol": {"kind": "sync", "rounds": 1}, "world": {"tap": {"uplink": False}}})
