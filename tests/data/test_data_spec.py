import dataclasses
from fnmatch import fnmatchcase

import numpy as np
import pytest

from asyncfl.base.errors import DataError, ScenarioError
from asyncfl.base.streams import Streams
from asyncfl.data import CATALOG, DataSpec
from asyncfl.data.class_counts import count_classes
from asyncfl.data.concept import Relabelled
from asyncfl.data.partition import Dirichlet, Partition, Quantity
from asyncfl.scenario import Scenario

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
    assert (data.source, data.original, data.classes) == (source, False, CATALOG[name].classes)
    np.testing.assert_array_equal(data.offsets, [0, 10, 20, 30, 40])


def test_data_depend_on_the_seed_alone(save):
    save()
    for source in ("real", "embedded"):
        spec = small(source=source)
        one, same, other = (spec.build(Streams(seed)).images for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)
        apart = spec.build(Streams(9, data=0)).images
        np.testing.assert_array_equal(one, apart)


def test_source_auto_is_real_if_all_files_are_on_disk(save):
    assert small().resolve_source() == small().build(Streams(0)).source == "embedded"
    save()
    assert small().resolve_source() == "real"
    assert small(domains=DOMAINS[:2]).resolve_source() == "embedded"
    save("street_digits")
    assert small(domains=("mnist", "svhn")).resolve_source() == "real", "street digits replace SVHN as a domain"
    assert small(dataset="svhn").resolve_source() == "embedded"


def test_null_uses_all_samples_or_as_many_stand_ins_as_the_original_has(save):
    save(train=62)
    data = small(samples_per_client=None, test_samples=None).build(Streams(0))
    np.testing.assert_array_equal(data.sizes, [15, 15, 15, 15])
    assert len(data.test_labels) == 20
    save(train=62).unlink()
    assert small(samples_per_client=None, clients=600).client_sizes(Streams(0)).sum() == 60000
    assert small(samples_per_client=None, dataset="street_digits").client_sizes(Streams(0)).sum() == 2000


@pytest.mark.parametrize(
    "partition", [Quantity(min_samples=2), Dirichlet(), Dirichlet(share_sizes="free", min_samples=1, alpha=5)], ids=str
)
def test_sizes_are_known_without_images(save, partition):
    save()
    spec = small(partition=partition)
    np.testing.assert_array_equal(spec.client_sizes(Streams(3)), spec.build(Streams(3)).sizes)
    assert small(clients=100_000).client_sizes(Streams(0)).sum() == 1_000_000, "of more samples than the file holds"


def test_domains_have_one_shape_and_equal_counts():
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


def test_mixed_domains_are_dealt_to_all_clients():
    apart = small(domains=DOMAINS, clients=5, samples_per_client=100, source="embedded", scaling="unit")
    mixed = apart.model_copy(update={"mixed_domains": True})
    one, all_in_one = apart.build(Streams(0)), mixed.build(Streams(0))
    assert all_in_one.domains == ("mixed",)
    assert (all_in_one.client_domains == 0).all()
    np.testing.assert_array_equal(all_in_one.sizes, [100] * 5)
    np.testing.assert_array_equal(all_in_one.test_labels, one.test_labels)

    def samples(data):
        return sorted((label, image.tobytes()) for label, image in zip(data.labels.tolist(), data.images, strict=True))

    assert samples(all_in_one) == samples(one), "the same samples, other owners"
    home = {image.tobytes(): client for client in range(5) for image in one.client(client)[0]}
    for client in range(5):
        from_domain = np.bincount([home[image.tobytes()] for image in all_in_one.client(client)[0]], minlength=5)
        # 100 of 500 drawn without replacement: hypergeometric, deviation 3.6; five of them to each side
        assert (np.abs(from_domain - 20) <= 18).all()
    counts = count_classes(mixed, Streams(0))
    assert counts.domains == ()
    np.testing.assert_array_equal(counts.counts[2], np.bincount(all_in_one.client(2)[1], minlength=10))


def test_street_digits_replace_an_incomplete_svhn_among_domains(save, monkeypatch):
    save("svhn")
    save("mnist")
    spec = small(domains=("mnist", "svhn"))
    assert "SVHN, official images, subset" in spec.build(Streams(0)).provenance
    save("street_digits")
    substitute = "stand-in for SVHN: street digits, SVHN and Chars74K photographs (60 + 20 images)"
    assert spec.build(Streams(0)).provenance.split("; ")[1] == substitute
    assert "stand-in" not in small(domains=("street_digits", "mnist")).build(Streams(0)).provenance
    monkeypatch.setitem(CATALOG, "svhn", dataclasses.replace(CATALOG["svhn"], official=(60, 20)))
    assert "SVHN, complete" in spec.build(Streams(0)).provenance


