"""Which data a federation learns from: the part `data` of a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.component import Described, choice, kind_of
from asyncfl.data.array_sets import AnyName, array_source, dataset_without_stand_in, name_or_description, resolved
from asyncfl.data.canaries import Canaries, PlantedCanaries, plant_canaries
from asyncfl.data.catalog import CATALOG, DatasetName
from asyncfl.data.concept import Concept, Relabelled, Restyled
from asyncfl.data.federated import FederatedData, Source, concatenate, offsets_from_sizes
from asyncfl.data.image_file import ImageFileSource
from asyncfl.data.image_sources import on_disk, sources_of
from asyncfl.data.own import Dataset, HuggingFace, ImageFolder, NpyFolder, NpzFile, ScikitLearn, TableFile
from asyncfl.data.own.arrays import ArraySource
from asyncfl.data.own.mapped_rows import MappedRows
from asyncfl.data.partition import (
    ByColumn,
    Dirichlet,
    Iid,
    InnerDirichlet,
    Partition,
    Pathological,
    Quantity,
    Shards,
)
from asyncfl.data.partition.by_class import regression_faults
from asyncfl.data.pixels import COMMON_SIDE, to_common_shape
from asyncfl.data.sample_limits import (
    SampleRequest,
    other,
    root_shortage_faults,
    root_stand_in_faults,
    shortage_faults,
    stand_in_faults,
)
from asyncfl.data.sample_source import SampleSource, Split
from asyncfl.errors import DataError, Fault
from asyncfl.quantities import MeasuredIn
from asyncfl.streams import Streams

if TYPE_CHECKING:
    AnyConcept = Concept
    AnyPartition = Partition
    AnyDataset = AnyName | Dataset
else:
    AnyConcept: Any = choice(Concept, Relabelled, Restyled)
    AnyPartition: Any = choice(Partition, Iid, Quantity, Dirichlet, Shards, Pathological, InnerDirichlet, ByColumn)
    AnyDataset: Any = name_or_description(
        choice(Dataset, NpzFile, NpyFolder, ImageFolder, TableFile, HuggingFace, ScikitLearn)
    )


class DataSpec(Described):
    """Data set, number of clients and how the samples are shared out."""

    dataset: AnyDataset = "mnist"
    """Name of a data set, or one of your own: files (`kind: npz`, `folder`, `table`) or a class (`my_module:MyData`).
    Unused where `domains` names several."""
    domains: tuple[DatasetName, ...] = ()
    """Data sets of a federation of domains: each has equally many clients (the first ones the first domain),
    images are brought to 3 x 28 x 28, and each domain has its own test set. Street digits take the place of SVHN
    where its file is missing or not complete. Empty: one data set in its own shape."""
    clients: Annotated[int, MeasuredIn("clients")] = Field(default=50, ge=1, le=10_000_000)
    """Number of clients; with `domains` a multiple of their number."""
    samples_per_client: Annotated[int, MeasuredIn("samples")] | None = Field(default=100, ge=1, le=10_000_000)
    """Training samples of each client, on average where the partition makes sizes unequal; null: all there
    are, shared out evenly (of stand-ins, as many as the original has). Stand-ins are drawn up to 500 000 in all."""
    partition: AnyPartition = Iid()
    """How samples are shared out."""
    source: Literal["auto", "real", "embedded"] = "auto"
    """Where the samples of a named data set come from: `real` needs the files (and downloads them if it can),
    `embedded` draws stand-ins, `auto` is real where the files are on disk and embedded otherwise."""
    scaling: Literal["standardised", "unit"] = "standardised"
    """Pixels: minus the data set's published mean (of pictures of your own: the measured one), over its deviation; or
    merely 0..1. Other numbers of your own are taken as they are."""
    test_samples: Annotated[int, MeasuredIn("samples")] | None = Field(default=None, ge=1, le=10_000_000)
    """Test samples (of each domain); null: all there are, of stand-ins 2000."""
    test_share: Annotated[float, MeasuredIn("share")] | None = Field(default=None, gt=0, lt=1)
    """Instead of `test_samples`: the part that test samples are of all samples in use of each domain, .2 for a split
    of 80 to 20. They are taken from the data set's own test split all the same."""
    train_on: Split = "train"
    """Split of the data set that clients hold; models are tested on the other. `test` is one reading of SAFL's 100
    samples per client, `train` (of MNIST 600 for each of 100 clients) everybody else's."""
    concept: AnyConcept | None = None
    """Groups of clients that name classes or see images in their own way; null: all agree."""
    canaries: Canaries | None = None
    """Records that are planted so that an audit can count how many it recognises; null: none. A run with canaries is
    another run: some of its data are wrong on purpose."""

    @property
    def own(self) -> ArraySource | None:
        """The samples of a data set that is arrays (one's own, a table, one with owners), loaded when first asked for;
        None where it is images by name.

        Raises DataError where they cannot be loaded, or something is wrong with them.
        """
        return None if self.domains else array_source(self.dataset, self.source)

    @property
    def names(self) -> tuple[str, ...]:
        """Data sets in use: the domains, or the one data set."""
        if self.domains:
            return self.domains
        return (self.dataset if isinstance(self.dataset, str) else self.dataset.title,)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample: channels, height and width of images, whatever it is of data of one's own."""
        if self.own is not None:
            return self.own.shape
        if self.domains:
            return 3, COMMON_SIDE, COMMON_SIDE
        dataset = CATALOG[self.names[0]]
        return dataset.channels, dataset.image_shape[0], dataset.image_shape[1]

    @property
    def classes(self) -> int:
        """Number of classes; 0: a regression."""
        return max(CATALOG[name].classes for name in self.names) if self.own is None else self.own.classes

    @property
    def outputs(self) -> int:
        """Numbers that a model answers: one for each class, or those that a regression predicts."""
        return self.classes if self.own is None else self.own.outputs

    def content_digest(self) -> str | None:
        """What tells the samples apart from others of the same name: SHA-256 of a data set that is arrays, checksums
        of images; None of stand-ins, and of images that are those that the catalogue knows by that name."""
        if self.resolve_source() == "embedded":
            return None
        if self.own is not None:
            return self.own.digest
        images = (one for one in self.sources() if isinstance(one, ImageFileSource))
        return ", ".join(f"{one.name} {one.content}" for one in images if one.content != one.dataset.content) or None

    def resolve_source(self) -> Source:
        """Where the images will come from, found without loading any: `real` or `embedded`.

        Raises DataError if ASYNCFL_DATA_DIR names no folder.
        """
        if self.source != "auto":
            return self.source
        if not self.domains and (found := resolved(self.dataset, self.source)) is not None:
            return found
        return "real" if on_disk(self.names, bool(self.domains)) else "embedded"

    def faults(self) -> Iterator[Fault]:
        """What makes these data impossible, fields named relative to them; loads no images.

        Raises DataError for a file that is damaged or missing.
        """
        if wrong := list(self._contradictions()):
            yield from wrong
            return
        sources = self.sources()
        clients, samples = self._clients_per_domain, self._samples(sources)
        if samples < 1:
            least = min(sources, key=self._most)
            allowed = f"must be 1..{self._most(least)} (samples of {least.title} to train on)"
            yield Fault("clients", f"{allowed} where samples_per_client is null, got {clients}")
            return
        asked = self._sample_request(samples, 0)
        drawn = self.own is None and self.resolve_source() == "embedded"
        short = list(stand_in_faults(asked, drawn_for=1) if drawn else shortage_faults(asked, sources))
        short = short or [fault.under("partition") for fault in self.partition.faults(clients, samples)]
        if not short and (self.partition.sizes_from_data or self.partition.split_column != "label"):
            short = list(self._sharing_faults(sources, samples))
        yield from short
        if self.canaries is not None:
            found = self.canaries.faults(self.clients, samples * self.clients)
            yield from (fault.under("canaries") for fault in found)

    def _sharing_faults(self, sources: list[SampleSource], samples: int) -> Iterator[Fault]:
        """What only the values of a column tell: that there is no such column, or that it has too few values."""
        for domain, source in enumerate(sources):
            try:
                self._shares(domain, source, samples, Streams(0))
            except DataError as error:
                yield from (Fault(fault.field.removeprefix("data."), fault.message) for fault in error.faults)

    def root_faults(self, root_samples: int) -> Iterator[Fault]:
        """Why the server cannot have `root_samples` of its own, see `build`; fields named relative to the defence.

        Raises DataError for a file that is damaged or missing.
        """
        if root_samples and self.own is None and self.resolve_source() == "embedded":
            yield from root_stand_in_faults(root_samples)
        elif root_samples and not list(self.faults()):
            sources = self.sources()
            yield from root_shortage_faults(self._sample_request(self._samples(sources), root_samples), sources)

    def _contradictions(self) -> Iterator[Fault]:
        """Fields that do not go together, whatever the data sets hold."""
        if len(set(self.names)) < len(self.names):
            yield Fault("domains", f"must name each data set once, got {', '.join(self.domains)}")
        if self.clients % len(self.names):
            allowed = f"must be a multiple of the number of domains ({len(self.names)})"
            yield Fault("clients", f"{allowed}, got {self.clients}")
        if self.test_share is not None and self.test_samples is not None:
            yield Fault("test_share", f"must be null where test_samples ({self.test_samples}) is given")
        if self.train_on == "test" and (self.domains or self.test_share is not None):
            yield Fault("train_on", "must be train where domains or a test_share are given, got test")
        alone = None if self.domains else dataset_without_stand_in(self.dataset)
        if alone is not None and self.source == "embedded":
            yield Fault("source", f"must be auto or real for {alone.title}, which has no stand-in, got embedded")
        if self.own is not None and self.own.on_disk:
            for field in ("concept", "canaries"):
                if getattr(self, field) is not None:
                    yield Fault(field, f"must be null where samples stay on disk ({self.own.title}); take kind: npz")
        if not self.classes:
            yield from regression_faults(self.names[0], self.partition, self.concept)
        elif self.concept is not None:
            yield from (fault.under("concept") for fault in self.concept.faults(self.clients, self.classes))
            if isinstance(self.concept, Restyled) and self.own is not None:
                yield from (fault.under("concept") for fault in self.concept.image_faults(self.own))

    def client_sizes(self, streams: Streams) -> NDArray[np.int64]:
        """(clients,) how many samples each client will hold, without loading images.

        Where the partition decides it without labels no data are looked for, so populations larger than the data set
        can be put on the clock.
        """
        sources = [] if self.samples_per_client and not self.partition.sizes_from_data else self.sources()
        clients, samples = self._clients_per_domain, self._samples(sources)
        sizes = []
        for domain in range(len(self.names)):
            own = self.partition.sizes(clients, samples, streams.generator("partition", number=domain))
            if own is None:
                shares, _ = self._shares(domain, self.sources()[domain], samples, streams)
                own = np.array([len(share) for share in shares])
            sizes.append(own)
        return concatenate(sizes)

    def build(self, streams: Streams, root_samples: int = 0) -> FederatedData:
        """Samples of all clients, the test set, and `root_samples` of the server's own.

        Which samples are used is drawn from the stream `samples` of each domain, who gets them from `partition`. The
        server's are drawn, as many of each domain, from what clients have left of their split, and where that is too
        little from what the test has left of the other.
        Raises DataError if there are too few samples, with fields named from the scenario on, or if a file is missing
        or damaged.
        """
        faults = [fault.under("data") for fault in self.faults()]
        faults += [fault.under("defence") for fault in self.root_faults(root_samples)]
        if faults:
            raise DataError(faults)
        sources = self.sources()
        samples, per_domain = self._samples(sources), self._clients_per_domain
        asked = self._sample_request(samples, root_samples)
        if (
            self.own is None
            and self.resolve_source() == "embedded"
            and (faults := list(stand_in_faults(asked, self.clients)))
        ):
            raise DataError(fault.under("data") for fault in faults)
        images, labels, test_images, test_labels, sizes = [], [], [], [], []
        root_images, root_labels = [], []
        for domain, (source, held, owners, named) in enumerate(self._assignments(sources, streams)):
            members = domain * per_domain + np.arange(per_domain)
            sizes += np.bincount(owners - members[0], minlength=per_domain).tolist()
            if isinstance(source, ArraySource) and source.on_disk:
                mapped = MappedRows(source, self.train_on, held, source.shape, self.scaling == "standardised")
                images.append(cast(NDArray[np.float32], mapped))  # an array to whoever trains on it
            else:
                pixels = source.images(self.train_on, held)
                images.append(self._scaled(source, self._seen(pixels, owners)))
            labels.append(named)
            random = streams.generator("samples", client=0, number=domain)
            pixels, label_of, tested = source.test_set(asked.tested, random, self.test_on)
            owners = members[np.arange(len(label_of)) % per_domain]
            test_images.append(self._scaled(source, self._seen(pixels, owners)))
            test_labels.append(self._named(label_of, owners, streams))
            random, left = streams.generator("root_set", number=domain), asked.roots[domain]
            for split, used in ((self.train_on, held), (self.test_on, tested)):
                chosen = source.unused(left, used, random, split) if left else used[:0]
                left -= len(chosen)
                if len(chosen):
                    owners = members[np.arange(len(chosen)) % per_domain]
                    root_images.append(self._scaled(source, self._seen(source.images(split, chosen), owners)))
                    root_labels.append(self._named(source.labels(split, chosen), owners, streams))
            if left:
                message = f"must be lower: clients and tests leave {left} too few of {source.title}"
                raise DataError([Fault("defence.root_samples", f"{message}, got {root_samples}")])
        said = [source.provenance for source in sources] + ([self.concept.description] if self.concept else [])
        said += [self.canaries.description] if self.canaries else []
        said += ["clients hold the test split, tested on the training split"] if self.train_on == "test" else []
        held_images, held_labels, offsets = concatenate(images), concatenate(labels), offsets_from_sizes(sizes)
        planted: PlantedCanaries | None = None
        if self.canaries is not None:
            if faults := list(self.canaries.faults(self.clients, len(held_labels))):
                raise DataError(fault.under("data.canaries") for fault in faults)
            held_images, held_labels, planted = plant_canaries(
                self.canaries, held_images, held_labels, offsets, self.classes, streams
            )
        return FederatedData(
            images=held_images,
            labels=held_labels,
            offsets=offsets,
            test_images=concatenate(test_images),
            test_labels=concatenate(test_labels),
            classes=self.classes,
            source=self.resolve_source(),
            provenance="; ".join(said),
            original=self.concept is None and planted is None and all(source.is_original for source in sources),
            domains=self.names,
            client_domains=np.repeat(np.arange(len(sources)), per_domain),
            test_offsets=offsets_from_sizes([len(part) for part in test_labels]),
            root=(concatenate(root_images), concatenate(root_labels)) if root_samples else None,
            canaries=planted,
        )

    def assignments(
        self, streams: Streams
    ) -> Iterator[tuple[SampleSource, NDArray[np.int64], NDArray[np.int64], NDArray[Any]]]:
        """Of each domain its samples, which of them are held, by whom, and their labels as that client takes them; as
        `build` with equal streams shares them out, without reading features. Raises DataError."""
        if faults := list(self.faults()):
            raise DataError(fault.under("data") for fault in faults)
        yield from self._assignments(self.sources(), streams)

    def _assignments(
        self, sources: list[SampleSource], streams: Streams
    ) -> Iterator[tuple[SampleSource, NDArray[np.int64], NDArray[np.int64], NDArray[Any]]]:
        samples, per_domain = self._samples(sources), self._clients_per_domain
        for domain, source in enumerate(sources):
            shares, labels = self._shares(domain, source, samples, streams)
            owners = np.repeat(domain * per_domain + np.arange(per_domain), [len(share) for share in shares])
            yield source, np.concatenate(shares), owners, self._named(labels, owners, streams)

    @property
    def test_on(self) -> Split:
        """Split of the data set that models are tested on."""
        return other(self.train_on)

    @property
    def _clients_per_domain(self) -> int:
        return self.clients // len(self.names)

    def _sample_request(self, samples: int, root: int) -> SampleRequest:
        """What is asked of the data sets, at so many samples of each client and so many of the server."""
        tested, by_share = self._tested(samples), self.test_share is not None
        return SampleRequest(self.clients, len(self.names), samples, tested, by_share, self.train_on, root)

    def _samples(self, sources: list[SampleSource]) -> int:
        """Samples per client, on average; of natural sizes the most that there can be."""
        if self.samples_per_client is not None and not self.partition.sizes_from_data:
            return self.samples_per_client
        all_there_are = min(map(self._most, sources)) // self._clients_per_domain
        return min(self.samples_per_client or all_there_are, all_there_are)

    def _most(self, source: SampleSource) -> int:
        """Training samples that are shared out of a data set where no number is asked for."""
        if self.test_share is None:
            return source.default_size(self.train_on)
        return min(source.default_size(), int(source.size("test") * (1 - self.test_share) / self.test_share))

    def _tested(self, samples: int) -> int | None:
        """Test samples of each domain, None for all there are; `samples` are those of a client."""
        if self.test_share is None:
            return self.test_samples
        return max(1, round(self._clients_per_domain * samples * self.test_share / (1 - self.test_share)))

    def sources(self) -> list[SampleSource]:
        """Of each domain, or of the one data set. Raises DataError."""
        if self.own is not None:
            return [self.own]
        return sources_of(self.names, self.resolve_source(), bool(self.domains))

    def _shares(
        self, domain: int, source: SampleSource, samples: int, streams: Streams
    ) -> tuple[list[NDArray[np.int64]], NDArray[Any]]:
        """Training samples of each client of a domain, and the labels of all of them."""
        clients = self._clients_per_domain
        random = streams.generator("samples", number=domain)
        pool = source.pool(clients * samples * self.partition.oversampling, random, self.train_on)
        labels = source.labels(self.train_on, pool)
        split_column = self.partition.split_column
        if split_column != "label" and split_column not in source.columns:
            allowed = f"must be label or a column of {source.title} ({', '.join(source.columns) or 'it has none'})"
            raise DataError([Fault("data.partition.column", f"{allowed}, got {split_column!r}")])
        most = samples if not self.partition.sizes_from_data else self.samples_per_client or len(pool)
        sorted_by = labels if split_column == "label" else source.column(split_column, self.train_on, pool)
        shares = self.partition.assign(sorted_by, clients, most, streams.generator("partition", number=domain))
        empty = [client for client, share in enumerate(shares) if not len(share)]
        if empty or len(shares) != clients:
            got = f"client {domain * clients + empty[0]} got none" if empty else f"got {len(shares)} shares"
            message = f"{kind_of(self.partition)} must leave each of {clients} clients at least one sample, {got}"
            raise DataError([Fault("data.partition", message)])
        return [pool[share] for share in shares], labels[np.concatenate(shares)]

    def _seen(self, images: NDArray[Any], owners: NDArray[np.int64]) -> NDArray[Any]:
        """Images as the clients `owners` see them."""
        return images if self.concept is None else self.concept.images(images, owners)

    def _named(self, labels: NDArray[Any], owners: NDArray[np.int64], streams: Streams) -> NDArray[Any]:
        """Labels as the clients `owners` take them."""
        return labels if self.concept is None else self.concept.labels(labels, owners, self.classes, streams)

    def _scaled(self, source: SampleSource, images: NDArray[Any]) -> NDArray[np.float32]:
        images = to_common_shape(images) if self.domains else images
        return source.scaled(images, self.scaling == "standardised")
