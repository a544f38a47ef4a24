from pathlib import Path

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.base.errors import DataError
from asyncfl.base.own_classes import own_file
from asyncfl.base.streams import Streams
from asyncfl.data import Dataset, DataSpec, Samples
from asyncfl.data.own.dataset import ArraySource
from asyncfl.scenario import Scenario


class Rings(Dataset):
    """Points of the plane, of two classes."""

    kind: str = "test_dataset:Rings"
    wrong: str = ""

    def load(self) -> Samples:
        if self.wrong == "raises":
            raise KeyError("the archive")
        if self.wrong == "type":
            return np.zeros(3)  # type: ignore[return-value]
        points = np.random.default_rng(0).normal(size=(300, 2))
        labels = (np.hypot(*points.T) > 1.2).astype(int)
        return Samples(points, -labels if self.wrong == "labels" else labels)


class Counted(Dataset):
    """The numbers in a file, one sample per line."""

    kind: str = "test_dataset:Counted"
    path: str

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def load(self) -> Samples:
        Counted.loaded += 1
        numbers = np.loadtxt(own_file(self.path))
        return Samples(numbers[:, None], (numbers > 5).astype(int))


Counted.loaded = 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("raises", r" cannot be loaded: .*test_dataset\.py, line \d+: KeyError: 'the arch"),
        ("type", r": load must return asyncfl\.data\.Samples, got ndarray"),
        ("labels", r": labels: must be classes from 0 on, got -1\.\.0 \(sample \d+ is"),
    ],
)
def test_messages_name_the_users_class(wrong: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"data\.dataset: test_dataset:Rings{message}"):
        DataSpec(dataset=Rings(wrong=wrong)).build(Streams(0))


def test_data_are_loaded_once_until_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "numbers.txt"
    path.write_text("\n".join(map(str, range(12))))
    before = Counted.loaded  # type: ignore[attr-defined]
    for _ in range(3):
        assert DataSpec(dataset=Counted(path=str(path)), clients=2, samples_per_client=2).shape == (1,)
    assert Counted.loaded == before + 1  # type: ignore[attr-defined]
    digest = DataSpec(dataset=Counted(path=str(path))).content_digest()
    path.write_text("\n".join(map(str, range(13))))
    assert DataSpec(dataset=Counted(path=str(path))).content_digest() != digest
    assert Counted.loaded == before + 2  # type: ignore[attr-defined]


def test_samples_without_image_shape_work_in_a_whole_run(tiny: dict) -> None:
    tiny["data"] = {"dataset": Rings(), "clients": 5, "samples_per_client": 30, "canaries": {"count": 4}}
    tiny["data"]["canaries"]["kind"] = "noise"
    tiny["threats"] = {"attack": {"kind": "label_flip"}, "attackers": 1}
    tiny["defence"] = {"rule": {"kind": "median"}, "root_samples": 5}
    tiny["evaluation"] = {"audit": {"clients": 1, "twins": 14}}
    tiny["training"] = {"lr": 0.1, "batch_size": 5}
    run = simulate(Scenario.read(tiny))
    assert run.summary["data"]["dataset"] == "test_dataset:Rings"
    assert len(run.tables["audit"]) > 0
    rounds = run.rounds
    assert rounds["train_loss"].iloc[-1] < rounds["train_loss"].iloc[0]


def source(features, labels, *rest, **more):
    return ArraySource("mine", "mine.npz", Samples(np.asarray(features), np.asarray(labels), *rest, **more))


def test_images_are_standardised_by_the_test_samples():
    pixels = np.random.default_rng(0).integers(0, 256, (30, 4, 5, 3), dtype=np.uint8)
    own = source(pixels[:5], np.arange(5) % 3, pixels, np.arange(30) % 3)
    assert own.shape == (3, 4, 5)
    seen = own.scaled(own.images("test", np.arange(30)), "standardised")
    np.testing.assert_allclose(seen.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(seen.std((0, 2, 3)), 1, atol=1e-5)
    unit = own.scaled(own.images("test", np.arange(30)), "unit")
    np.testing.assert_allclose(unit[:, 1], pixels[..., 1] / 255, atol=1e-6)


def test_without_a_test_set_a_fifth_is_split_off():
    own = source(np.arange(50)[:, None], np.arange(50) % 5, columns={"writer": np.arange(50) // 10})
    train, test = (own.images(split, np.arange(own.size(split)))[:, 0] for split in ("train", "test"))
    assert (len(train), len(test)) == (40, 10)
    assert sorted([*train, *test]) == list(range(50))
    np.testing.assert_array_equal(own.labels("test", np.arange(10)), test % 5)
    np.testing.assert_array_equal(own.column("writer", "train", np.arange(40)), train // 10)
    np.testing.assert_array_equal(own.column("label", "train", np.arange(40)), train % 5)
    assert own.columns == ("writer",)


@pytest.mark.parametrize(
    ("labels", "classes", "names"),
    [
        (["b", "a", "b"], None, ("a", "b")),
        (["b", "a", "b"], ("b", "a", "c"), ("b", "a", "c")),
        ([0, 2, 1], None, ("0", "1", "2")),
        ([0, 2, 1], 4, ("0", "1", "2", "3")),
        ([0, 1, 1], ("no", "yes"), ("no", "yes")),
    ],
)
def test_class_names_come_from_the_labels_or_from_the_user(labels, classes, names):
    own = source(np.zeros((3, 1)), labels, np.zeros((3, 1)), np.asarray(labels), classes)
    assert (own.class_names, own.classes) == (names, len(names))
    texts = [names[label] for label in own.labels("test", np.arange(3))]
    assert texts == [label if isinstance(label, str) else names[label] for label in labels]


def test_the_digest_covers_all_contents():
    x, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    changed = x.copy()
    changed[9, 1] += 1
    columns = {"writer": np.arange(10)}
    given = [
        ((x, y), {}),
        ((changed, y), {}),
        ((x.astype(np.float32), y), {}),
        ((x.reshape(10, 2, 1), y), {}),
        ((x, 1 - y), {}),
        ((x, y, x, y), {}),
        ((x, y, changed, y), {}),
        ((x, y), {"classes": 3}),
        ((x, y), {"columns": columns}),
        ((x, y), {"columns": {"user": columns["writer"]}}),
    ]
    digests = [source(*arrays, **more).digest for arrays, more in given]
    assert len(set(digests)) == len(given)
    assert digests[0] == source(x.copy(), y.copy()).digest


def test_targets_of_a_regression_are_float32_rows():
    own = source(np.zeros((4, 1)), np.array([0.5, 1, 2, 4]), np.zeros((2, 1)), np.array([8.0, 16]))
    assert (own.classes, own.outputs, own.class_names) == (0, 1, ())
    labels = own.labels("test", np.array([1, 0]))
    assert (labels.tolist(), labels.dtype) == ([[16], [8]], np.float32)
    pairs = source(np.zeros((4, 1)), np.ones((4, 3)), np.zeros((2, 1)), np.ones((2, 3)))
    assert (pairs.outputs, pairs.labels("train", np.array([2])).shape) == (3, (1, 3))
