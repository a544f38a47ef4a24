"""Labels from the gradient of the last layer."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncfl.audit.reconstruction.attacker import leaked_labels, share_right, share_right_by_chance
from asyncfl.learning import Layout, Mlp, Training, make_learner

SHAPE, CLASSES = (1, 4, 4), 6


def gradient_of(labels, hidden=(12,), seed=1):
    model = Mlp(hidden=hidden)
    learner = make_learner(model, Training(), SHAPE, CLASSES)
    generator = torch.Generator()
    generator.manual_seed(seed)
    base = model.initial_parameters(SHAPE, CLASSES, generator)
    images = np.random.default_rng(seed).random((len(labels), *SHAPE)).astype(np.float32)
    return learner.gradient(base, images, np.asarray(labels)), learner.layout


@given(st.integers(0, CLASSES - 1), st.integers(0, 5))
def test_the_label_of_one_image_is_always_found(label, seed):
    gradient, layout = gradient_of([label], seed=seed)
    assert leaked_labels(gradient, layout, 1).tolist() == [label]


@settings(max_examples=30)
@given(st.sets(st.integers(0, CLASSES - 1), min_size=2, max_size=3))
def test_labels_that_differ_are_found_in_a_fresh_network(labels):
    gradient, layout = gradient_of(sorted(labels))
    assert leaked_labels(gradient, layout, len(labels)).tolist() == sorted(labels)


def test_labels_by_hand():
    # Two classes besides a third: rows -0.6, -0.3, 0.9; impact (1 + 1/3)/3 * -0.9 = -0.4. The rows below 0 are found
    # once each and become -0.2 and 0.1, so the third label is again 0.
    layout = Layout.of([("last", {"weight": (3, 1)})])
    rows = np.array([-0.6, -0.3, 0.9])
    assert leaked_labels(rows, layout, 3).tolist() == [0, 0, 1]
    assert leaked_labels(1000 * rows, layout, 3).tolist() == [0, 0, 1]
    assert rows.tolist() == [-0.6, -0.3, 0.9]


def test_fewer_labels_than_rows_below_zero():
    layout = Layout.of([("last", {"weight": (3, 1)})])
    assert leaked_labels(np.array([-0.1, -0.3, -0.2]), layout, 2).tolist() == [1, 2]


def test_share_right_counts_labels_with_multiplicity():
    assert share_right(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 3])) == 0.5


def test_chance_equals_the_mean_over_drawn_labels():
    true = np.array([0, 0, 0, 2])
    random = np.random.default_rng(0)
    drawn = [share_right(random.integers(0, 3, 4), true) for _ in range(20_000)]
    assert share_right_by_chance(true, 3) == pytest.approx(np.mean(drawn), abs=0.01)
    # one label of ten: one in ten
    assert share_right_by_chance(np.array([7]), 10) == pytest.approx(0.1)
