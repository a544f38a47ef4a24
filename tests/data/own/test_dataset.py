from pathlib import Path

import numpy as np
import pytest

from asyncfl.api import simulate
from asyncfl.base.errors import DataError
from asyncfl.base.own_classes import own_file
from asyncfl.base.streams import Streams
from asyncfl.data import Dataset, DataSpec, Samples
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
        (
            "raises",
            r"data\.dataset: test_dataset:Rings cannot be loaded: .*test_dataset\.py, line \d+: KeyError: 'the arch",
        ),
        ("type", r"data\.dataset: test_dataset:Rings: load must return asyncfl\.data\.Samples, got ndarray"),
        (
            "labels",
            r"data\.dataset: test_dataset:Rings: labels: must be classes from 0 on, got -1\.\.0 \(sample \d+ is",
        ),
    ],
)
def test_messages_name_the_users_class(wrong: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
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
