import dataclasses

import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.canaries import Canaries, farthest_label

PLAIN = DataSpec(clients=4, samples_per_client=10, test_samples=12, source="embedded")


def with_canaries(**fields: object) -> DataSpec:
    return PLAIN.model_copy(update={"canaries": Canaries.model_validate(fields)})


def test_included_canaries_replace_samples_and_nothing_else_changes() -> None:
    plain, data = PLAIN.build(Streams(3)), with_canaries(count=22).build(Streams(3))
    planted = data.canaries
    assert planted is not None
    np.testing.assert_array_equal(np.bincount(planted.owners), [6, 6, 5, 5])
    np.testing.assert_array_equal(data.offsets, plain.offsets)
    np.testing.assert_array_equal(data.images, plain.images)  # mislabelled: the image is that of the sample
    changed = np.flatnonzero(data.labels != plain.labels)
    assert 0 < len(changed) == planted.included.sum() < 22
    np.testing.assert_array_equal(data.labels[changed] != plain.labels[changed], True)
    assert (planted.labels != planted.replaced_labels).all()
    np.testing.assert_array_equal(np.sort(changed // 10), np.sort(planted.owners[planted.included]))
    assert "22 canary samples (mislabelled), each in or out by a coin" in data.provenance
    assert not data.original


def test_noise_canaries_have_the_range_of_the_images() -> None:
    plain, data = PLAIN.build(Streams(0)), with_canaries(count=40, kind="noise").build(Streams(0))
    planted = data.canaries
    assert planted is not None
    assert planted.images.dtype == np.float32
    assert plain.images.min() <= planted.images.min() < planted.images.max() <= plain.images.max()
    changed = np.flatnonzero((data.images != plain.images).any(axis=(1, 2, 3)))
    assert len(changed) == planted.included.sum()
    found = {image.tobytes() for image in planted.images[planted.included]}
    assert found == {image.tobytes() for image in data.images[changed]}
    np.testing.assert_array_equal(np.sort(planted.replaced_labels), np.sort(plain.labels))


def test_excluded_canary_clients_are_zeroed() -> None:
    plain, data = PLAIN.build(Streams(1)), with_canaries(count=3, unit="client").build(Streams(1))
    planted = data.canaries
    assert planted is not None
    assert len(set(planted.owners.tolist())) == 3
    assert planted.zeroed == set(planted.owners[~planted.included].tolist())
    for client in range(4):
        differs = data.client(client)[1] != plain.client(client)[1]
        assert differs.all() if client in planted.owners else not differs.any()


def test_coins_depend_on_the_seed() -> None:
    first, other = (with_canaries(count=40).build(Streams(seed, data=7)) for seed in (0, 1))
    assert first.canaries is not None
    assert other.canaries is not None
    assert (first.canaries.included != other.canaries.included).any()
    again = with_canaries(count=40).build(Streams(0, data=7))
    for one in dataclasses.fields(again.canaries):  # type: ignore[arg-type]
        np.testing.assert_array_equal(getattr(again.canaries, one.name), getattr(first.canaries, one.name))


def test_too_many_canaries_are_refused() -> None:
    for fields, message in [
        ({"count": 41}, "data.canaries.count: must be at most the number of samples of all clients (40), got 41"),
        ({"count": 5, "unit": "client"}, "data.canaries.count: must be at most the number of clients (4), got 5"),
    ]:
        with pytest.raises(DataError) as caught:
            with_canaries(**fields).build(Streams(0))
        assert message in str(caught.value)
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Canaries(count=0)


def test_canaries_of_a_regression_have_extreme_or_random_targets() -> None:
    spec = DataSpec(dataset="diabetes", clients=3, samples_per_client=20)
    plain = spec.build(Streams(0))
    wrong, noise = (
        spec.model_copy(update={"canaries": Canaries(count=12, kind=kind)}).build(Streams(0)).canaries
        for kind in ("mislabelled", "noise")
    )
    low, high = plain.labels.min(), plain.labels.max()
    farther = np.where(wrong.replaced_labels > (low + high) / 2, low, high)
    np.testing.assert_array_equal(wrong.labels, farther)
    assert low <= noise.labels.min() < noise.labels.max() <= high
    assert len(np.unique(noise.labels)) == 12
    assert farthest_label(np.array([[1.0, 9.0]]), np.array([[0.0, 0.0], [4.0, 10.0]])).tolist() == [[4.0, 0.0]]
    data = spec.build(Streams(0))
    assert [one.tolist() for one in data.extreme_labels] == [[low], [high]]
    assert data.random_wrong_label(np.array([high]), np.random.default_rng(0)).tolist() == [low]
