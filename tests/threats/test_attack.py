"""What every attack must keep to, and what an attack does that says nothing."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.threats import AnyAttack, Attack

KINDS = [
    {"kind": "sign_flip"},
    {"kind": "sign_flip", "of": "model"},
    {"kind": "sign_flip", "of": "mean", "knowledge": "colluders"},
    {"kind": "label_flip"},
    {"kind": "label_flip", "source_class": 1, "target_class": 2},
    {"kind": "gaussian"},
    {"kind": "gaussian", "of": "model"},
    {"kind": "alie", "z": 1.5},
    {"kind": "alie", "knowledge": "buffer"},
    {"kind": "ipm"},
    {"kind": "ipm", "knowledge": "own"},
    {"kind": "min_max"},
    {"kind": "min_max", "direction": "unit", "knowledge": "buffer"},
    {"kind": "min_sum", "direction": "sign"},
    {"kind": "min_sum", "knowledge": "own", "alone": "flip"},
    {"kind": "mimic"},
    {"kind": "mimic", "victim": "outlying"},
    {"kind": "scaling"},
    {"kind": "scaling", "factor": "replacement"},
    {"kind": "backdoor", "side": 2},
    {"kind": "backdoor", "factor": 4.0, "value": 2.5, "corner": "top_left"},
    {"kind": "non_finite"},
    {"kind": "wrong_length"},
    {"kind": "free_rider"},
    {"kind": "free_rider", "model": "newest", "std": 0.1},
    {"kind": "lying_evaluator"},
    {"kind": "lying_evaluator", "answer": "mirror", "decoy_score": 0.2},
    {"kind": "flooding"},
    {"kind": "evaluator_bait", "factor": 10.0},
    {"kind": "evaluator_bait", "model": "newest"},
    {"kind": "adaptive", "attack": {"kind": "sign_flip", "factor": 5.0}},
    {"kind": "adaptive", "attack": {"kind": "gaussian"}, "knowledge": "own"},
    {"kind": "combined", "attacks": [{"kind": "label_flip"}, {"kind": "flooding"}, {"kind": "lying_evaluator"}]},
    {"kind": "combined", "attacks": [{"kind": "ipm"}, {"kind": "adaptive", "attack": {"kind": "scaling"}}]},
]
RANDOM = {"gaussian", "free_rider"}
DEPENDS_ON_ORDER = {"mimic"}

read = TypeAdapter(AnyAttack).validate_python
every_attack = pytest.mark.parametrize("description", KINDS, ids=lambda d: "-".join(map(str, d.values()))[:40])


def is_random(description):
    return description["kind"] in RANDOM or description.get("attack", {}).get("kind") in RANDOM


def uploads(attack, view):
    crafted = attack.craft(view)
    return view.honest if crafted is None else crafted


@every_attack
def test_uploads_have_the_shape_of_updates_and_inputs_stay(description, make_view):
    view = make_view(others=[[1, 1, 1, 1], [2, 2, 2, -2]])
    before = [array.copy() for array in (view.honest, view.known, view.bases, view.current)]
    crafted = uploads(read(description), view)
    assert crafted.shape == view.honest.shape
    assert crafted.dtype == np.float32
    for array, was in zip((view.honest, view.known, view.bases, view.current), before, strict=True):
        np.testing.assert_array_equal(array, was)


@every_attack
def test_poisoned_data_have_the_same_shape_and_inputs_stay(description):
    rng = np.random.default_rng(0)
    images = rng.normal(size=(12, 1, 6, 6)).astype(np.float32)
    labels = rng.integers(0, 10, 12)
    images.flags.writeable = labels.flags.writeable = False
    poisoned, flipped = read(description).poison(images, labels, 10, np.random.default_rng(1))
    assert poisoned.shape == images.shape
    assert poisoned.dtype == np.float32
    assert flipped.shape == labels.shape
    assert flipped.dtype == np.int64
    assert 0 <= flipped.min() <= flipped.max() <= 9


@every_attack
def test_order_in_the_buffer_does_not_matter(description, make_view):
    if is_random(description) or description["kind"] in DEPENDS_ON_ORDER:
        return
    attack, order = read(description), [2, 0, 3, 1]
    view = make_view(others=[[1, 1, 1, 1], [3, 0, 1, 2], [1, -1, 1, 0]])
    moved = replace(view, honest=view.honest[order], bases=view.bases[order], known=view.known[[2, 0, 1]])
    np.testing.assert_allclose(uploads(attack, moved), uploads(attack, view)[order], rtol=1e-5, atol=1e-5)


@every_attack
def test_a_buffer_without_attackers_gives_no_upload(description, make_view):
    view = make_view(honest=np.empty((0, 4)), others=[[1, 1, 1, 1]])
    assert uploads(read(description), view).shape == (0, 4)


@every_attack
def test_diverged_updates_of_others_are_ignored(description, make_view):
    if description["kind"] == "non_finite":
        return
    view = make_view(others=[[np.nan, 1, np.inf, 1], [1, 1, 1, 1]])
    assert np.isfinite(uploads(read(description), view)).all()


def test_base_attack_is_honest(make_view):
    attack, view = Attack(), make_view()
    images, labels = np.zeros((2, 1, 3, 3), np.float32), np.array([0, 1])
    assert attack.poison(images, labels, 10, np.random.default_rng(0))[1] is labels
    assert attack.craft(view) is None
    assert (attack.rate, attack.length_error, attack.lies, attack.target) == (1.0, 0, False, None)
    assert attack.triggered(images) is None
    assert attack.sees == "own"
    assert list(attack.faults(10, (1, 28, 28))) == []
    assert view.attackers == 4


@pytest.mark.parametrize(
    "faulty",
    [
        {"kind": "no_such_attack"},
        {"kind": "sign_flip", "factor": 0},
        {"kind": "sign_flip", "of": "gradient"},
        {"kind": "gaussian", "std": -1},
        {"kind": "gaussian", "std": float("inf")},
        {"kind": "alie", "z": -1},
        {"kind": "alie", "knowledge": "all"},
        {"kind": "ipm", "tau": 0},
        {"kind": "scaling", "factor": 0},
        {"kind": "scaling", "factor": "big"},
        {"kind": "backdoor", "poison_share": 0},
        {"kind": "backdoor", "corner": "middle"},
        {"kind": "non_finite", "value": "1"},
        {"kind": "wrong_length", "off_by": 0},
        {"kind": "free_rider", "std": -0.1},
        {"kind": "lying_evaluator", "decoy_score": 1.0},
        {"kind": "flooding", "times": 0.5},
        {"kind": "evaluator_bait", "factor": -1},
        {"kind": "adaptive", "attack": {"kind": "ipm"}, "alignment": 2},
        {"kind": "adaptive"},
        {"kind": "combined", "attacks": []},
        {"kind": "label_flip", "tau": 1},
    ],
)
def test_invalid_settings_are_refused(faulty):
    with pytest.raises(ValueError, match="validation error"):
        read(faulty)
