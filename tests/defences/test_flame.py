import numpy as np
import pytest

from asyncfl.defences import Flame
from asyncfl.defences.flame import majority

ANGLES = np.deg2rad([0, 5, 10, 15, 20, 170, 175, 180])
"""Five that point one way, three that point the other."""
UPDATES = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1) * np.array([1, 1, 2, 4, 4, 9, 9, 9])[:, None]
EQUAL = np.full(8, 1 / 8)


def test_majority_is_averaged_and_clipped_to_the_median_length():
    # Lengths 1, 1, 2, 4, 4, 9, 9, 9 have the median 4: none of the five is longer.
    np.testing.assert_allclose(Flame().aggregate(UPDATES, EQUAL), UPDATES[:5].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(Flame().weigh(UPDATES, EQUAL), [0.2] * 5 + [0] * 3)
    longer = UPDATES.copy()
    longer[2] *= 4  # 8, and the median 6
    np.testing.assert_allclose(Flame().weigh(longer, EQUAL), [0.2, 0.2, 0.2 * 6 / 8, 0.2, 0.2, 0, 0, 0])


def test_weights_count_among_admitted_updates_and_mass_is_kept():
    weights = np.array([0.1, 0.1, 0.1, 0.1, 0.2, 0.1, 0.1, 0.0])
    moved = Flame().weigh(UPDATES, weights)
    # Present are seven, with the median length 4, and together .8.
    np.testing.assert_allclose(moved, 0.8 * np.array([1, 1, 1, 1, 2, 0, 0, 0]) / 6)
    assert not Flame().aggregate(UPDATES, np.zeros(8)).any()


@pytest.mark.parametrize(
    "vectors",
    [
        np.concatenate([UPDATES[:4], -UPDATES[:4]]),
        np.eye(8, 9) * 3,
        np.zeros((8, 2)),
        np.ones((8, 2)),
    ],
    ids=["two even camps", "right angles", "nothing", "equal"],
)
def test_all_updates_are_admitted_without_a_smaller_majority(vectors):
    assert majority(vectors).all()


def test_noise_scales_with_median_length_and_mass(buffer_of, context_of, random):
    wide = np.zeros((8, 4000))
    wide[:, :2] = UPDATES
    rule, quiet = Flame(noise_factor=0.5), Flame(noise_factor=0)
    held, state = buffer_of(wide), rule.start(context_of(8, 4000), random)
    made, after = rule.step(state, held, EQUAL / 2)
    noise = made.update - quiet.step(state, held, EQUAL / 2)[0].update
    assert noise.std() == pytest.approx(0.5 * 4 * 0.5, rel=0.05)
    again, _ = rule.step(after, held, EQUAL / 2)
    assert abs(np.corrcoef(noise, again.update - made.update + noise)[0, 1]) < 0.1


def test_comparing_models_separates_clients_by_base_version(buffer_of, context_of, random):
    # All point one way, but three started elsewhere: as printed these are taken for the minority.
    bases = np.zeros((8, 2))
    bases[5:] = [-50, 0]
    steps = np.tile([1.0, 0.2], (8, 1))
    held = buffer_of(steps, bases=bases)
    for compare, admitted in (("updates", 8), ("models", 5)):
        rule = Flame(compare=compare, noise_factor=0)
        made, _ = rule.step(rule.start(context_of(8), random), held, EQUAL)
        assert np.count_nonzero(made.weights) == admitted
