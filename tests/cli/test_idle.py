"""Settings that change nothing are named."""

from pathlib import Path
from typing import Any

import pytest

from asyncfl import Scenario
from asyncfl.cli.idle import idle_settings
from asyncfl.manual.starter import STARTERS, starter


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"world.turnaround_s": 5.0}, "world.turnaround_s changes nothing without world.workers"),
        ({"world.turnaround_s": 5.0, "world.workers": 2}, ""),
        ({"world.turnaround_s": 0.0}, ""),
        ({"world.score_s": 5.0}, "world.score_s changes nothing without defence.detector"),
        ({"defence.root_samples": 50}, "defence.root_samples changes nothing without a detector or rule"),
        ({"defence.root_samples": 50, "defence.rule": {"kind": "fltrust"}}, ""),
        ({"world.uplink.retransmissions": 3}, "world.uplink.retransmissions changes nothing without world.uplink.loss"),
        (
            {"world.uplink.retransmissions": 3, "world.uplink.loss": {"kind": "independent", "probability": 0.1}},
            "",
        ),
    ],
)
def test_a_setting_whose_part_is_switched_off_is_named(tiny: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    found = idle_settings(Scenario.read(tiny).override(fields))
    assert [one.startswith(said) for one in found] == [True] * bool(said)


@pytest.mark.parametrize("kind", [one for one in STARTERS if one != "own-data"])
def test_no_starter_has_such_settings(kind: Any, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(starter(kind, file.name))
    assert idle_settings(Scenario.load(file)) == []
