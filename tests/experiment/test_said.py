"""What is said of experiments with a mistake in them, and what sound ones are made of, against a written list.

`python tests/experiment/test_said.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from asyncfl.errors import InputError
from asyncfl.experiment.cells import cells
from asyncfl.experiment.loading import load
from asyncfl.files.yaml_text import write_text

LIST = Path(__file__).with_name("said.json")
EPSILON = "privacy.epsilon"
BASE: dict[str, Any] = {
    "title": "Loss by budget",
    "source": {"paper": "nbafl", "figure": 2},
    "scenario": {
        "data": {"dataset": "mnist", "clients": 6, "samples_per_client": 20, "source": "embedded", "test_samples": 30},
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {"lr": 0.05},
        "protocol": {"kind": "sync", "rounds": 4},
        "privacy": {"kind": "nbafl", "epsilon": 60.0},
    },
    "axes": {EPSILON: [50, 60, 100], "data.clients": [4, 6]},
    "variants": {"speed": {"slow": {"world.device": {"kind": "fixed", "s_per_sample": 0.5}}, "fast": {"seeds": 3}}},
    "seeds": {"quick": 2, "full": 4},
    "figures": [{"kind": "curves", "hue": EPSILON, "panels": "data.clients", "name": "a", "where": {"speed": "slow"}}],
    "tables": [{"rows": EPSILON, "columns": "speed", "where": {"data.clients": 4}}],
    "targets": {"rounds_to_80": {"cost": "round", "reaches": 0.8}},
    "bounds": {"b": {"theorem": 2, "axes": {"rounds": {"from": 10, "to": 12}, "clients": [40, 50]}}},
    "claims": [{"check": "order", "along": EPSILON, "says": "the loss falls", "where": {"data.clients": [4, 6]}}],
    "quick": {"protocol.rounds": 3, f"axes.{EPSILON}": [50, 100], "variants.speed.slow.training.lr": 0.1},
}
CHANGES: list[tuple[str, Any]] = [
    ("title", "Another title"),
    ("titel", "x"),
    ("source", {"paper": "safl"}),
    ("source.paper", "nobody"),
    ("axes.privacy.epsilom", [1, 2]),
    (f"axes/{EPSILON}", []),
    (f"axes/{EPSILON}", [50, 50, 100]),
    (f"axes/{EPSILON}", [50, 60, 100, -1]),
    (f"axes/{EPSILON}", list(range(1, 5_001))),
    ("axes/speed", [1]),
    ("variants.speed.slow", {"world.devise": 3}),
    ("variants.speed.slow", {"data.clients": 0}),
    ("variants.speed", {}),
    ("seeds.quick", 0),
    ("seeds.quick", 4),
    ("seeds.full", 1),
    ("figures.0.hue", "privacy.epsilo"),
    ("figures.0.hue", None),
    ("figures.0.panels", None),
    ("figures.0.kind", "curve"),
    ("figures.0.y", "train_los"),
    ("figures.0.x", "nonsense"),
    ("figures.0.where", {"speed": "slo"}),
    ("figures.0.where", {"sped": "slow"}),
    ("figures.0.where", {}),
    ("figures.0.name", "table"),
    ("tables.0.value", "test_acuracy"),
    ("tables.0.values", ["train_loss"]),
    ("tables.0.where", {"data.clients": 5}),
    ("tables.0.where", {}),
    ("tables.0.name", "a"),
    ("targets", {"time_to_80": {"cost": "round", "reaches": 0.8}}),
    ("targets", {"bytes_to_80": {"cost": "bytes", "reaches": 0.8, "column": "test_acuracy"}}),
    ("targets", {"time_to-80": {"reaches": 0.8}}),
    ("bounds.b.theorem", 3),
    ("bounds.b.axes", {"rounds": {"from": 10, "to": 12}, "client": [40]}),
    ("claims.0.along", "privacy.eps"),
    ("claims.0.where", {"data.clients": [4, 5]}),
    ("claims.0.value", "final train_los"),
    ("claims.0.value", "round 4 train_loss"),
    ("claims.0.value", "round 5 train_loss"),
    ("claims.0.value", "last train_loss"),
    ("claims.0.value", "best data.clients of final train_loss"),
    ("claims.0.value", "best data.client of final train_loss"),
    ("claims.0.bound", "c"),
    ("claims.0.bound", "b"),
    ("claims.0.check", "ordr"),
    ("claims.0.strict", 1),
    ("claims.0", {"check": "crossover", "along": EPSILON, "early": 50, "late": 61, "rounds": [1, 9], "says": "x"}),
    ("claims.0", {"check": "best_at", "along": EPSILON, "at": 61, "says": "x"}),
    ("quick", {}),
    ("quick/protocol.rounds", 9),
    ("quick/protocol.round", 9),
    (f"quick/axes.{EPSILON}", [50, 61]),
    (f"quick/axes.{EPSILON}", 50),
    ("quick/axes.privacy.eps", [50]),
    ("quick/variants.speed", ["fast"]),
    ("quick/variants.speed.slo.training.lr", 0.1),
    ("scenario.protocol.rounds", 0),
    ("scenario.training.lr", "much"),
    ("scenario", None),
]


def _changed(place: str, value: Any) -> dict[str, Any]:
    """The experiment with another value at a place; after a slash comes a name with dots in it."""
    described = copy.deepcopy(BASE)
    path, slash, name = place.partition("/")
    steps = [*path.split("."), *([name] if slash else [])]
    if place.startswith("axes.privacy"):
        steps = ["axes", place.removeprefix("axes.")]
    at: Any = described
    for step in steps[:-1]:
        at = at[int(step)] if step.isdigit() else at[step]
    if isinstance(at, list):
        at[int(steps[-1])] = value
    else:
        at[steps[-1]] = value
    return described


def _said(place: str, value: Any, folder: Path) -> list[Any]:
    """The faults of an experiment, or its grids, what the quick scale lowers, and its numbers of cells and seeds."""
    file = folder / "e.yaml"
    file.write_text(write_text(_changed(place, value)), encoding="utf-8")
    try:
        found = load(file)
    except InputError as error:
        return [str(fault) for fault in error.faults]
    scales = ("quick", "full")
    counts = [[len(list(cells(found, scale))), list(found.seed_counts(scale))] for scale in scales]  # type: ignore[arg-type]
    grids = [[[axis, list(values)] for axis, values in found.grid(scale).items()] for scale in scales]  # type: ignore[arg-type]
    return [str(found.source), counts, grids, list(found.lowered("quick")), [one.name for one in found.all_figures]]


def _name(place: str, value: Any) -> str:
    return f"{place}: {json.dumps(value)[:60]}"


@pytest.mark.parametrize(("place", "value"), CHANGES, ids=[_name(*change) for change in CHANGES])
def test_what_is_said_is_what_is_written_down(place: str, value: Any, tmp_path: Path) -> None:
    written = json.loads(LIST.read_text(encoding="utf-8"))[_name(place, value)]
    assert json.loads(json.dumps(_said(place, value, tmp_path))) == written


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        lines = [
            f"{json.dumps(_name(*change))}: {json.dumps(_said(*change, Path(made)), ensure_ascii=False)}"
            for change in CHANGES
        ]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
