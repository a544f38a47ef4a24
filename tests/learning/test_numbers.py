"""What networks look like and cost, what noise is drawn and what a few steps come to, against a written list.

`python tests/learning/test_numbers.py` writes the list anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asyncfl.errors import ScenarioError
from asyncfl.learning import Architecture, Training, gram, make_learner, models
from asyncfl.learning.batched import schedule
from asyncfl.learning.dense import padded
from asyncfl.learning.job import Job
from asyncfl.learning.layout import Layout
from asyncfl.learning.noise import StandardLaplace, StandardNormal
from tests.written import compare, write

LIST = Path(__file__).with_name("numbers.json")
GREY, COLOURS, TINY, TEXT, ROW = (1, 28, 28), (3, 32, 32), (1, 3, 3), (80,), (7,)
MODELS: list[dict[str, Any]] = [
    {"kind": "mlp"}, {"kind": "mlp", "hidden": []}, {"kind": "mlp", "hidden": [30, 20]}, {"kind": "linear"},
    {"kind": "cnn"}, {"kind": "lenet"}, {"kind": "lenet", "channels": [4], "hidden": [8, 5]}, {"kind": "small_cnn"},
    {"kind": "small_cnn", "kernel": 5, "groups": 0, "hidden": [9]}, {"kind": "digits"}, {"kind": "resnet"},
    {"kind": "resnet", "depth": 14, "groups": 6}, {"kind": "resnet", "depth": 18},
    {"kind": "char_lstm", "layers": 3, "hidden": 10, "embedding": 4},
]  # fmt: skip
SMALL: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"kind": "mlp", "hidden": [6]}, (1, 4, 4)), ({"kind": "linear"}, ROW),
    ({"kind": "lenet", "channels": [3], "hidden": [5]}, (1, 8, 8)),
    ({"kind": "small_cnn", "channels": [4, 4], "groups": 2}, (2, 8, 8)), ({"kind": "resnet"}, (1, 8, 8)),
    ({"kind": "char_lstm", "hidden": 5}, (6,)),
]  # fmt: skip
TRAININGS: list[dict[str, Any]] = [
    {"lr": 0.1, "batch_size": 3}, {"lr": 0.1, "batch_size": "full", "momentum": 0.5, "epochs": 2},
    {"lr": 0.1, "batch_size": 4, "proximal_mu": 0.5, "gradient_clip": 0.2, "momentum": 0.3},
    {"lr": 0.1, "batch_size": 4, "example_clip": 0.5, "example_noise": 0.3},
]  # fmt: skip


def _model(fields: dict[str, Any]) -> Architecture:
    kinds = {kind.model_fields["kind"].default: kind for kind in (getattr(models, name) for name in models.__all__)}
    model: Architecture = kinds[fields["kind"]].model_validate(fields)
    return model


def _initial(model: Architecture, shape: tuple[int, ...]) -> Any:
    generator = torch.Generator()
    generator.manual_seed(3)
    return model.initial_parameters(shape, 5, generator)


def _looks(fields: dict[str, Any], shape: tuple[int, ...]) -> Any:
    model = _model(fields)
    if faults := [str(fault) for fault in model.faults(shape, 10)]:
        return faults
    try:
        layout = model.layout(shape, 10)
    except ScenarioError as error:
        return str(error)
    return [
        layout.n_parameters,
        model.seconds_per_sample(shape, 10),
        [(one.name, one.start, one.shapes) for one in layout.layers],
    ]


def _trained(fields: dict[str, Any], shape: tuple[int, ...], training: dict[str, Any]) -> Any:
    model, random = _model(fields), np.random.default_rng(1)
    learner = make_learner(model, Training(**training), shape, 5)
    base, count = _initial(model, shape), 10
    images = random.normal(0, 1, (count, *shape)).astype(np.float32)
    if fields["kind"] == "char_lstm":
        images = random.integers(0, 5, (count, *shape)).astype(np.float32)
    labels = random.integers(0, 5, count)
    order = np.stack([random.permutation(count) for _ in range(learner.training.epochs)])
    rows = np.zeros((1, len(base)), np.float32)
    noise = np.random.Philox(5) if training.get("example_noise") else None
    losses = learner.train(rows, [Job(base, images, labels, order, noise)])
    row = rows[0].astype(np.float64)
    gradient = learner.gradient(base, images, labels).astype(np.float64)
    told = [
        learner.evaluate(rows[0], images, labels),
        learner.losses(rows[0], images, labels),
        learner.outputs(rows[0], images),
    ]
    slopes = learner.slopes(base, rows[0] - base, images, labels)
    accuracies = learner.accuracies(np.stack([base, rows[0]]), images, labels)
    return [
        losses,
        row - base,
        np.abs(row - base),
        np.abs(gradient),
        told,
        slopes,
        accuracies,
        learner.description["path"],
    ]


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    for fields in MODELS:
        for shape in (GREY, COLOURS, TINY, TEXT):
            yield f"{fields} of {shape}", partial(_looks, fields, shape)
    for fields, shape in SMALL:
        yield f"{fields} at the start", lambda fields=fields, shape=shape: np.abs(_initial(_model(fields), shape))
        for training in TRAININGS:
            if fields["kind"] in ("mlp", "lenet") or training is TRAININGS[0]:
                yield f"{fields} after {training}", partial(_trained, fields, shape, training)
    for training in TRAININGS:
        made = Training(**training)
        yield f"steps {training}", lambda one=made: [
            *([one.batch_of(n), one.steps(n)] for n in (1, 3, 4, 10)),
            *(gram.cost((9, 8, 4), one, n) for n in (3, 50)),
        ]  # fmt: skip
    for seed in (0, 1):
        yield f"normal {seed}", lambda seed=seed: _drawn(StandardNormal, seed)
        yield f"laplace {seed}", lambda seed=seed: _drawn(StandardLaplace, seed)
    yield "padded", lambda: [padded(n) for n in (1, 15, 16, 17, 784)]
    job = Job(np.zeros(2, np.float32), np.zeros((5, 1), np.float32), np.zeros(5, np.int64), np.array([[4, 3, 2, 1, 0]]))
    short = Job(np.zeros(2, np.float32), np.zeros((3, 1), np.float32), np.zeros(3, np.int64), np.array([[1, 0, 2]]))
    yield (
        "schedule",
        lambda: [schedule([job, short], Training(batch_size=2)), schedule([job], Training(batch_size="full"))],
    )
    layout = Layout.of([("a", {"weight": (4, 3), "bias": (4,)}), ("b", {"weight": (5,)})])
    yield "layout", lambda: [
        layout.n_parameters, [(name, part.start, part.stop, shape) for name, part, shape in layout.parameters()],
        [(one.bias_start, one.stop, one.is_plain, one.weight_shape, one.bias_shape) for one in layout.layers],
    ]  # fmt: skip


def _drawn(kind: Any, seed: int) -> Any:
    source = kind(np.random.Philox(seed), 2000)
    first = source.draw().astype(np.float64)
    return [first[:12], np.abs(first), source.draw()[:3].astype(np.float64)]


CALLS = dict(_calls())


@pytest.mark.parametrize("name", CALLS)
def test_no_number_moves(name: str) -> None:
    compare(LIST, name, CALLS[name], rel=3e-4)


if __name__ == "__main__":
    write(LIST, CALLS)
