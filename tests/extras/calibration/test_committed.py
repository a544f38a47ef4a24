"""The world that stands in `clock/calibrated` is what the recorded runs beside it are fitted to, today as ever."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncfl.base.files.yaml_text import read_yaml
from asyncfl.extras.calibration import calibrate
from asyncfl.extras.calibration.observations import observe_run
from asyncfl.results.storage import Run
from asyncfl.world import World

WORKFLOW = Path(__file__).parents[3] / "workflow"
FOUR_DIGITS = 5e-4
"""Half a unit in the last place of 1.000."""


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names of all plain values, and these."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from numbers(inner, f"{name}.{place}")
    else:
        yield name, value


def test_the_committed_world_is_fitted_to_the_committed_runs() -> None:
    experiment = read_yaml(WORKFLOW / "experiments" / "clock" / "calibrated.yaml")
    committed = World.model_validate(experiment["variants"]["clock"]["predicted"]["world"])
    run = Run.load(WORKFLOW / "recordings" / "clock" / "calibrated" / "fitted")
    found = calibrate([observe_run(run, "fitted", seed) for seed in run.scenario.seeds]).world()
    there, here = (dict(numbers(world.model_dump(mode="json"))) for world in (committed, found))
    assert there.keys() == here.keys()
    assert len(there) > 60
    for name, value in there.items():
        assert here[name] == (pytest.approx(value, rel=FOUR_DIGITS) if isinstance(value, float) else value), name
