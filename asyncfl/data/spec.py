"""Which data a federation learns from: the part `data` of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described, choice
from asyncfl.data.catalog import CATALOG, DatasetName
from asyncfl.data.download import fetch
from asyncfl.data.embedded.source import EmbeddedSource
from asyncfl.data.federated import FederatedData, Source
from asyncfl.data.folder import find
from asyncfl.data.npz import NpzSource
from asyncfl.data.partition import Dirichlet, Iid, Partition, Quantity, Shards
from asyncfl.data.pixels import COMMON_SIDE, to_common_shape, to_float
from asyncfl.errors import DataError, Fault
from asyncfl.streams import Streams

ImageSource = NpzSource | EmbeddedSource

if TYPE_CHECKING:
    AnyPartition = Partition
else:
    AnyPartition: Any = choice(Partition, Iid, Quantity, Dirichlet, Shards)


class DataSpec(Described):
    """Data set, number of clients and how the samples are shared out."""

    dataset: DatasetName = "mnist"
    """Name of the data set. Unused where `domains` names several."""
    domains: tuple[DatasetName, ...] = ()
    """Data sets of a federation of domains: each has equally many clients (the first ones the first domain),
    images are brought to 3 x 28 x 28, and each domain has its own test set. Empty: one data set in its own
    shape."""
    clients: int = Field(default=50, ge=1)
    """Number of clients; with `domains` a multiple of their number."""
    samples_per_client: int | None = Field(default=100, ge=1)
    """Training samples of each client, on average where the partition makes sizes unequal; null: all there
    are, shared out evenly (of stand-ins, as many as the original has)."""
    partition: AnyPartition = Iid()
    """How samples are shared out."""
    source: Literal["auto", "real", "embedded"] = "auto"
    """Where images come from: `real` needs the files (and downloads them if it can), `embedded` draws
    stand-ins, `auto` is real where the files are on disk and embedded otherwise."""
    scaling: Literal["standardised", "unit"] = "standardised"
    """Pixels: minus the data set's published mean, over its deviation; or merely 0..1."""
    test_samples: int | None = Field(default=None, ge=1)
    """Test samples (of each domain); null: all there are, of stand-ins 2000."""

    @property
    def names(self) -> tuple[DatasetName, ...]:
        """Data sets in use: the domains, or the one data set."""
        return self.domains or (self.dataset,)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the images."""
        if self.domains:
            return 3, COMMON_SIDE, COMMON_SIDE
        dataset = CATALOG[self.dataset]
        return dataset.channels, dataset.image_shape[0], dataset.image_shape[1]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return max(CATALOG[name].classes for name in self.names)

    def resolve_source(self) -> Source:
        """Where the images will come from, found without loading any: `real` or `embedded`.

        Raises DataError if ASYNCFL_DATA_DIR names no folder.
        """
        if self.source != "auto":
            return self.source
        found = all(find(CATALOG[name].filename) for name in self.names)
        return "real" if found else "embedded"

    def faults(self) -> list[Fault]:
        """What makes these data impossible, each with its field's name from `data.` on; loads no images.

        Raises DataError for a file that is damaged or missing.
        """
        faults = []
        if len(set(self.names)) < len(self.names):
            faults.append(Fault("data.domains", f"must name each data set once, got {', '.join(self.domains)}"))
        if self.clients % len(self.names):
            allowed = f"must be a multiple of the number of domains ({len(self.names)})"
            faults.append(Fault("data.clients", f"{allowed}, got {self.clients}"))
        if faults:
            return faults
        sources = self._sources()
        clients, samples = self._clients_per_domain, self._samples(sources)
        for source in sources:
            title, train, test = source.dataset.title, source.size("train"), source.size("test")
            if samples < 1:
                allowed = f"must be 1..{source.nominal} (training samples of {title}) where samples_per_client is null"
                faults.append(Fault("data.clients", f"{allowed}, got {clients}"))
            elif clients * samples > train:
                allowed = f"must be at most {train // clients} ({train} training samples of {title}, {clients} clients)"
                way_out = "lower data.samples_per_client or data.clients"
                faults.append(Fault("data.samples_per_client", f"{allowed}, got {samples}; {way_out}"))
            if self.test_samples is not None and self.test_samples > test:
                allowed = f"must be 1..{test} (test samples of {title})"
                faults.append(Fault("data.test_samples", f"{allowed}, got {self.test_samples}"))
        return faults or self.partition.faults(clients, samples)

    def client_sizes(self, streams: Streams) -> NDArray[np.int64]:
        """(clients,) how many samples each client will hold, without loading images.

        Where the partition decides it without labels no data are looked for, so populations larger than the data set
        can be put on the clock.
        """
        sources = [] if self.samples_per_client else self._sources()
        clients, samples = self._clients_per_domain, self._samples(sources)
        sizes = []
        for domain in range(len(self.names)):
            own = self.partition.sizes(clients, samples, streams.generator("partition", task=domain))
            if own is None:
                shares, _ = self._shares(domain, self._sources()[domain], samples, streams)
                own = np.array([len(share) for share in shares])
            sizes.append(own)
        return _joined(sizes)

    def build(self, streams: Streams) -> FederatedData:
        """Samples of all clients and the test set.

        Which samples are used is drawn from the stream `samples` of each domain, who gets them from `partition`.
        Raises DataError if there are too few samples, or a file is missing or damaged.
        """
        if faults := self.faults():
            raise DataError(faults)
        sources = self._sources()
        samples = self._samples(sources)
        images, labels, test_images, test_labels, sizes = [], [], [], [], []
        for domain, source in enumerate(sources):
            shares, label_of = self._shares(domain, source, samples, streams)
            sizes += [len(share) for share in shares]
            chosen = np.concatenate(shares)
            images.append(self._scaled(source, source.images("train", chosen)))
            labels.append(label_of)
            tested = source.test_set(self.test_samples, streams.generator("samples", client=0, task=domain))
            test_images.append(self._scaled(source, tested[0]))
            test_labels.append(tested[1])
        return FederatedData(
            images=_joined(images),
            labels=_joined(labels),
            offsets=_offsets(sizes),
            test_images=_joined(test_images),
            test_labels=_joined(test_labels),
            classes=self.classes,
            source=self.resolve_source(),
            provenance="; ".join(source.provenance for source in sources),
            original=all(source.is_original for source in sources),
            domains=self.names,
            client_domains=np.repeat(np.arange(len(sources)), self._clients_per_domain),
            test_offsets=_offsets([len(part) for part in test_labels]),
        )

    @property
    def _clients_per_domain(self) -> int:
        return self.clients // len(self.names)

    def _samples(self, sources: list[ImageSource]) -> int:
        """Samples per client, on average."""
        if self.samples_per_client is not None:
            return self.samples_per_client
        return min(source.nominal for source in sources) // self._clients_per_domain

    def _sources(self) -> list[ImageSource]:
        datasets = [CATALOG[name] for name in self.names]
        if self.resolve_source() == "embedded":
            return [EmbeddedSource(dataset) for dataset in datasets]
        missing = [d.name for d in datasets if find(d.filename) is None]
        fetched = dict(zip(missing, fetch(missing), strict=True))
        return [NpzSource(d, find(d.filename) or fetched[d.name]) for d in datasets]

    def _shares(
        self, domain: int, source: ImageSource, samples: int, streams: Streams
    ) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Training samples of each client of a domain, and the labels of all of them."""
        clients = self._clients_per_domain
        pool = source.pool(clients * samples * self.partition.spare, streams.generator("samples", task=domain))
        labels = source.labels("train", pool)
        shares = self.partition.assign(labels, clients, samples, streams.generator("partition", task=domain))
        return [pool[share] for share in shares], labels[np.concatenate(shares)]

    def _scaled(self, source: ImageSource, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        if self.domains:
            images = to_common_shape(images)
        return to_float(images, source.dataset if self.scaling == "standardised" else None)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _offsets(sizes: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
