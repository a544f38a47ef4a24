import numpy as np

from asyncfl.data.embedded.warp import DRAWS, Distortion, distances

STILL = Distortion(turn=0, shear=0, stretch=0, scale=(1, 1), shift=0, bend=0, width=(0, 0))


def disc(cells=64, radius=0.5):
    """Distance map of a disc right of the middle, in pixels of a window 32 wide."""
    axis = (np.arange(cells) + 0.5) * 32 / cells - 16
    return (4.0 - np.hypot(axis[None, :] - 5, axis[:, None])).astype(np.float32)[None]


def centre(found, side=28):
    """Centre of mass (x, y) of what is inside, in pixels from the middle."""
    inside = (found.reshape(side, side) > 0).astype(float)
    axis = (np.arange(side) + 0.5) * 28 / side - 14
    return (inside.sum(0) @ axis) / inside.sum(), (inside.sum(1) @ axis) / inside.sum()


def draw(distortion, value=0.5, side=28, **set_at):
    draws = np.full((1, DRAWS), value, np.float32)
    for index, drawn in set_at.items():
        draws[0, int(index[1:])] = drawn
    return distances(disc(), np.zeros(1, np.int64), side, distortion, draws)[0]


def test_without_distortion_nothing_moves():
    np.testing.assert_allclose(centre(draw(STILL)), (5, 0), atol=0.3)
    np.testing.assert_allclose(centre(draw(STILL, side=16), 16), (5, 0), atol=0.5)


def test_shift_moves_by_its_pixels():
    shifting = Distortion(0, 0, 0, (1, 1), 3, 0, (0, 0))
    np.testing.assert_allclose(centre(draw(shifting, _4=1.0, _5=0.0)), (8, -3), atol=0.3)


def test_turn_is_about_the_middle():
    turning = Distortion(90, 0, 0, (1, 1), 0, 0, (0, 0))
    x, y = centre(draw(turning, _0=1.0))
    np.testing.assert_allclose((abs(x), abs(y)), (0, 5), atol=0.3)


def test_shear_moves_in_proportion_to_height_and_stretch_widens():
    """A point of the image at height y shows the glyph at x + y / 2; then at x e^(1/2)."""
    below = np.roll(disc(), 8, axis=1)  # by 4 pixels
    draws = np.full((1, DRAWS), 0.5, np.float32)
    draws[0, 1] = 1.0
    shear = Distortion(0, 0.5, 0, (1, 1), 0, 0, (0, 0))
    np.testing.assert_allclose(centre(distances(below, np.zeros(1, int), 28, shear, draws)[0]), (3, 4), atol=0.4)
    narrow = Distortion(0, 0, 0.5, (1, 1), 0, 0, (0, 0))
    np.testing.assert_allclose(centre(draw(narrow, _2=1.0)), (5 * np.exp(-0.5), 0), atol=0.4)