def test_a_test_share_limits_the_training_samples(save):
    """USPS has 15 test samples, a third of 60 training samples: 30 for each of two clients."""
    save("mnist", train=100, test=50)
    save("usps", train=80, test=15)
    spec = small(domains=("mnist", "usps"), samples_per_client=None, test_samples=None, test_share=0.2)
    data = spec.build(Streams(0))
    np.testing.assert_array_equal(data.sizes, [30] * 4)
    np.testing.assert_array_equal(np.diff(data.test_offsets), [15, 15])


@pytest.mark.parametrize("source", ["real", "embedded"])
def test_clients_may_hold_the_test_split(save, source):
    save("mnist")
    usual, swapped = (
        small(source=source, samples_per_client=5, train_on=split).build(Streams(0)) for split in ("train", "test")
    )
    assert (swapped.images.shape, swapped.test_images.shape) == (usual.images.shape, usual.test_images.shape)
    assert not np.array_equal(swapped.images, usual.images)
    assert not np.array_equal(swapped.test_images, usual.test_images)
    assert "clients hold the test split" in swapped.provenance


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"samples_per_client": 16, "test_samples": 21},
         ["samples_per_client: must be at most 15 (60 training samples of MNIST, 4 clients), got 16; lower *",
          "test_samples: must be 1..20 (20 test samples of MNIST), got 21"]),
        ({"holders": 2, "samples_per_client": 30},
         ["samples_per_client: must be at most 29 (60 training samples of MNIST, 4 clients, 2 of them holders)*"]),
        ({"domains": ("mnist", "usps"), "samples_per_client": 35},
         ["samples_per_client: must be at most 30 (60 training samples of MNIST, 60 of USPS, 2 clients of each *"]),
        ({"domains": ("mnist", "usps"), "samples_per_client": 30, "test_samples": None, "test_share": 0.5},
         ["test_share: asks for 60 test samples of each domain, and there are 20 test samples of MNIST, 20 of *"]),
        ({"clients": 61, "samples_per_client": None}, ["clients: must be 1..60 (samples of MNIST *, got 61"]),
        ({"mixed_domains": True}, ["mixed_domains: must be false unless domains are given with partition: iid, got *"]),
        ({"test_share": 0.5}, ["test_share: must be null where test_samples (12) is given"]),
        ({"domains": ("mnist", "mnist")}, ["domains: must name each data set once, got mnist, mnist"]),
        ({"domains": DOMAINS}, ["clients: must be a multiple of the number of domains (5), got 4"]),
        ({"train_on": "test", "domains": DOMAINS[:2]}, ["train_on: must be train where domains *, got test"]),
        ({"dataset": "diabetes", "partition": Dirichlet(), "concept": Relabelled()},
         ["partition.kind: dirichlet needs classes, but diabetes is a regression; take iid, quantity or by (a column)",
          "concept: relabelled needs classes, but diabetes is a regression; leave it null"]),
    ],
)  # fmt: skip
def test_impossible_requests_are_refused(save, fields, messages):
    for name in ("mnist", "usps"):
        save(name)
    for found, message in zip(faults_of(small(**fields)), messages, strict=True):
        assert fnmatchcase(found, f"data.{message}")


def numbered(save, name="mnist", train=60, test=20):
    """Save a file in which all pixels of an image are its own number."""
    shape = CATALOG[name].image_shape
    numbers = np.arange(train + test, dtype=np.uint8)
    images = np.broadcast_to(numbers.reshape(-1, *[1] * len(shape)), (train + test, *shape)).copy()
    labels = numbers % 10
    save(name, x_train=images[:train], y_train=labels[:train], x_test=images[train:], y_test=labels[train:])


def numbers_in(images):
    return np.rint(images[:, 0, 0, 0] * 255).astype(int)


@pytest.mark.parametrize(("samples", "tested", "root"), [(10, 12, 20), (10, 12, 28), (15, 12, 8), (14, None, 4)])
def test_the_servers_samples_are_used_by_no_client_and_no_test(save, samples, tested, root):
    numbered(save)
    spec = small(samples_per_client=samples, test_samples=tested, scaling="unit")
    data, plain = spec.build(Streams(0), root), spec.build(Streams(0))
    held, tests, roots = (numbers_in(images) for images in (data.images, data.test_images, data.root[0]))
    assert len(set(roots)) == len(roots) == root
    assert not set(roots) & (set(held) | set(tests))
    # Of the clients' split as far as it goes.
    assert sum(number < 60 for number in roots) == min(root, 60 - 4 * samples)
    np.testing.assert_array_equal(data.root[1], roots % 10)
    np.testing.assert_array_equal(data.images, plain.images)
    np.testing.assert_array_equal(data.test_images, plain.test_images)
    assert len(tests) == (20 if tested is None else tested)
    assert plain.root is None


