import numpy as np
import pytest

from asyncfl.base.errors import DataError
from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.class_counts import ClassCounts, count_classes
from asyncfl.data.partition import ByColumn, Dirichlet, Pathological, Quantity


@pytest.fixture
def writers(tmp_path):
    """A data set of four writers, with its path."""
    writer = np.repeat(np.arange(4), [30, 20, 10, 40])
    np.savez(
        tmp_path / "notes.npz",
        x_train=np.arange(300.0).reshape(100, 3),
        y_train=np.arange(100) % 5,
        x_test=np.zeros((5, 3)),
        y_test=np.arange(5),
        writer_train=writer,
    )
    return {"kind": "npz", "path": str(tmp_path / "notes.npz")}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"partition": Dirichlet(alpha=0.1)},
        {"partition": Quantity(min_samples=2)},
        {"partition": Pathological(classes_per_client=3)},
        {"domains": ("mnist", "usps")},
        {"concept": {"kind": "relabelled"}},
    ],
)
def test_counts_agree_with_the_data_that_are_built(fields):
    spec = DataSpec(**{"clients": 6, "samples_per_client": 20, "source": "embedded", "test_samples": 5, **fields})
    holdings, data = count_classes(spec, Streams(3)), spec.build(Streams(3))
    built = [np.bincount(data.client(client)[1], minlength=10) for client in range(6)]
    np.testing.assert_array_equal(holdings.counts, built)
    assert holdings.owners == ()
    assert holdings.domains == (("mnist",) * 3 + ("usps",) * 3 if spec.domains else ())


def test_clients_by_a_column_have_the_sizes_of_the_data(writers):
    spec = DataSpec(dataset=writers, clients=3, samples_per_client=None, partition=ByColumn(column="writer"))
    holdings, data = count_classes(spec, Streams(0)), spec.build(Streams(0))
    sizes = {"0": 30, "1": 20, "2": 10, "3": 40}
    assert holdings.sizes.tolist() == [sizes[name] for name in holdings.owners] == data.sizes.tolist()
    np.testing.assert_array_equal(spec.client_sizes(Streams(0)), data.sizes)
    for client, name in enumerate(holdings.owners):
        numbers = data.client(client)[0][:, 0] / 3
        assert set(np.repeat(np.arange(4), [30, 20, 10, 40])[numbers.astype(int)]) == {int(name)}
    capped = DataSpec(dataset=writers, clients=4, samples_per_client=15, partition=ByColumn(column="writer"))
    assert sorted(capped.build(Streams(0)).sizes.tolist()) == [10, 15, 15, 15]


def test_unknown_columns_and_too_many_clients_are_refused(writers):
    spec = DataSpec(dataset=writers, clients=3, partition=ByColumn(column="author"))
    assert [str(fault) for fault in spec.faults()] == [
        "partition.column: must be label or a column of notes.npz (writer), got 'author'"
    ]
    spec = DataSpec(dataset=writers, clients=5, partition=ByColumn(column="writer"))
    (fault,) = spec.faults()
    assert fault.field == "clients"
    with pytest.raises(DataError, match=r"data\.clients: must be at most 4"):
        count_classes(spec, Streams(0))


def test_targets_of_a_regression_are_counted_by_fifths():
    spec = DataSpec(dataset="diabetes", clients=3, samples_per_client=None)
    holdings = count_classes(spec, Streams(0))
    assert holdings.counts.shape == (3, 5)
    assert holdings.counts.sum(0).tolist() == pytest.approx([354 / 5] * 5, abs=3)
    assert holdings.class_names[-1].startswith("above ")
    assert "of 5 of 5 fifths of the target" in holdings.summary
    labels = spec.build(Streams(0)).client(0)[0]
    assert holdings.sizes[0] == len(labels)


def test_skew_and_summary_by_hand():
    holdings = ClassCounts(np.array([[4, 0], [0, 4], [1, 1]]), ("no", "yes"), "label", (), (), "mine")
    np.testing.assert_allclose(holdings.skew, [0.5, 0.5, 0.0])
    assert holdings.largest_classes(0) == "no (100 %)"
    assert holdings.largest_classes(2, 1) == "no (50 %), 1 more"
    assert holdings.summary == (
        "3 clients with 2 to 4 samples (median 4) of 1 to 2 of 2 classes; skew (total variation from the mixture of "
        "all, 0..1) 0.33 on average, 0.50 at most"
    )
