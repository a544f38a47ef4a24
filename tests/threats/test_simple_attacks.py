"""Attacks on their own: uploads by hand and as byzfl 0.0.11 makes them, labels, scores, and refused settings."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.threats import (
    AnyAttack,
    EvaluatorBait,
    FreeRider,
    Gaussian,
    Ipm,
    LabelFlip,
    LyingEvaluator,
    Mimic,
    NonFinite,
    Scaling,
    SignFlip,
)

OTHERS = [[9, 9, 9, 9]]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("attack", "given", "expected"),
    [
        (Ipm(tau=1.5), {"others": OTHERS}, [[-2.4375, -0.375, 2.25, -1.40625]] * 4),  # byzfl
        (SignFlip(of="mean", knowledge="colluders"), {}, [[-1.625, -0.25, 1.5, -0.9375]] * 4),  # byzfl
        (Mimic(), {"honest": [[7, 7]] * 2, "others": [[0, 1], [2, 0.25]]}, [[0, 1]] * 2),  # byzfl
        (Mimic(knowledge="colluders"), {"honest": [[1, 2], [3, 4]], "others": [[7, 7]]}, [[1, 2]] * 2),
        # Farthest along the first principal component.
        (
            Mimic(victim="outlying"),
            {"honest": [[99, 0]] * 2, "others": [[0, 0.1], [1, -0.2], [-2, 0.3], [9, 0], [0, 5]]},
            [[9, 0]] * 2,
        ),
        (SignFlip(factor=3), {"honest": [[1, -2]]}, [[-3, 6]]),
        # Models (0, 1) + (1, -2) are negated twice over.
        (SignFlip(of="model", factor=2), {"honest": [[1, -2]]}, [[-2 - 0, 2 - 1]]),
        (Scaling(), {"honest": [[1, -2]]}, [[10, -20]]),
        (Scaling(factor=1e30), {"honest": [[1e20, -1e20, 0.0]]}, [[np.inf, -np.inf, 0]]),
        # An attacker with a diverged update uploads it.
        (Ipm(tau=1, knowledge="own"), {"honest": [[np.nan, 1], [2, 2]]}, [[np.nan, 1], [-2, -2]]),
        (FreeRider(), {"honest": [[5, 5]]}, [[0, 0]]),
        (FreeRider(model="newest"), {"honest": [[5, 5]], "bases": [[1, 2]], "current": [4, 4]}, [[3, 2]]),
        (EvaluatorBait(factor=10), {"honest": [[5, 5]], "bases": [[1, 2]]}, [[9, 18]]),
        (
            EvaluatorBait(factor=10, model="newest"),
            {"honest": [[5, 5]], "bases": [[1, 2]], "current": [4, 3]},
            [[39, 28]],
        ),
    ],
)
def test_uploads_by_hand_and_like_byzfl(make_view, attack, given, expected):
    np.testing.assert_allclose(attack.craft(make_view(**given)), expected, rtol=1e-6)


def test_mean_reverses_above_the_published_bound_of_ipm(make_view):
    honest = np.array([[1.0, 2.0]] * 6)
    bound = 6 / 4
    for tau, turned in [(bound - 0.01, False), (bound + 0.01, True)]:
        crafted = Ipm(tau=tau).craft(make_view(honest=honest[:4]))
        assert ((np.concatenate([honest, crafted]).mean(axis=0) < 0) == turned).all()


def test_replacement_replaces_the_mean(make_view):
    wanted = np.array([4.0, -8.0], np.float32)
    honest_rest = np.zeros((8, 2), np.float32)
    crafted = Scaling(factor="replacement").craft(make_view(honest=[wanted, wanted], others=honest_rest))
    np.testing.assert_allclose(np.concatenate([crafted, honest_rest]).mean(axis=0), wanted)


@pytest.mark.parametrize("attack", [Gaussian(std=0.25), FreeRider(std=0.25)])
def test_noise_has_the_given_deviation_and_is_independent(make_view, attack):
    noise = attack.craft(make_view(honest=np.full((3, 20_000), 7.0)))
    assert noise.std(axis=1) == pytest.approx([0.25] * 3, rel=0.03)
    assert np.abs(noise.mean(axis=1)).max() < 0.01
    assert abs(np.corrcoef(noise)[0, 1]) < 0.05


@pytest.mark.parametrize(("share", "count"), [(0.5, 2), (0.001, 1), (0.75, 3)])
def test_share_of_parameters_becomes_non_finite(make_view, share, count):
    view = make_view()
    crafted = NonFinite(share=share).craft(view)
    assert np.isnan(crafted).sum(axis=1).tolist() == [count] * 4
    np.testing.assert_array_equal(crafted[~np.isnan(crafted)], view.honest[~np.isnan(crafted)])


@pytest.mark.parametrize(
    ("attack", "labels"),
    [(LabelFlip(), [9, 6, 0, 6]), (LabelFlip(source_class=3, target_class=7), [0, 7, 9, 7])],
    ids=["mirrored", "one class"],
)
def test_labels_are_flipped(attack, labels):
    images = np.zeros((4, 1, 2, 2), np.float32)
    found, flipped = attack.poison(images, np.array([0, 3, 9, 3]), 10, RNG)
    assert found is images
    assert flipped.tolist() == labels


@pytest.mark.parametrize(
    ("attack", "answer"),
    [
        (LyingEvaluator(), [0.2, 0.9, 0.25, 0.7]),
        (LyingEvaluator(decoy_score=0.1), [0.2, 0.1, 0.25, 0.7]),
        (LyingEvaluator(answer="mirror", decoy_score=0.2), [0.3, 0.1, 0.35, 0.8]),
    ],
)
def test_false_scores(attack, answer):
    np.testing.assert_allclose(attack.lie(np.array([0.8, 0.1, 0.75, 0.3]), RNG), answer)


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        ({"kind": "no_such_attack"}, "kind must be one of"),
        ({"kind": "sign_flip", "factor": 0}, "factor"),
        ({"kind": "gaussian", "std": float("inf")}, "std"),
        ({"kind": "scaling", "factor": "big"}, "factor"),
        ({"kind": "wrong_length", "off_by": 0}, "must not be 0"),
        ({"kind": "adaptive", "attack": {"kind": "ipm"}, "alignment": 2}, "alignment"),
        ({"kind": "adaptive"}, "attack"),
        ({"kind": "combined", "attacks": []}, "at least one attack"),
        ({"kind": "label_flip", "source_class": 1}, "target_class"),
        ({"kind": "label_flip", "target_class": 1}, "target_class"),
        ({"kind": "label_flip", "source_class": 1, "target_class": 1}, "target_class"),
    ],
)
def test_invalid_settings_are_refused(faulty, message):
    with pytest.raises(ValueError, match=message):
        TypeAdapter(AnyAttack).validate_python(faulty)