def test_too_many_samples_for_the_server_are_refused(save):
    numbered(save)
    with pytest.raises(DataError) as caught:
        small(samples_per_client=15, test_samples=12).build(Streams(0), 9)
    (fault,) = map(str, caught.value.faults)
    assert fault == (
        "defence.root_samples: must be at most 8 (samples that are neither trained nor tested on: 8 of MNIST), got 9; "
        "lower it, data.samples_per_client or data.test_samples"
    )
    assert list(small(samples_per_client=15, test_samples=12).root_faults(8)) == []


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (
            "mnits",
            ": must be a data set, got 'mnits'; did you mean mnist?",
        ),
        (5, ": must be a mapping with a kind (npz, npy, folder, table, huggingface, scikit_learn), got 5"),
        ({"kind": "table", "path": "a.csv"}, ".target: is required and missing"),
        ({"kind": "npz", "pth": "a.npz"}, ".pth: is no field of kind npz; did you mean path?"),
    ],
)
def test_an_invalid_data_set_is_reported_once(tiny, dataset, message):
    tiny["data"] = {"dataset": dataset}
    with pytest.raises(ScenarioError) as caught:
        Scenario.read(tiny)
    assert any(str(fault).startswith(f"data.dataset{message}") for fault in caught.value.faults)
    assert len([fault for fault in caught.value.faults if fault.field == "data.dataset"]) <= 1


class Unfair(Partition):
    """A partition that leaves the last client without samples."""

    kind: str = "tests:Unfair"
    shares: int = 3

    def assign(self, labels, clients, samples_per_client, rng):
        most = [np.arange(3), np.arange(3, 4), np.arange(0)]
        return most[: self.shares]


@pytest.mark.parametrize(("shares", "got"), [(3, "client 2 got none"), (2, "got 2 shares")])
def test_a_partition_must_leave_each_client_a_sample(shares, got):
    spec = DataSpec(clients=3, samples_per_client=4, source="embedded", partition=Unfair(shares=shares))
    with pytest.raises(DataError, match=rf"Unfair must leave each of 3 clients at least one sample, {got}"):
        spec.build(Streams(0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"samples_per_client": 10_000_000}, "samples_per_client: must be at most 125000 (*), got 10000000; *"),
        ({"test_samples": 10_000_000, "domains": ("mnist", "usps")}, "test_samples: must be 1..250000 (*), got 1*"),
        ({"test_samples": None, "test_share": 0.99999}, "test_share: asks for 3999960 test samples, *; lower it or *"),
    ],
)  # fmt: skip
def test_more_stand_ins_than_are_drawn_are_refused(fields, message):
    (found,) = map(str, small(source="embedded", **fields).faults())
    assert fnmatchcase(found, message)
    assert "no more than 500000 stand-ins are drawn" in found


def test_a_large_population_can_be_timed_but_not_built():
    spec = small(source="embedded", clients=100_000, samples_per_client=90)
    assert list(spec.faults()) == []
    assert spec.client_sizes(Streams(0)).sum() == 9_000_000
    with pytest.raises(DataError, match=r"data\.samples_per_client: must be at most 5"):
        spec.build(Streams(0))
    with pytest.raises(DataError, match=r"data\.clients: must be at most 500000 \(no more than 500000 stand-ins"):
        small(source="embedded", clients=1_000_000).build(Streams(0))


@pytest.mark.parametrize("source", ["real", "embedded"])
def test_clients_beyond_the_holders_have_one_sample_each(save, source):
    save("mnist")
    spec = small(source=source, clients=6, holders=4, partition={"kind": "similarity", "gamma": 0.0})
    data = spec.build(Streams(0))
    assert np.diff(data.offsets).tolist() == spec.client_sizes(Streams(0)).tolist() == [10, 10, 10, 10, 1, 1]


def test_more_holders_than_clients_are_refused():
    assert faults_of(small(holders=5)) == ["data.holders: must be 1..clients (4), got 5"]


def test_models_may_be_tested_on_pixels_of_another_scale(save):
    save("mnist")
    other, same = (small(source="real", scaling="symmetric", test_scaling=one) for one in ("unit", None))
    mixed, alike = other.build(Streams(0)), same.build(Streams(0))
    assert mixed.images.min() == -1.0
    np.testing.assert_array_equal(mixed.images, alike.images)
    np.testing.assert_allclose(2 * mixed.test_images - 1, alike.test_images, atol=1e-6)
