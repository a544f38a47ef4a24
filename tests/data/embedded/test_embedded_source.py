"""Images that are drawn to stand in for data sets that are not on disk."""

import numpy as np
import pytest

from asyncfl.data.catalog import CATALOG
from asyncfl.data.embedded.embedded_source import BLOCK, BLOCKS, STYLES, EmbeddedSource

MNIST = EmbeddedSource(CATALOG["mnist"])


@pytest.mark.parametrize("name", list(CATALOG))
def test_every_data_set_has_a_stand_in_of_its_shape(name):
    source = EmbeddedSource(CATALOG[name])
    images = source.images("train", np.arange(20))
    assert images.shape == (20, *CATALOG[name].image_shape)
    assert images.dtype == np.uint8
    assert len(np.unique(images.reshape(20, -1), axis=0)) == 20
    assert not source.is_original
    assert source.provenance.startswith(f"stand-in for {CATALOG[name].title}: ")


def test_no_style_without_data_set():
    assert set(STYLES) == set(CATALOG)


@pytest.mark.parametrize("name", ["mnist", "usps", "street_digits"])
def test_a_sample_is_the_same_whatever_else_is_asked_for(name):
    source = EmbeddedSource(CATALOG[name])
    wanted = np.array([3, 3 * BLOCK + 7, 499, 0])
    together = source.images("train", wanted)
    many = source.images("train", np.arange(BLOCK))
    np.testing.assert_array_equal(together[[0, 2, 3]], many[[3, 499, 0]])
    np.testing.assert_array_equal(together[1], source.images("train", wanted[1:2])[0])
    assert source.labels("train", wanted)[2] == source.labels("train", np.arange(BLOCK))[499]


def test_blocks_are_balanced_and_differ():
    labels = MNIST.labels("train", np.arange(2 * BLOCK)).reshape(2, BLOCK)
    for block in labels:
        np.testing.assert_array_equal(np.bincount(block), np.full(10, BLOCK // 10))
    assert (labels[0] != labels[1]).any()


def test_images_are_sorted_by_their_labels_alone():
    some = np.array([7, 501, 3])
    assert MNIST.columns == ()
    np.testing.assert_array_equal(MNIST.column("label", "test", some), MNIST.labels("test", some))
    with pytest.raises(KeyError, match="writer"):
        MNIST.column("writer", "train", some)


def test_there_are_no_end_of_them_and_those_that_follow_are_unused():
    last = BLOCK * BLOCKS
    assert (MNIST.title, MNIST.size("train"), MNIST.size("test")) == ("MNIST", last, last)
    random = np.random.default_rng(0)
    for used, found in (([4, 9, 7], [10, 11]), ([], [0, 1]), ([5, last - 3], [last - 2, last - 1])):
        assert MNIST.unused(2, np.array(used, np.int64), random).tolist() == found
    assert MNIST.unused(2, np.array([last - 9, last - 2]), random).tolist() == [last - 11, last - 10]


@pytest.mark.parametrize(
    ("name", "column"),
    [("svhn", 1), ("svhn", 3), ("synth_digits", 7)],
)
def test_a_uniform_draw_of_one_half_is_in_the_upper_half(name, column):
    """Draws below .5 are one half of all, 0 being among them: what is chosen by halves is chosen fairly."""
    style = STYLES[name]
    draws = np.full((3, style.draws), 0.25, np.float32)
    draws[:, column] = 0.5 - 2.0**-24, 0.5, 0.5 + 2.0**-24
    below, middle, above = style.render(np.array([3, 3, 3]), draws, "train")
    np.testing.assert_array_equal(middle, above)
    assert (below != middle).any()


def test_train_and_test_are_different_samples():
    indices = np.arange(5)
    assert (MNIST.images("train", indices) != MNIST.images("test", indices)).any()


def test_every_seed_has_samples_of_its_own():
    pools = [MNIST.pool(1200, np.random.default_rng(seed)) for seed in range(50)]
    assert all(len(pool) == 1500 for pool in pools)
    assert len(np.unique(np.concatenate(pools))) == 50 * 1500
    assert max(pool.max() for pool in pools) < BLOCK * BLOCKS


def test_test_set_does_not_depend_on_the_seed():
    first, labels, _ = MNIST.test_set(30, np.random.default_rng(0))
    np.testing.assert_array_equal(first, MNIST.test_set(30, np.random.default_rng(1))[0])
    assert len(labels) == 30
    assert len(MNIST.test_set(None, np.random.default_rng(0))[1]) == 2000


def test_brightness_is_that_of_the_originals():
    mnist = MNIST.images("train", np.arange(1000)) / 255
    assert mnist.mean() == pytest.approx(0.1307, abs=0.03)
    assert mnist.std() == pytest.approx(0.3081, abs=0.05)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_a_linear_model_is_right_as_often_as_on_the_originals(name):
    from sklearn.linear_model import LogisticRegression

    source = EmbeddedSource(CATALOG[name])
    train, test = np.arange(2000), np.arange(1000)
    x, x_test = (source.images("train", train) / 255).reshape(2000, -1), source.images("test", test).reshape(1000, -1)
    model = LogisticRegression(C=0.05, max_iter=300).fit(x, source.labels("train", train))
    accuracy = model.score(x_test / 255, source.labels("test", test))
    assert 0.78 < accuracy < 0.95


def test_digits_are_right_side_up_and_white_on_black():
    """The mean image of the ones is a vertical bar; the sevens have their mass at the top."""
    indices = np.arange(BLOCK)
    labels, images = MNIST.labels("train", indices), MNIST.images("train", indices)
    ones, sevens = (images[labels == digit].mean(0) for digit in (1, 7))
    assert ones.sum(0).argmax() in range(11, 18)
    assert sevens[4:10].sum() > 1.3 * sevens[18:24].sum()
    assert images[:, [0, -1]].mean() < 5 < images[:, 13:15].mean()


def test_styles_of_the_domains_differ_visibly():
    domains = ("mnist", "street_digits", "usps", "synth_digits", "mnist_m")
    features = []
    for name in domains:
        images = EmbeddedSource(CATALOG[name]).images("train", np.arange(300)) / 255.0
        grey = images.mean(3) if images.ndim == 4 else images
        roughness = np.abs(np.diff(grey, axis=2)).mean()
        colour = images.std(3).mean() if images.ndim == 4 else 0.0
        features.append((grey.mean(), roughness, colour, grey.shape[1] / 100))
    distances = [np.abs(np.subtract(a, b)).max() for i, a in enumerate(features) for b in features[:i]]
    assert min(distances) > 0.02


def test_originals_of_the_test_split_are_not_trained_on():
    from asyncfl.data.embedded.handwriting import Handwriting
    from asyncfl.data.embedded.warp import Distortion

    still = Handwriting(Distortion(0, 0, 0, (1, 1), 0, 0, (0, 0)))
    draws = np.full((400, still.draws), 0.5, np.float32)
    draws[:, 0] = np.linspace(0, 0.999, 400)
    labels = np.full(400, 4)
    seen = {image.tobytes() for image in still.render(labels, draws, "train")}
    tested = {image.tobytes() for image in still.render(labels, draws, "test")}
    assert len(seen) > 100
    assert len(tested) > 20
    assert not seen & tested


def test_labels_stay_the_same_over_versions():
    assert MNIST.labels("train", np.arange(12)).tolist() == [8, 2, 8, 7, 8, 5, 6, 4, 4, 2, 6, 0]
