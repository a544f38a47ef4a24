import re
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import pytest

from asyncfl.data import DataSpec
from asyncfl.data.own.dataset import load_source

ROWS = pd.DataFrame(
    {
        "age": [20.0, 30, 40, 50, 60, 70, 80, 90, 25, 35],
        "job": ["cook", "clerk", "cook", "smith", "cook", "smith", "clerk", "cook", "cook", "cook"],
        "region": list("nnsswweenn"),
        "income": ["low", "high"] * 5,
    }
)


@pytest.fixture
def table(tmp_path):
    """Function that writes rows as CSV or Parquet, by the ending of the name, and returns the data set's fields."""

    def write(rows=ROWS, name="adult.csv", **fields):
        path = tmp_path / name
        rows.to_csv(path, index=False) if name.endswith("csv") else rows.to_parquet(path)
        return {"kind": "table", "path": str(path), "target": "income", **fields}

    return write


def source(dataset):
    return load_source(DataSpec(dataset=dataset).dataset)


def everything(found, split):
    return found.images(split, np.arange(found.size(split)))


@pytest.mark.parametrize("name", ["adult.csv", "adult.parquet"])
def test_numbers_and_texts_become_features(table, name):
    found = source(table(name=name, without=["region"], standardised=False, measured_on="train"))
    assert (found.shape, found.class_names) == ((4,), ("high", "low"))
    assert (found.size("train"), found.size("test")) == (8, 2)
    rows = np.concatenate([everything(found, split) for split in ("train", "test")])
    labels = np.concatenate([found.labels(split, np.arange(found.size(split))) for split in ("train", "test")])
    regions = np.concatenate(
        [found.column("region", split, np.arange(found.size(split))) for split in ("train", "test")]
    )
    for row, label, region in zip(rows, labels, regions, strict=True):
        given = ROWS[ROWS["age"] == row[0]].iloc[0]
        assert row[1:].tolist() == [given["job"] == job for job in ("clerk", "cook", "smith")]
        assert (found.class_names[label], region) == (given["income"], given["region"])


@pytest.mark.parametrize("split", ["test", "train"])
def test_numbers_are_standardised_by_the_rows_of_measured_on(table, split):
    other = table(ROWS.assign(age=1000.0), "other.csv")["path"]
    paths = {"path": table()["path"], "test_path": other}
    paths = paths if split == "train" else {"path": other, "test_path": table()["path"]}
    found = source(table(features=("age",), measured_on=split) | paths)
    measured, others = (everything(found, one)[:, 0] for one in sorted(("train", "test"), key=lambda one: one != split))
    assert measured.mean() == pytest.approx(0, abs=1e-6)
    assert measured.std() == pytest.approx(1, abs=1e-6)
    assert others[0] == pytest.approx((1000 - ROWS["age"].mean()) / ROWS["age"].std(ddof=0), rel=1e-6)


@pytest.mark.parametrize("change", [{"age": 1e6}, {"job": "astronaut"}])
@pytest.mark.parametrize("fields", [{}, {"standardised": False}, {"bounds": {"age": [0, 120]}}])
def test_a_row_of_one_client_does_not_change_the_inputs_of_others(table, change, fields):
    """The sensitivity of a client's update to another client's row is 0 only then."""
    tests = table(ROWS, "test.csv")["path"]
    other = ROWS.copy()
    other.loc[3, list(change)] = list(change.values())
    one, two = (
        source(table(rows, name) | {"test_path": tests, **fields}) for rows, name in ((ROWS, "a.csv"), (other, "b.csv"))
    )
    kept = np.arange(10) != 3
    np.testing.assert_array_equal(everything(one, "train")[kept], everything(two, "train")[kept])
    np.testing.assert_array_equal(everything(one, "test"), everything(two, "test"))


def test_bounds_scale_without_any_row(table):
    rows = ROWS.assign(income=np.arange(10) + 0.5)
    found = source(table(rows, features=["age"], bounds={"age": [30, 80], "income": [0, 5]}))
    ages, labels = everything(found, "train")[:, 0], found.labels("train", np.arange(8))[:, 0]
    held = [0, 2, 3, 4, 5, 6, 7, 9]  # the rows that are not tested on
    np.testing.assert_allclose(ages, [-1, -0.6, -0.2, 0.2, 0.6, 1, 1, -0.8], atol=1e-6)
    np.testing.assert_allclose(labels, np.minimum(np.array(held) + 0.5, 5) / 2.5 - 1, atol=1e-6)
    assert found.provenance.endswith("target 0..5 as -1..1)")
    assert found.measured_on is None


