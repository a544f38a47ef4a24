"""Which data a federation learns from: the part `data` of a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described, choice
from asyncfl.data.catalog import CATALOG, DatasetName
from asyncfl.data.download import fetch
from asyncfl.data.embedded.source import BLOCK, BLOCKS, TEST_SAMPLES, EmbeddedSource
from asyncfl.data.federated import FederatedData, Source
from asyncfl.data.folder import find
from asyncfl.data.npz import NpzSource
from asyncfl.data.partition import Dirichlet, Iid, Partition, Quantity, Shards
from asyncfl.data.pixels import to_common_shape, to_float
from asyncfl.errors import DataError, Fault
from asyncfl.streams import Streams

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
            faults.append(
                Fault("data.clients", f"must be a multiple of the {len(self.names)} domains, got {self.clients}")
            )
        if faults:
            return faults
        sources = self._sources()
        per_client = self._samples_per_client(sources)
        clients = self.clients // len(sources)
        for source in sources:
            available = _training_samples(source)
            if per_client < 1:
                allowed = f"must be 1..{available} (training samples of {source.dataset.title})"
                faults.append(Fault("data.clients", f"{allowed}, got {clients}"))
            elif clients * per_client > available:
                of = f"training samples of {source.dataset.title}"
                faults.append(
                    Fault(
                        "data.samples_per_client",
                        f"must be 1..{available // clients} ({available} {of}, {clients} clients), "
                        f"got {per_client}; lower data.samples_per_client or data.clients",
                    )
                )
            if isinstance(source, NpzSource) and (self.test_samples or 1) > source.size("test"):
                allowed = f"must be 1..{source.size('test')} (test samples of {source.dataset.title})"
                faults.append(Fault("data.test_samples", f"{allowed}, got {self.test_samples}"))
        return faults or self.partition.faults(clients, per_client)

    def build(self, streams: Streams) -> FederatedData:
        """Samples of all clients and the test set.

        Which samples are used is drawn from the stream `samples` of each domain, who gets them from
        `partition`. Raises DataError if there are too few samples, or a file is missing or damaged.
        """
        faults = self.faults()
        if faults:
            raise DataError(faults)
        sources = self._sources()
        per_client = self._samples_per_client(sources)
        clients = self.clients // len(sources)
        train, test, sizes = [], [], []
        for domain, source in enumerate(sources):
            pool = self._pool(source, clients * per_client, streams.generator("samples", task=domain))
            pool_labels = source.labels("train", pool)
            rng = streams.generator("partition", task=domain)
            shares = self.partition.assign(pool_labels, clients, per_client, rng)
            chosen = np.concatenate(shares)
            sizes += [len(share) for share in shares]
            train.append((self._scaled(source, source.images("train", pool[chosen])), pool_labels[chosen]))
            images, labels = self._test(source, streams.generator("samples", client=0, task=domain))
            test.append((self._scaled(source, images), labels))
        return FederatedData(
            images=_joined([images for images, _ in train]),
            labels=_joined([labels for _, labels in train]),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            test_images=_joined([images for images, _ in test]),
            test_labels=_joined([labels for _, labels in test]),
            classes=max(source.dataset.classes for source in sources),
            source=self.resolve_source(),
            provenance="; ".join(source.provenance for source in sources),
            original=all(source.is_original for source in sources),
            domains=self.names,
            client_domains=np.repeat(np.arange(len(sources)), clients),
            test_offsets=np.concatenate([[0], np.cumsum([len(y) for _, y in test])]).astype(np.int64),
        )

    def _sources(self) -> list[NpzSource | EmbeddedSource]:
        datasets = [CATALOG[name] for name in self.names]
        if self.resolve_source() == "embedded":
            return [EmbeddedSource(dataset) for dataset in datasets]
        return [NpzSource(d, find(d.filename) or fetch([d.name])[0]) for d in datasets]

    def _samples_per_client(self, sources: list[NpzSource | EmbeddedSource]) -> int:
        if self.samples_per_client is not None:
            return self.samples_per_client
        clients = self.clients // len(sources)
        return min(_training_samples(source, nominal=True) for source in sources) // clients

    def _pool(self, source: NpzSource | EmbeddedSource, total: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Samples to choose from: all of a file, shuffled; of stand-ins a stretch that is this seed's own."""
        if isinstance(source, NpzSource):
            return rng.permutation(source.size("train"))
        blocks = -(-total * self.partition.spare // BLOCK)
        return int(rng.integers(BLOCKS - blocks)) * BLOCK + np.arange(blocks * BLOCK)

    def _test(
        self, source: NpzSource | EmbeddedSource, rng: np.random.Generator
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        if isinstance(source, EmbeddedSource):
            return source.first_test_samples(self.test_samples or TEST_SAMPLES)
        count = source.size("test")
        chosen = np.arange(count)
        if self.test_samples is not None and self.test_samples < count:
            chosen = np.sort(rng.permutation(count)[: self.test_samples])
        return source.images("test", chosen), source.labels("test", chosen)

    def _scaled(self, source: NpzSource | EmbeddedSource, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        if self.domains:
            images = to_common_shape(images)
        return to_float(images, source.dataset if self.scaling == "standardised" else None)


def _training_samples(source: NpzSource | EmbeddedSource, nominal: bool = False) -> int:
    """Training samples there are; of stand-ins as many as of the original if `nominal`, else no end."""
    if isinstance(source, NpzSource):
        return source.size("train")
    return (source.dataset.official or (2000, 0))[0] if nominal else BLOCK * BLOCKS


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
