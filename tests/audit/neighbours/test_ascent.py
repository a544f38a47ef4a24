"""Gradient ascent on a softmax regression, whose gradients have a closed form."""

from typing import Any

import numpy as np
import pytest

from asyncfl.audit.neighbours.data import PART, STEPS, furthest
from asyncfl.learning import Mlp, Training, make_learner

SHAPE, CLASSES = (1, 2, 2), 3
LOW, HIGH = np.full((1, 1, 1), -0.5, np.float32), np.full((1, 1, 1), 1.5, np.float32)
MODEL = np.linspace(-0.4, 0.5, CLASSES * 4 + CLASSES).astype(np.float32)
REPLACED: tuple[Any, Any] = np.float32([[[0.1, 0.9], [0.4, 0.2]]]), 2
START = np.float32([[[0.3, 0.5], [0.7, 0.6]]])


def gradient(image: Any, label: int) -> Any:
    """Of the cross-entropy by the weights (classes, pixels) and biases, as one vector."""
    x = image.reshape(-1).astype(np.float64)
    logits = MODEL[:12].reshape(3, 4).astype(np.float64) @ x + MODEL[12:]
    error = np.exp(logits) / np.exp(logits).sum() - np.eye(3)[label]
    return np.concatenate([np.outer(error, x).ravel(), error])


def distance(image: Any, label: int) -> float:
    return float(np.sum((gradient(image, label) - gradient(*REPLACED)) ** 2))


@pytest.fixture(scope="module")
def found() -> tuple[Any, Any]:
    learner = make_learner(Mlp(hidden=()), Training(), SHAPE, CLASSES)
    return furthest(learner, MODEL, REPLACED, START, LOW, HIGH, range(CLASSES))


def test_the_label_with_the_largest_distance_at_the_start_is_chosen(found: tuple[Any, Any]) -> None:
    assert found[1] == max(range(CLASSES), key=lambda label: distance(START, label))


def test_ascent_follows_the_sign_of_the_slope_and_keeps_the_best_point(found: tuple[Any, Any]) -> None:
    """The same ascent with slopes by differences: first steps of a quarter of the range, the last a tenth as long."""
    label, at, best = found[1], START.astype(np.float64), (-1.0, START.astype(np.float64))
    for step in range(STEPS + 1):
        value = distance(at, label)
        if value > best[0]:
            best = value, at
        slope = np.zeros_like(at)
        for place in np.ndindex(at.shape):
            more, less = at.copy(), at.copy()
            more[place] += 1e-6
            less[place] -= 1e-6
            slope[place] = distance(more, label) - distance(less, label)
        at = np.clip(at + PART * 2.0 * 0.1 ** (step / STEPS) * np.sign(slope), -0.5, 1.5)
    assert found[0] == pytest.approx(best[1], abs=1e-5)
    assert found[0].dtype == np.float32
    assert distance(found[0], label) > distance(START, label)