@pytest.mark.parametrize(
    ("fields", "reveals"),
    [
        ({}, False),
        ({"measured_on": "train"}, True),
        ({"measured_on": "train", "standardised": False}, True),  # texts are measured
        ({"measured_on": "train", "standardised": False, "features": ["age"]}, False),
        ({"measured_on": "train", "bounds": {"age": [0, 120]}, "features": ["age"]}, False),
    ],
)
def test_scales_measured_on_what_clients_hold_are_known_to_reveal(table, fields, reveals):
    dataset = table(**fields)
    assert DataSpec(dataset=dataset).reveals_scales == reveals
    swapped = DataSpec(dataset=dataset | {"measured_on": "test"}, train_on="test").reveals_scales
    assert swapped == (reveals or not fields)


def test_blanks_after_commas_and_byte_order_marks_are_ignored(tmp_path):
    rows = "\n".join(f"{row}, {'low' if row % 2 else 'high'}" for row in range(10))
    (tmp_path / "rows.CSV").write_text(f"\ufeffage, income\n{rows}\n", encoding="utf-8")
    found = source({"kind": "table", "path": str(tmp_path / "rows.CSV"), "target": "income"})
    assert (found.class_names, found.columns, found.size("train")) == (("high", "low"), ("age", "income"), 8)


@pytest.mark.parametrize("fields", [{}, {"task": "regression"}])
def test_the_target_of_a_regression_is_standardised_and_the_caption_says_so(table, fields):
    income = np.arange(10) * 10 + (0 if fields else 0.5)
    found = source(table(ROWS.assign(income=income), **fields))
    labels = found.labels("test", np.arange(2))
    assert (found.classes, found.outputs, found.class_names, labels.shape) == (0, 1, (), (2, 1))
    assert (labels.mean(), labels.std()) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-6))
    mean, deviation = re.search(r"target minus ([\d.]+), over ([\d.]+)", found.provenance).groups()
    trained = found.labels("train", np.arange(8))[:, 0] * float(deviation) + float(mean)
    assert np.abs(trained[:, None] - income).min(1).max() < 0.05
    plain = source(table(ROWS.assign(income=income), **fields, standardised=False))
    assert set(plain.labels("train", np.arange(8))[:, 0].tolist()) <= set(income.tolist())
    assert "target" not in plain.provenance


@pytest.mark.parametrize(
    ("rows", "fields", "message"),
    [
        (ROWS, {"target": "incme"}, "target: must be a column, got 'incme'; did you mean income?"),
        (ROWS, {"features": ["age", "income"]}, "features: must not hold the target 'income'"),
        (ROWS, {"bounds": {"age": [5, 5]}}, "bounds.age: must be a low and a higher finite number, got 5, 5"),
        (ROWS, {"bounds": {"job": [0, 1]}}, "bounds.job: must be a column of numbers, got text (cook)"),
        (ROWS.assign(age=ROWS["age"].where(ROWS["age"] < 60)), {},
         "age: must have a value in every row, got nan in row 5 (and in 3 more rows); leave *"),
        (ROWS.assign(income=0.5), {"task": "classification"},
         "income: must be text or whole numbers where task is classification, got 0.5"),
        (pd.concat([ROWS] * 11).assign(income=range(110)), {},
         "task: must be classification or regression where the target holds 110 different whole numbers, got auto"),
        (ROWS[:1], {}, "must have at least two rows, got 1"),
        (ROWS.assign(income="low"), {}, "target: must be of at least two classes, got 1"),
    ],
)  # fmt: skip
def test_messages_name_the_file_and_the_column(table, faults, rows, fields, message):
    dataset = table(rows, **fields)
    (found,) = faults(dataset)
    assert fnmatchcase(found.removeprefix(dataset["path"]), f": {message}")


def test_files_that_are_not_tables_are_refused(tmp_path, faults):
    for name, content in (
        ("none.csv", None),
        ("empty.csv", b""),
        ("wrong.parquet", b"PAR"),
        ("binary.csv", b"\xff\xfe\x00a,b"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        (found,) = faults({"kind": "table", "path": str(path), "target": "income"})
        assert found.startswith(f"{path}: cannot be read as a table: ")


def test_a_typo_in_a_column_of_numbers_is_no_category_per_number(table, faults):
    numbers = pd.DataFrame({"age": [str(age) for age in range(100)], "income": ["low", "high"] * 50})
    numbers.loc[41, "age"] = "4l"
    (found,) = faults(table(numbers))
    assert found.endswith(
        "age: must be numbers or text, got '4l' in row 42 among numbers; mend it, or name the column in without"
    )
    prices = pd.DataFrame({"age": range(100), "income": numbers["age"]})
    (found,) = faults(table(prices, "prices.csv"))
    assert found.endswith(
        "income: must be numbers or text, got '4l' in row 42 among numbers; mend it, or set task: classification"
    )
    assert source(table(prices, "prices.csv", task="classification")).classes == 100
    codes = pd.DataFrame({"age": [*(["12", "7", "3b"] * 20), "a"], "income": [*(["low", "high"] * 30), "low"]})
    assert source(table(codes, "codes.csv")).shape == (4,)
