"""Attacks on their own: uploads by hand and as byzfl 0.0.11 makes them, labels, scores, and refused settings."""

from dataclasses import replace

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
    Minority,
    NonFinite,
    Orthogonal,
    Scaling,
    SignFlip,
    Spread,
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
    [
        (LabelFlip(), [9, 6, 0, 6]),
        (LabelFlip(source_class=3, target_class=7), [0, 7, 9, 7]),
        (LabelFlip(to="next"), [1, 4, 0, 4]),
    ],
    ids=["mirrored", "one class", "next"],
)
def test_labels_are_flipped(attack, labels):
    images = np.zeros((4, 1, 2, 2), np.float32)
    found, flipped = attack.poison(images, np.array([0, 3, 9, 3]), 10, RNG)
    assert found is images
    assert flipped.tolist() == labels


def test_permuted_labels_are_the_same_for_all_attackers_and_random_ones_are_not():
    images, labels = np.zeros((1000, 1, 2, 2), np.float32), np.arange(1000) % 10

    def wrong(seed, **settings):
        return LabelFlip(**settings).poison(images, labels, 10, np.random.default_rng(seed))[1]

    permuted, drawn = wrong(1, to="permuted"), wrong(1, to="random")
    assert sorted(permuted[:10]) == list(range(10))
    assert permuted.tolist() == wrong(2, to="permuted").tolist() == permuted[:10].tolist() * 100
    for found in (permuted, drawn):
        assert (found != labels).all()
        assert set(found) == set(range(10))
    assert (drawn != wrong(2, to="random")).mean() > 0.8
    weak = wrong(1, share=0.3)
    assert (weak != labels).sum() == 300
    assert set(weak[weak != labels] + labels[weak != labels]) == {9}


def test_slow_drift_turns_from_the_mean_to_its_negative(make_view):
    for version, factor in [(0, 1.0), (2, 0.25), (4, -0.5), (9, -0.5)]:
        view = make_view(honest=[[2.0, -4.0]], version=version)
        np.testing.assert_allclose(Ipm(tau=0.5, versions=4).craft(view), [[2 * factor, -4 * factor]])


def test_a_flipped_last_layer_leaves_the_others_honest(make_view):
    np.testing.assert_array_equal(
        SignFlip(of="last_layer", factor=2).craft(make_view(honest=[[1, 2, 3, 4]])), [[1, 2, -6, -8]]
    )


def test_spread_uploads_differ_and_have_the_same_sum(make_view):
    honest = np.tile(RNG.standard_normal(20_000), (4, 1)).astype(np.float32)
    crafted = Spread(length=2.0).craft(make_view(honest=honest))
    np.testing.assert_allclose(crafted.sum(axis=0), honest.sum(axis=0), atol=1e-3)
    lengths = np.linalg.norm(crafted - honest, axis=1) / np.linalg.norm(honest[0])
    assert lengths == pytest.approx([2 * 0.75**0.5] * 4, rel=0.05)
    alone = make_view(honest=honest[:1])
    np.testing.assert_array_equal(Spread().craft(alone), alone.honest)


@pytest.mark.parametrize("knowledge", ["colluders", "buffer"])
def test_a_minority_gains_where_holders_of_one_class_do_and_as_much_as_they(make_view, knowledge):
    """Classes descend along axes 0 to 9; clients with class 2 gain along the upload, all others lose."""
    classes, length = np.eye(10, dtype=np.float32), 3.0 if knowledge == "buffer" else 2.0
    own, others = np.stack([2 * classes[2], classes[4]]), np.stack([classes[1], 3 * classes[2], classes[7]])
    view = make_view(honest=own, others=others, bases=np.zeros((2, 10)))
    view = replace(view, class_gradients=lambda model: model - classes)
    upload = Minority(target_class=2, against=0.25, knowledge=knowledge).craft(view)[0]
    gains = others @ upload
    assert gains[1] > 0 > max(gains[0], gains[2])
    assert gains[0] / gains[1] == pytest.approx(-0.25 / 3, rel=1e-3)
    assert np.linalg.norm(upload) == pytest.approx(length * upload[2] / np.linalg.norm(upload))
    untold = replace(view, class_gradients=None)
    assert Minority().craft(untold) is None
    without = replace(view, class_gradients=lambda model: (model - classes) * (np.arange(10) != 2)[:, None])
    np.testing.assert_array_equal(Minority(target_class=2, knowledge=knowledge).craft(without), own)


def test_an_orthogonal_update_keeps_the_common_descent_and_turns_the_rest_round(make_view):
    gradients = np.array([[-2, 0, 0], [0, -6, 0], [0, 0, 0]], np.float32)  # nobody holds the third class
    honest = [[4, 0, 4], [2, 2, 4]]
    view = replace(make_view(honest=honest), class_gradients=lambda model: gradients)
    # The mean (3, 1, 4) goes by (2, 2, 0) along the common descent (1, 1, 0) / sqrt(2).
    np.testing.assert_allclose(Orthogonal().craft(view), [[1.5, 6.5, -10]] * 2, rtol=1e-6)
    bounded = Orthogonal(longest=np.sqrt(144.5) / 10).craft(view)  # a tenth of its length
    np.testing.assert_allclose(bounded, [[0.15, 0.65, -1]] * 2, rtol=1e-6)
    own = Orthogonal(along=1, across=1, knowledge="own").craft(view)
    np.testing.assert_allclose(own, [[0, 4, -4], [2, 2, -4]], rtol=1e-6, atol=1e-6)
    opposed = replace(view, class_gradients=lambda model: np.array([[-1, 0, 0], [1, 0, 0]], np.float32))
    assert Orthogonal().craft(opposed) is None
    assert Orthogonal().craft(replace(view, class_gradients=None)) is None


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
        ({"kind": "label_flip", "source_class": 1, "target_class": 2, "to": "next"}, "to must be left out"),
        ({"kind": "label_flip", "share": 0}, "share"),
        ({"kind": "minority", "knowledge": "own"}, "knowledge"),
    ],
)
def test_invalid_settings_are_refused(faulty, message):
    with pytest.raises(ValueError, match=message):
        TypeAdapter(AnyAttack).validate_python(faulty)
