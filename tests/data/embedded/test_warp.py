import numpy as np

from asyncfl.data.embedded import textures
from asyncfl.data.embedded.glyphs import _distance
from asyncfl.data.embedded.style import between, coverage
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


def test_coverage_is_a_ramp_across_the_outline():
    """With a softness of 2 pixels it rises from 0 at -1 to 1 at +1."""
    np.testing.assert_allclose(coverage(np.array([-3, -1, -0.5, 0, 0.5, 1, 3.0]), 2.0), [0, 0, 0.25, 0.5, 0.75, 1, 1])
    np.testing.assert_allclose(between(2.0, 4.0, np.array([0, 0.25, 1])), [2, 2.5, 4])


def test_distances_to_the_outline_of_a_bar():
    """A bar 10 of 128 cells wide, of 32 pixels: distances change by a pixel per pixel and are clipped at 4."""
    bar = np.pad(np.full((128, 10), 255, np.uint8), ((0, 0), (59, 59)))
    across = _distance(bar)[32]  # 64 cells of half a pixel; the bar covers 29.5 to 34.5
    assert across[[0, 63]].tolist() == [-4, -4]
    assert across.argmax() in (31, 32)
    assert across.max() == np.float32(1.125)  # between 4 and 5 of the small cells, of a quarter pixel
    np.testing.assert_allclose(np.diff(across[36:42]), -0.5)


def test_textures_have_the_drawn_brightness_and_differ():
    draws = np.full((4, textures.DRAWS), 0.5, np.float32)
    draws[1, 5], draws[2, 0], draws[3, 3] = 0.9, 0.0, 0.0  # brighter, another sheet, a finer sampling
    plain, bright, other, fine = textures.patches(28, draws)
    assert plain.shape == (28 * 28, 3)
    assert 0 <= plain.min() < plain.max() <= 1
    assert bright.mean() > plain.mean() + 0.1
    assert np.abs(plain - other).mean() > 0.02 < np.abs(plain - fine).mean()
