"""Files as people have them: numbers as text, other separators, gaps, channels first. Taken rightly, or refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from asyncfl.api import simulate
from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.own import NpzFile, TableFile
from asyncfl.data.own.dataset import load_source
from asyncfl.world.devices import CsvDevice

RNG = np.random.default_rng(0)
ROWS = 200
AMOUNTS = RNG.uniform(1000, 99_999, ROWS)
ABOVE = np.where(AMOUNTS > 50_000, "above", "below")

Write = Callable[..., Path]


@pytest.fixture
def table(tmp_path: Path) -> Write:
    def write(separator: str = ",", **columns: Any) -> Path:
        path = tmp_path / "rows.csv"
        pd.DataFrame(columns).to_csv(path, index=False, sep=separator)
        return path

    return write


def refusal(**fields: Any) -> str:
    with pytest.raises(DataError) as caught:
        load_source(TableFile(target="y", **fields))
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "separator", "options"),
    [
        (lambda one: f"{one:,.2f}", ",", {"thousands": ","}),
        (lambda one: f"{one:.2f}".replace(".", ","), ",", {"decimal": ","}),
        (lambda one: f"{one:.2f}".replace(".", ","), ";", {"decimal": ",", "separator": ";"}),
        (lambda one: f"{one:.2f}", "\t", {"separator": "\t"}),
    ],
)
def test_numbers_written_in_another_way_are_numbers_where_it_is_said(
    table: Write, written: Callable[[float], str], separator: str, options: dict[str, str]
) -> None:
    path = str(table(separator, x=list(map(written, AMOUNTS)), y=ABOVE))
    told = refusal(path=path)
    assert ("set separator" if separator != "," else "x: must be numbers or categories, got numbers written") in told
    found = TableFile(target="y", path=path, standardised=False, **options).load()
    numbers = np.concatenate([found.features, found.test_features])[:, 0]
    np.testing.assert_allclose(np.sort(numbers), np.sort(AMOUNTS.round(2)), rtol=1e-6)


def test_points_in_time_as_text_are_refused(table: Write) -> None:
    times = pd.date_range("2024-01-01", periods=ROWS, freq="h").astype(str)
    told = refusal(path=str(table(x=times, y=ABOVE)))
    assert "x: must be numbers or categories, got points in time written as text (the first: '2024-01-01 00" in told


def test_texts_that_no_measured_row_has_are_counted(table: Write) -> None:
    path = table(name=[f"n{number}" for number in range(ROWS)], x=AMOUNTS, y=ABOVE)
    provenance = load_source(TableFile(target="y", path=str(path))).provenance
    assert "160 rows hold a text of name that no measured row has" in provenance


def test_row_numbers_without_a_name_are_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    pd.DataFrame({"x": AMOUNTS, "y": ABOVE}).to_csv(path)
    told = refusal(path=str(path))
    assert 'header: must name each feature, column 1 has none: row numbers, it seems; set without: ["Unnamed' in told
    assert TableFile(target="y", path=str(path), without=("Unnamed: 0",)).load().features.shape == (160, 1)


def test_spaces_around_texts_do_not_make_other_classes(table: Write) -> None:
    spaced = [f" {one} " if number % 2 else one for number, one in enumerate(ABOVE)]
    assert load_source(TableFile(target="y", path=str(table(x=AMOUNTS, y=spaced)))).class_names == ("above", "below")


def test_a_class_that_only_the_test_file_has_is_refused(tmp_path: Path) -> None:
    for name, end in (("train", ""), ("test", ".")):
        rows = pd.DataFrame({"x": AMOUNTS, "y": [f"{one}{end}" for one in ABOVE]})
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    told = refusal(path=str(tmp_path / "train.csv"), test_path=str(tmp_path / "test.csv"))
    assert "y: must be of the 2 classes to train on (above, below), got also 'above.', 'below.'" in told


def test_words_for_nothing_may_be_categories(table: Write) -> None:
    path = str(table(kind=RNG.choice(["None", "NA", "null", "some"], ROWS), x=AMOUNTS, y=ABOVE))
    assert "say which texts are missing values (missing)" in refusal(path=path)
    assert TableFile(target="y", path=path, missing=("",)).load().features.shape == (160, 5)


@pytest.mark.parametrize("gap", [None, ""])
def test_a_gap_in_the_column_of_the_partition_is_named(table: Write, gap: str | None) -> None:
    region: list[str | None] = [f"r{number % 5}" for number in range(ROWS)]
    region[10:13] = [gap] * 3
    path = table(region=region, x=AMOUNTS, y=ABOVE)
    data = DataSpec.model_validate(
        {
            "dataset": {"kind": "table", "path": str(path), "target": "y", "without": ["region"]},
            "partition": {"kind": "by", "column": "region"},
            "clients": 3,
        }
    )
    with pytest.raises(DataError, match=r"data\.partition\.column: region must have a value for each sample"):
        data.build(Streams(0))


def npz(folder: Path, **arrays: Any) -> NpzFile:
    np.savez(folder / "data.npz", **arrays)
    return NpzFile(path=str(folder / "data.npz"))


@pytest.mark.parametrize("shape", [(3, 16, 20), (1, 28, 28)])
def test_pictures_with_channels_first_are_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pictures = RNG.integers(0, 256, (20, *shape), np.uint8)
    with pytest.raises(DataError, match=r"x_train: must be pictures .n, height, width, channels.: channels come last"):
        load_source(npz(tmp_path, x_train=pictures, y_train=np.arange(20) % 3))


@pytest.mark.parametrize("kind", [np.int64, np.uint16])
def test_pictures_of_other_whole_numbers_than_bytes_are_refused(tmp_path: Path, kind: Any) -> None:
    pictures = RNG.integers(0, 256, (20, 28, 28)).astype(kind)
    with pytest.raises(
        DataError, match=r"x_train: must be bytes .uint8., as pictures are, which are scaled, or floats"
    ):
        load_source(npz(tmp_path, x_train=pictures, y_train=np.arange(20) % 3))


def test_classes_as_floats_are_refused_and_as_a_column_taken(tmp_path: Path) -> None:
    points, digits = RNG.normal(size=(40, 3)), np.arange(40) % 10
    with pytest.raises(DataError, match=r"y_train: .*got the whole numbers 0\.\.9 as float64; make them integers"):
        load_source(npz(tmp_path, x_train=points, y_train=digits.astype(float)))
    assert load_source(npz(tmp_path, x_train=points, y_train=digits[:, None])).classes == 10
    assert load_source(npz(tmp_path, x_train=points, y_train=digits[:, None].astype(float))).classes == 0


def test_files_of_medmnist_are_read_by_their_names(tmp_path: Path) -> None:
    arrays = {}
    for split, count in (("train", 30), ("val", 10), ("test", 20)):
        arrays[f"{split}_images"] = RNG.integers(0, 256, (count, 28, 28), np.uint8)
        arrays[f"{split}_labels"] = (np.arange(count) % 4)[:, None].astype(np.uint8)
    found = load_source(npz(tmp_path, **arrays))
    assert (found.size("train"), found.size("test"), found.classes) == (30, 20, 4)
    assert "val_images and val_labels are not used" in found.provenance


def test_devices_may_be_measured_in_other_units_and_notations(tmp_path: Path) -> None:
    (tmp_path / "devices.csv").write_text("name;ms\nphone;2,5\n")
    device = CsvDevice(path=str(tmp_path / "devices.csv"), column="ms", unit_s=0.001, separator=";", decimal=",")
    np.testing.assert_allclose(device.draw(4, np.random.default_rng(0)), 0.0025)


def test_inputs_that_are_all_the_same_are_noted(tmp_path: Path, tiny: dict[str, Any]) -> None:
    path = npz(tmp_path, x_train=np.ones((60, 4), np.float32), y_train=np.arange(60) % 2).path
    tiny["data"] = {"dataset": {"kind": "npz", "path": path}, "clients": 5, "samples_per_client": 8}
    assert any("all samples of the clients have the same inputs" in note for note in simulate(tiny).summary["notes"])
