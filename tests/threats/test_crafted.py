"""What each attack makes of small buffers, images and scores, against a written list.

`python tests/threats/test_crafted.py` writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.testing import random, view
from asyncfl.threats import AnyAttack, Attack

LIST = Path(__file__).with_name("crafted.json")
ATTACKS: list[dict[str, Any]] = [
    {"kind": "alie"},
    {"kind": "alie", "z": 1.5, "knowledge": "buffer"},
    {"kind": "alie", "knowledge": "own", "alone": "flip"},
    {"kind": "backdoor"},
    {
        "kind": "backdoor",
        "corner": "top_left",
        "side": 2,
        "margin": 0,
        "value": 0.5,
        "factor": 3.0,
        "poison_share": 0.2,
    },
    {"kind": "evaluator_bait"},
    {"kind": "evaluator_bait", "factor": 0.5, "model": "newest"},
    {"kind": "flooding"},
    {"kind": "free_rider", "std": 0.5},
    {"kind": "free_rider", "model": "newest"},
    {"kind": "gaussian"},
    {"kind": "gaussian", "of": "model", "std": 2.0},
    {"kind": "ipm"},
    {"kind": "ipm", "tau": 0.5, "knowledge": "buffer"},
    {"kind": "label_flip"},
    {"kind": "label_flip", "source_class": 7, "target_class": 1},
    {"kind": "lying_evaluator"},
    {"kind": "lying_evaluator", "answer": "mirror", "decoy_score": 0.2},
    {"kind": "mimic"},
    {"kind": "mimic", "victim": "outlying"},
    {"kind": "min_max"},
    {"kind": "min_max", "direction": "sign", "knowledge": "buffer"},
    {"kind": "min_sum"},
    {"kind": "min_sum", "direction": "unit", "knowledge": "buffer"},
    {"kind": "non_finite", "share": 0.5, "value": "inf"},
    {"kind": "scaling"},
    {"kind": "scaling", "factor": "replacement"},
    {"kind": "sign_flip"},
    {"kind": "sign_flip", "factor": 4.0, "of": "model"},
    {"kind": "sign_flip", "factor": 2.0, "of": "mean", "knowledge": "buffer"},
    {"kind": "wrong_length", "off_by": -2},
    {"kind": "adaptive", "attack": {"kind": "sign_flip", "factor": 5.0}},
    {"kind": "adaptive", "attack": {"kind": "alie"}, "alignment": 0.9, "length": 2.0, "knowledge": "colluders"},
    {"kind": "adaptive", "attack": {"kind": "sign_flip"}, "knowledge": "own"},
    {"kind": "combined", "attacks": [{"kind": "label_flip"}, {"kind": "scaling"}]},
]
HONEST = [[1.0, 2.0, -3.0, 0.5], [2.0, 0.0, -1.0, 0.25], [0.0, 1.0, -2.0, 4.0]]
OTHERS = [
    [1.0, 1.0, -2.0, 1.0],
    [1.5, 1.0, -2.5, 0.0],
    [0.5, 3.0, -2.0, 1.0],
    [1.0, 2.0, -1.0, 2.0],
    [3.0, 0.0, 0.0, 0.0],
]
SCORES = np.array([0.0, 0.1, 0.2, 0.35, 0.7, 0.9])


def _name(fields: dict[str, Any]) -> str:
    return json.dumps(fields)


def _views(sees: str) -> list[Any]:
    made = []
    for honest, others in ((HONEST, OTHERS), (HONEST[:1], OTHERS), (HONEST[:1], OTHERS[:1]), (np.zeros((2, 4)), [])):
        own = np.asarray(honest, dtype=np.float32)
        seen = {"own": np.empty((0, 4)), "colluders": own, "buffer": others}[sees]
        bases = np.arange(own.size).reshape(own.shape) / 8
        made.append(view(own, seen, current=[1, 2, 3, 4], bases=bases, collected=len(own) + len(others)))
    return made


def _crafted(fields: dict[str, Any]) -> dict[str, Any]:
    attack: Attack = TypeAdapter(AnyAttack).validate_python(fields)
    images = np.linspace(0, 1, 10 * 36, dtype=np.float32).reshape(10, 1, 6, 6)
    poisoned, labels = attack.poison(images, np.arange(10), 10, random(1))
    marked = attack.triggered(images[:2])
    crafted = [attack.craft(seen) for seen in _views(attack.sees)]
    return {
        "uploads": [None if rows is None else np.round(rows.astype(np.float64), 5).tolist() for rows in crafted],
        "labels": labels.tolist(),
        "images": [round(float(one.sum()), 3) for one in poisoned],
        "marked": None
        if marked is None
        else [round(float(one[0, row].sum()), 3) for one in marked for row in range(6)],
        "answers": np.round(attack.lie(SCORES, random(2)), 6).tolist(),
        "says": [attack.sees, attack.lies, attack.rate, attack.target, attack.length_error],
        "faults": [str(fault) for shape in ((1, 2, 9), (1, 4, 4)) for fault in attack.faults(1, shape)],
    }


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("fields", ATTACKS, ids=_name)
def test_what_an_attack_does(fields: dict[str, Any], written: dict[str, Any]) -> None:
    found, expected = _crafted(fields), written[_name(fields)]
    for rows, there in zip(found.pop("uploads"), expected.pop("uploads"), strict=True):
        assert (rows is None) == (there is None)
        assert rows is None or np.allclose(rows, there, rtol=1e-4, atol=1e-4, equal_nan=True), f"{rows}, not {there}"
    for name in ("images", "marked", "answers"):
        assert found.pop(name) == pytest.approx(expected.pop(name), abs=2e-3)
    assert found == expected


if __name__ == "__main__":
    lines = [f"{json.dumps(_name(fields))}: {json.dumps(_crafted(fields))}" for fields in ATTACKS]
    LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
