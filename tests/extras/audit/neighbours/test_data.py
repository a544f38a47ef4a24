"""Neighbouring data: how many of which kind, what they are made of, and what a client trains on instead of its own."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncfl.extras.audit.neighbours.data import PART, STEPS, Neighbour, furthest, neighbours
from asyncfl.learning import Mlp, Training, make_learner
from asyncfl.measurements import OF_CLIENTS, OF_SAMPLES

LOW, HIGH = np.full((1, 1, 1), -1.0, np.float32), np.full((1, 1, 1), 2.0, np.float32)
SIZES = [3, 2, 5]


def federated(classes: int | None = 4, clients: int = 3) -> Any:
    """Client c holds images c + place/10 in classes place % 4; domain 1 has images 100 and 101 in classes 2 and 3."""

    def client(number: int) -> tuple[Any, Any]:
        size = SIZES[number % 3]
        return np.float32(number + np.arange(size) / 10).reshape(-1, 1, 1, 1), np.arange(size) % 4

    pool = np.float32([100, 101]).reshape(-1, 1, 1, 1)
    return SimpleNamespace(
        clients=clients,
        classes=classes,
        client_domains=np.ones(clients, int),
        client=client,
        samples=lambda number: SIZES[number % 3],
        test_of=lambda domain: (pool, np.array([2, 3]) if classes else np.array([[0.5], [1.5]])) if domain else None,
        feature_range=lambda: (LOW, HIGH),
        random_wrong_label=lambda label, random: (label + 1) % 4 if classes else label + 10,
    )


def found(kinds: tuple[Any, ...], twins: int, **of: Any) -> list[Neighbour]:
    return list(neighbours(federated(**of), 0, kinds, twins, np.random.default_rng(0)))


def test_twins_are_shared_among_the_kinds() -> None:
    every = found((*OF_SAMPLES, *OF_CLIENTS), 7 * 11 + 6, clients=12)
    assert [one.number for one in every] == list(range(len(every)))
    expected = {
        "ordinary": 11,
        "mislabelled": 11,
        "noise": 11,
        "brightest": 11,
        "ascent": 8,
        "exchanged": 8,
        "zeroed": 1,
    }
    assert Counter(one.kind for one in every) == expected
    few = found(("ascent", "exchanged", "zeroed", "noise"), 11, clients=12)
    assert Counter(one.kind for one in few) == {"ascent": 2, "exchanged": 2, "zeroed": 1, "noise": 2}
    assert len(found((*OF_SAMPLES, *OF_CLIENTS), 1)) == 7
    assert len(found(("exchanged",), 50)) == 2


@pytest.mark.parametrize("kind", OF_SAMPLES)
def test_each_kind_replaces_a_sample_in_its_way(kind: Any) -> None:
    made = found((kind,), 8)
    assert {one.sample for one in made} == {0, 1, 2}
    assert {one.partner for one in made} == {-1}
    for one in made:
        assert one.image is not None
        assert one.image.dtype == np.float32
        assert one.image.shape == (1, 1, 1)
        value = one.image.item()
        if kind in ("ordinary", "mislabelled"):
            # Of the test images 100 and 101, whose classes are 2 and 3.
            right = kind == "ordinary"
            assert one.label == ({100.0: 2, 101.0: 3} if right else {100.0: 3, 101.0: 0})[value]
        elif kind == "noise":
            assert -1 <= value < 2
            assert one.label in (3, 0)
        else:
            assert value == 2.0
            assert one.label in (3, 0)
        assert isinstance(one.label, int)
    assert {one.label for one in made} == ({2, 3} if kind == "ordinary" else {3, 0})
    if kind == "noise":
        assert len({one.image.item() for one in made if one.image is not None}) == 8


def test_a_neighbour_changes_the_data_of_its_client() -> None:
    data = federated()
    own, labels = data.client(0)
    image = np.full((1, 1, 1), 9, np.float32)
    images, named = Neighbour("noise", 0, sample=1, image=image, label=3).data(data, 0)
    assert images.ravel() == pytest.approx([0.0, 9.0, 0.2])
    assert named.tolist() == [0, 3, 2]
    assert own.ravel() == pytest.approx([0.0, 0.1, 0.2])
    # Of two samples the first comes twice, of five the first three are taken.
    images, named = Neighbour("exchanged", 0, partner=1).data(data, 0)
    assert images.ravel() == pytest.approx([1.0, 1.1, 1.0])
    assert named.tolist() == [0, 1, 0]
    images, _ = Neighbour("exchanged", 0, partner=2).data(data, 0)
    assert images.ravel() == pytest.approx([2.0, 2.1, 2.2])
    images, named = Neighbour("exchanged", 0, partner=0).data(data, 1)
    assert images.ravel() == pytest.approx([0.0, 0.1])
    images, named = Neighbour("zeroed", 0).data(data, 0)
    assert images.ravel() == pytest.approx(own.ravel())
    assert named.tolist() == labels.tolist()


SHAPE, CLASSES = (1, 2, 2), 3
LEAST, MOST = np.full((1, 1, 1), -0.5, np.float32), np.full((1, 1, 1), 1.5, np.float32)
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
def climbed() -> tuple[Any, Any]:
    learner = make_learner(Mlp(hidden=()), Training(), SHAPE, CLASSES)
    return furthest(learner, MODEL, REPLACED, START, LEAST, MOST, range(CLASSES))


def test_the_label_with_the_largest_distance_at_the_start_is_chosen(climbed: tuple[Any, Any]) -> None:
    assert climbed[1] == max(range(CLASSES), key=lambda label: distance(START, label))


def test_ascent_follows_the_sign_of_the_slope_and_keeps_the_best_point(climbed: tuple[Any, Any]) -> None:
    """The same ascent with slopes by differences: first steps of a quarter of the range, the last a tenth as long."""
    label, at, best = climbed[1], START.astype(np.float64), (-1.0, START.astype(np.float64))
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
    assert climbed[0] == pytest.approx(best[1], abs=1e-5)
    assert climbed[0].dtype == np.float32
    assert distance(climbed[0], label) > distance(START, label)
