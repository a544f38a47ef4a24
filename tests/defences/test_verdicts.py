"""What each rule makes of small buffers, and what each detector says of a row of them, against a written list.

Ties, stale and poisoned updates, some of weight 0, some far away, one huge. `python tests/defences/test_verdicts.py`
writes the list anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.defences import Buffer, Detector, Rule
from asyncfl.defences.spec import AnyDetector, AnyRule
from asyncfl.errors import AsyncflError
from asyncfl.testing import buffer, context, random, updates, weights

LIST = Path(__file__).with_name("verdicts.json")
RULES: list[dict[str, Any]] = [
    {"kind": "mean"},
    {"kind": "median"},
    {"kind": "trimmed_mean"},
    {"kind": "trimmed_mean", "byzantine": 2},
    {"kind": "krum"},
    {"kind": "krum", "byzantine": 1, "neighbours": "n-f-1"},
    {"kind": "multi_krum", "byzantine": 2},
    {"kind": "multi_krum", "byzantine": 1, "chosen": 3},
    {"kind": "bulyan", "byzantine": 1},
    {"kind": "geometric_median"},
    {"kind": "geometric_median", "iterations": 3, "smoothing": 0.1},
    {"kind": "centred_clipping"},
    {"kind": "centred_clipping", "radius": 1.5, "iterations": 3},
    {"kind": "norm_clipping"},
    {"kind": "norm_clipping", "bound": 2.0},
    {"kind": "basgd", "buffers": 3},
    {"kind": "basgd", "buffers": 4, "rule": {"kind": "krum", "byzantine": 1}},
    {"kind": "flame"},
    {"kind": "flame", "compare": "models", "noise_factor": 0.1},
    {"kind": "secure_afl"},
    {"kind": "secure_afl", "expected_share": 0.4, "pairs": 1, "bound": 0.5},
    {"kind": "fltrust"},
    {"kind": "fltrust", "server_steps": 2},
    {"kind": "median", "pre": [{"kind": "bucketing", "size": 3}]},
    {"kind": "median", "pre": [{"kind": "nearest_neighbours", "byzantine": 2}]},
    {"kind": "krum", "byzantine": 1, "pre": [{"kind": "nearest_neighbours"}, {"kind": "bucketing"}]},
]
DETECTORS: list[dict[str, Any]] = [
    {"kind": "safl"},
    {"kind": "safl", "decoys": 1, "flagged": "literal", "without_scores": "aggregate", "evaluators_tried": 1},
    {"kind": "spectral"},
    {"kind": "spectral", "coverage": 0.3, "enough": 4.0, "pool": 2, "sketch": 64},
    {"kind": "evidence"},
    {"kind": "kardam"},
    {"kind": "kardam", "dampening": "exponential", "expected_share": 0.3},
    {"kind": "kardam", "dampening": "inverse", "frequency_filter": False},
    {"kind": "async_filter"},
    {"kind": "async_filter", "clusters": "group", "smallest_group": 2, "memory_versions": 2},
    {"kind": "fldetector", "warm_up": 2},
    {"kind": "fldetector", "warm_up": 0, "window": 2, "references": 3},
    {"kind": "zeno++"},
    {"kind": "zeno++", "rho": 0.1, "epsilon": 0.5, "refresh": 2, "rate": 0.3},
    {"kind": "aflguard"},
    {"kind": "aflguard", "tolerance": 0.9, "refresh": 3, "server_steps": 2},
]
WHOLE = [[1, 2, 0], [1, 2, 0], [2, 1, 1], [0, 3, 1], [1, 1, -1], [2, 2, 2], [1, 3, 0], [-9, 4, 8], [0, 0, 0]]


def _name(fields: dict[str, Any]) -> str:
    return json.dumps(fields)


def _federation(clients: int, n_parameters: int) -> Any:
    return context(clients, n_parameters, root_gradient=lambda model: np.asarray(model - 1, np.float32))


def _buffers() -> Iterator[tuple[Buffer, Any]]:
    nine = buffer(WHOLE, staleness=[0, 1, 2, 0, 0, 1, 0, 3, 0], samples=[10, 10, 30, 20, 20, 40, 10, 50, 10])
    yield nine, weights(nine)
    one_less = weights(nine)
    one_less[3] = 0.0
    yield nine, one_less
    seven = buffer([[2, 0], [0, 2], [1, 1], [1, 1], [3, 3], [-1e6, 7], [1e20, 5]], clients=[0, 4, 4, 5, 6, 8, 8])
    yield seven, weights(7)
    yield buffer([[4.0, -2.0], [0.0, 2.0]]), np.array([0.25, 0.5])
    yield buffer([[3.0, 4.0]]), np.array([0.5])


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _aggregates(fields: dict[str, Any]) -> list[Any]:
    rule: Rule = TypeAdapter(AnyRule).validate_python(fields)
    made = []
    for held, factors in _buffers():
        n_parameters = held.models.shape[1]
        state = rule.start(_federation(9, n_parameters), random())
        try:
            first, state = rule.step(state, held, factors)
            again, _ = rule.step(state, held, factors)
        except (AsyncflError, ValueError) as error:
            made.append(str(error))
            continue
        made.append([first.update, first.weights, first.notes, again.update])
    return list(_plain(made))


def _answer(client: int, models: Any) -> Any:
    return None if client == 3 else 1 / (1 + np.abs(models - 1).mean(axis=1))


def _judgements(fields: dict[str, Any]) -> list[Any]:
    detector: Detector = TypeAdapter(AnyDetector).validate_python(fields)
    state = detector.start(_federation(12, 60), random())
    towards = np.sin(np.arange(60))
    said: list[Any] = []
    for version in range(9):
        n = (6, 8, 5, 9, 10, 4, 12, 7, 8)[version]
        deltas = updates(n, 60, poisoned=n // 4, seed=version, spread=0.3, centre=towards, poison=-2 * towards)
        ages = [min(row % 3, version) for row in range(n)]
        clients = [(row * 5 + version) % 10 for row in range(n)]
        noise = 0.3 if version > 5 else 0.0
        held = buffer(deltas, clients=clients, staleness=ages, version=version, current=0.1, upload_std=noise)
        tried: tuple[int, ...] = ()
        scores = None
        while scores is None:
            request, state = detector.request(state, held, tried)
            if request is None:
                break
            tried = (*tried, request.client)
            scores = _answer(request.client, request.models)
        verdict, state = detector.judge(state, held, scores)
        rest = [verdict.unjudged, verdict.weights, verdict.details, verdict.notes, tried]
        correction = None if verdict.correction is None else verdict.correction[:3]
        said.append([np.flatnonzero(verdict.flagged), np.flatnonzero(verdict.strikes), *rest, correction])
        if version == 4:
            state = detector.banned(state, 7)
    return list(_plain(said))


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


def _near(value: Any, expected: Any) -> bool:
    """Equal but for rounding: libraries add up in other orders."""
    if isinstance(expected, list):
        return isinstance(value, list) and len(value) == len(expected) and all(map(_near, value, expected))
    if isinstance(expected, dict):
        return list(value) == list(expected) and all(_near(value[key], expected[key]) for key in expected)
    if isinstance(expected, str):
        parts = [text.replace(",", "").split() for text in (value, expected)]
        return len(parts[0]) == len(parts[1]) and all(map(_near_word, *parts))
    if isinstance(expected, float):
        return bool(value == pytest.approx(expected, rel=2e-3, abs=1e-6, nan_ok=True))
    return bool(value == expected)


def _near_word(word: str, expected: str) -> bool:
    if word == expected or not expected[-1].isdigit():
        return word == expected
    last_digit = 10.0 ** -len(expected.partition(".")[2])
    return bool(float(word) == pytest.approx(float(expected), rel=2e-3, abs=1.1 * last_digit))


@pytest.mark.parametrize("fields", RULES, ids=_name)
def test_what_a_rule_makes_of_buffers(fields: dict[str, Any], written: dict[str, Any]) -> None:
    for found, expected in zip(_aggregates(fields), written[_name(fields)], strict=True):
        assert _near(found, expected), f"{found}, not {expected}"


@pytest.mark.parametrize("fields", DETECTORS, ids=_name)
def test_what_a_detector_says_of_buffers(fields: dict[str, Any], written: dict[str, Any]) -> None:
    for found, expected in zip(_judgements(fields), written[_name(fields)], strict=True):
        assert _near(found, expected), f"{found}, not {expected}"


if __name__ == "__main__":
    made = {_name(fields): _aggregates(fields) for fields in RULES}
    made |= {_name(fields): _judgements(fields) for fields in DETECTORS}
    parts = [json.dumps(name) + ": [\n" + ",\n".join(map(json.dumps, lines)) + "\n]" for name, lines in made.items()]
    LIST.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
