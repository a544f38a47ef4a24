import subprocess
import sys

import numpy as np
import pytest
from pydantic import ValidationError

from asyncfl.data import CATALOG, DataSpec
from asyncfl.data.partition import Dirichlet, Quantity
from asyncfl.errors import DataError
from asyncfl.streams import Streams

DOMAINS = ("mnist", "street_digits", "usps", "synth_digits", "mnist_m")


def small(**fields):
    return DataSpec(**{"clients": 4, "samples_per_client": 10, "test_samples": 12, **fields})


def faults_of(spec):
    with pytest.raises(DataError) as caught:
        spec.build(Streams(0))
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize("name", list(CATALOG))
@pytest.mark.parametrize("source", ["real", "embedded"])
def test_every_data_set_is_built_from_both_sources(save, name, source):
    save(name)
    spec = small(dataset=name, source=source)
    data = spec.build(Streams(0))
    assert data.images.shape == (40, *spec.shape)
    assert data.images.dtype == data.test_images.dtype == np.float32
    assert data.images.flags.c_contiguous
    assert data.labels.shape == (40,)
    assert data.labels.dtype == np.int64
    assert data.test_images.shape == (12, *spec.shape)
    assert (data.source, data.original, data.classes) == (source, False, 10)
    np.testing.assert_array_equal(data.offsets, [0, 10, 20, 30, 40])


def test_images_keep_their_labels_and_none_is_used_twice(save):
    images = np.zeros((60, 28, 28), np.uint8)
    images[:, 0, 0] = np.arange(60)
    save(x_train=images, y_train=(np.arange(60) % 10).astype(np.uint8))
    data = small(scaling="unit").build(Streams(0))
    numbers = np.rint(data.images[:, 0, 0, 0] * 255).astype(int)
    assert len(set(numbers)) == 40
    np.testing.assert_array_equal(data.labels, numbers % 10)


def test_client_views(save):
    save()
    data = small(partition=Quantity(min_samples=2)).build(Streams(0))
    assert data.clients == 4
    images, labels = data.client(2)
    assert len(images) == len(labels) == data.samples(2) == data.sizes[2]
    assert np.shares_memory(images, data.images)
    np.testing.assert_array_equal(np.concatenate([data.client(i)[1] for i in range(4)]), data.labels)


def test_same_seed_same_data_other_seed_other_data(save):
    save()
    for source in ("real", "embedded"):
        spec = small(source=source)
        one, same, other = (spec.build(Streams(seed)).images for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)
        apart = spec.build(Streams(9, data=0)).images
        np.testing.assert_array_equal(one, apart)


def test_partition_and_samples_are_drawn_apart():
    spec, other = small(source="embedded"), small(source="embedded", scaling="unit", partition=Dirichlet())
    one, two = spec.build(Streams(0)), other.build(Streams(0))
    np.testing.assert_array_equal(one.test_labels, two.test_labels)


def test_auto_takes_files_where_they_are(save):
    assert small().resolve_source() == "embedded"
    assert small().build(Streams(0)).source == "embedded"
    save()
    assert small().resolve_source() == "real"
    assert small(domains=DOMAINS[:2]).resolve_source() == "embedded"  # never a mixture


def test_null_shares_out_everything(save):
    save(train=62)
    data = small(samples_per_client=None, test_samples=None).build(Streams(0))
    np.testing.assert_array_equal(data.sizes, [15, 15, 15, 15])
    assert len(data.test_labels) == 20


def test_null_of_stand_ins_is_as_many_as_the_original():
    assert small(samples_per_client=None, clients=600).client_sizes(Streams(0)).sum() == 60000
    assert small(samples_per_client=None, dataset="street_digits").client_sizes(Streams(0)).sum() == 2000


@pytest.mark.parametrize(
    "partition",
    [Quantity(min_samples=2), Dirichlet(), Dirichlet(share_sizes="free", min_samples=1, alpha=5)],
    ids=str,
)
def test_sizes_are_known_without_images(save, partition):
    save()
    spec = small(partition=partition)
    np.testing.assert_array_equal(spec.client_sizes(Streams(3)), spec.build(Streams(3)).sizes)


def test_a_population_larger_than_the_data_can_be_sized(save):
    save()
    assert small(clients=100_000).client_sizes(Streams(0)).sum() == 1_000_000


def test_domains_are_brought_to_one_shape_with_equal_counts():
    spec = small(domains=DOMAINS, clients=10, source="embedded")
    data = spec.build(Streams(0))
    assert data.images.shape == (100, 3, 28, 28) == (100, *spec.shape)
    assert data.domains == DOMAINS
    np.testing.assert_array_equal(data.client_domains, np.repeat(np.arange(5), 2))
    np.testing.assert_array_equal(data.test_offsets, 12 * np.arange(6))
    images, labels = data.test_of(1)
    assert images.shape == (12, 3, 28, 28)
    np.testing.assert_array_equal(labels, data.test_labels[12:24])
    assert data.provenance.count("stand-in for") == 5
    grey, coloured = data.client(0)[0], data.client(2)[0]
    assert (grey[:, 0] == grey[:, 1]).all()
    assert (coloured[:, 0] != coloured[:, 1]).any()


def test_domains_from_files(save):
    for name in DOMAINS:
        save(name)
    data = small(domains=DOMAINS, clients=5).build(Streams(0))
    assert data.source == "real"
    assert "SVHN and Chars74K photographs" in data.provenance


def test_too_many_samples(save):
    save()
    assert faults_of(small(samples_per_client=16)) == [
        "data.samples_per_client: must be at most 15 (60 training samples of MNIST, 4 clients), got 16; "
        "lower data.samples_per_client or data.clients"
    ]


def test_all_faults_at_once(save):
    save()
    found = faults_of(small(samples_per_client=16, test_samples=21))
    assert found[1] == "data.test_samples: must be 1..20 (test samples of MNIST), got 21"


def test_more_clients_than_samples(save):
    save()
    (found,) = faults_of(small(clients=61, samples_per_client=None))
    assert found.startswith("data.clients: must be 1..60")


def test_faults_of_the_partition_and_the_domains():
    assert "data.partition.min_samples" in faults_of(small(partition=Quantity(min_samples=11)))[0]
    assert "data.clients: must be a multiple of the number of domains (5), got 4" in faults_of(small(domains=DOMAINS))
    assert "name each data set once" in faults_of(small(domains=("mnist", "mnist")))[0]


def test_a_damaged_file_is_named(save):
    path = save(x_train=None)
    with pytest.raises(DataError, match=r"mnist\.npz: x_train: is missing") as caught:
        small().build(Streams(0))
    assert caught.value.source == str(path)


@pytest.mark.parametrize(
    "fields", [{"dataset": "cifar"}, {"clients": 0}, {"samples_per_client": 0}, {"partition": {"kind": "x"}}, {"n": 1}]
)
def test_fields_are_validated(fields):
    with pytest.raises(ValidationError):
        small(**fields)


def test_yaml_form_round_trips():
    written = {"dataset": "usps", "clients": 3, "partition": {"kind": "dirichlet", "alpha": 0.1}}
    spec = DataSpec.model_validate(written)
    assert spec.partition == Dirichlet(alpha=0.1)
    assert DataSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_import_is_light():
    heavy = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "pandas"}
    code = f"import sys, asyncfl.data; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
