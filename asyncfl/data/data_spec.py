"""The data of a federation: the field `data` of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from pydantic import Field

from asyncfl.base.component import Described, choice, kind_of
from asyncfl.base.errors import DataError, Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.data.canaries import Canaries, PlantedCanaries, plant_canaries
from asyncfl.data.catalog import CATALOG, DatasetName, find
from asyncfl.data.concept import Concept, Relabelled, Restyled
from asyncfl.data.federated import FederatedData, Source, concatenate, offsets_from_sizes
from asyncfl.data.given_counts import GivenClassCounts
from asyncfl.data.image_file import ImageFile
from asyncfl.data.named_sets import (
    AnyName,
    array_source,
    image_sources,
    name_or_description,
    substitute,
    title_without_stand_in,
)
from asyncfl.data.own import Dataset, HuggingFace, ImageFolder, NpyFolder, NpzFile, ScikitLearn, TableFile
from asyncfl.data.own.dataset import ArraySource, MappedRows
from asyncfl.data.partition import (
    ByColumn,
    Dirichlet,
    Iid,
    InnerDirichlet,
    Partition,
    Pathological,
    Quantity,
    Shards,
    Similarity,
)
from asyncfl.data.sample_source import COMMON_SIDE, Array, Floats, Ints, SampleSource, Scaling, Split, to_common_shape

if TYPE_CHECKING:
    AnyConcept = Concept
    AnyPartition = Partition
    AnyDataset = AnyName | Dataset
else:
    AnyConcept: Any = choice(Concept, Relabelled, Restyled)
    AnyPartition: Any = choice(
        Partition,
        Iid,
        Quantity,
        Dirichlet,
        Shards,
        Similarity,
        Pathological,
        InnerDirichlet,
        GivenClassCounts,
        ByColumn,
    )
    AnyDataset: Any = name_or_description(
        choice(Dataset, NpzFile, NpyFolder, ImageFolder, TableFile, HuggingFace, ScikitLearn)
    )

MOST_DRAWN = 500_000
"""Largest number of stand-ins to train on, and again to test on, over all domains. Drawing that many takes up to half a
minute and 6 GB of memory; the largest original has 479 400 samples."""
_REASON = f"no more than {MOST_DRAWN} stand-ins are drawn"


class DataSpec(Described):
    """Data set, number of clients and partition of the samples."""

    dataset: AnyDataset = "mnist"
    """Name of a data set, or one of your own: files (`kind: npz`, `folder`, `table`) or a class (`my_module:MyData`).
    Ignored if `domains` is set."""
    domains: tuple[DatasetName, ...] = ()
    """Data sets of a federation of several domains. Each domain has equally many clients (the first clients belong to
    the first domain) and its own test set; all images are converted to 3 x 28 x 28. Street digits replace SVHN if its
    file is missing or incomplete. Empty: one data set in its own shape."""
    mixed_domains: bool = False
    """Whether the samples of all domains are dealt to clients at random, as one data set with one test set; false: each
    client holds samples of one domain. True is the control without feature shift."""
    clients: Annotated[int, MeasuredIn("clients")] = Field(default=50, ge=1, le=10_000_000)
    """Number of clients; with `domains` a multiple of the number of domains."""
    samples_per_client: Annotated[int, MeasuredIn("samples")] | None = Field(default=100, ge=1, le=10_000_000)
    """Training samples of each client, on average if the partition makes sizes unequal. null: all samples of the data
    set, divided evenly (of stand-ins as many as the original has). At most 500 000 stand-ins are drawn."""
    partition: AnyPartition = Iid()
    """Partition of the samples among clients."""
    holders: Annotated[int, MeasuredIn("clients")] | None = Field(default=None, ge=1)
    """Number of clients, the first, among which the samples are divided; each other client holds one further sample.
    With `threats.selection: last` these are attackers that hold no share of the data. null: all clients."""
    source: Literal["auto", "real", "embedded"] = "auto"
    """Source of a named data set: `real` reads its files (and downloads them if possible), `embedded` draws stand-ins
    (of pictures; texts and tables have none), `auto` is real if the files are on disk, else embedded."""
    scaling: Scaling = "standardised"
    """Scaling of pixels. `standardised`: minus the data set's published mean, divided by its published deviation (of
    your own images: both measured on the test split). `unit`: 0..1. `symmetric`: -1..1. Other numbers of your own data
    are not scaled."""
    test_scaling: Scaling | None = None
    """Scaling of the pixels that models are tested on, for the numbers of published code that tests on other pixels
    than it trains on; null: that of `scaling`."""
    test_samples: Annotated[int, MeasuredIn("samples")] | None = Field(default=None, ge=1, le=10_000_000)
    """Test samples (of each domain); null: the whole test split, of stand-ins 2000."""
    test_share: Annotated[float, MeasuredIn("share")] | None = Field(default=None, gt=0, lt=1)
    """Instead of `test_samples`: the share of test samples among all samples in use of each domain, .2 for an 80 to 20
    split. They come from the data set's test split in any case."""
    train_on: Split = "train"
    """Split of the data set that clients hold; models are tested on the other. `test` is one reading of SAFL's 100
    samples per client; `train` (600 samples of MNIST for each of 100 clients) is the usual setting."""
    concept: AnyConcept | None = None
    """Groups of clients with different labels or differently changed images (concept shift); null: none."""
    canaries: Canaries | None = None
    """Canaries: planted records that an audit tries to recognise; null: none. Canaries change the data on purpose, so a
    run with canaries has another digest than one without."""

    @property
    def own(self) -> ArraySource | None:
        """Samples of a data set that consists of arrays (user's own, a table, or one with owners), loaded on first use;
        None for images by name.

        Raises DataError if they cannot be loaded or are invalid.
        """
        return None if self.domains else array_source(self.dataset, self.source)

    @property
    def reveals_scales(self) -> bool:
        """Whether the inputs of each client depend on the samples of all, through scales or texts measured on them."""
        own = self.own
        unscaled = own is None or (own.are_images and self.scaling != "standardised")
        return not unscaled and own is not None and own.measured_on == self.train_on

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the data sets in use: the domains, or the one data set."""
        if self.domains:
            return self.domains
        return (self.dataset if isinstance(self.dataset, str) else self.dataset.title,)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample: channels, height and width of images, any shape for the user's own data."""
        if self.own is not None:
            return self.own.shape
        if self.domains:
            return 3, COMMON_SIDE, COMMON_SIDE
        height, width, *channels = CATALOG[self.names[0]].image_shape
        return (*(channels or [1]), height, width)

    @property
    def classes(self) -> int:
        """Number of classes; 0 for a regression."""
        return max(CATALOG[name].classes for name in self.names) if self.own is None else self.own.classes

    @property
    def outputs(self) -> int:
        """Number of model outputs: one per class, or the numbers that a regression predicts."""
        return self.classes if self.own is None else self.own.outputs

    def content_digest(self) -> str | None:
        """Return a digest of the samples beyond their name, for the identity of a run; None for stand-ins and for the
        well-known file of a name."""
        if self.resolve_source() == "embedded":
            return None
        if self.own is not None:
            return self.own.digest
        images = (one for one in self.sources() if isinstance(one, ImageFile))
        return ", ".join(f"{one.name} {one.content}" for one in images if one.content != one.dataset.content) or None

    def resolve_source(self) -> Source:
        """Return whether samples will be `real` or `embedded`, without loading any.

        Raises DataError if ASYNCFL_DATA_DIR names no folder.
        """
        if self.source != "auto":
            return self.source
        federated = bool(self.domains)
        if not federated and title_without_stand_in(self.dataset) is not None:
            return "real"
        found = all(find(name) or substitute(name, self.names, federated) for name in self.names)
        return "real" if found else "embedded"

    def faults(self) -> Iterator[Fault]:
        """Report why these data cannot be built, without loading images; field names are relative to `data`.

        Raises DataError if a file is damaged or missing.
        """
        if wrong := list(self._contradictions()):
            yield from wrong
            return
        sources = self.sources()
        clients, samples = self._clients_per_domain, self._samples(sources)
        if samples < 1:
            least = min(sources, key=self._default_samples)
            allowed = f"must be 1..{self._default_samples(least)} (samples of {least.title} to train on)"
            yield Fault("clients", f"{allowed} where samples_per_client is null, got {clients}")
            return
        short = list(self._limit_faults(samples, sources, drawn_for=1))
        short = short or [fault.under("partition") for fault in self.partition.faults(self._holders, samples)]
        yield from short
        if not short and (self.partition.sizes_from_data or self.partition.split_column != "label"):
            for domain, source in enumerate(sources):
                try:  # whether there is such a column, with enough values
                    self._shares(domain, source, samples, Streams(0))
                except DataError as error:
                    yield from (Fault(fault.field.removeprefix("data."), fault.message) for fault in error.faults)
        if self.canaries is not None:
            found = self.canaries.faults(self.clients, samples * self.clients)
            yield from (fault.under("canaries") for fault in found)

    def root_faults(self, root_samples: int) -> Iterator[Fault]:
        """Report why the server cannot have `root_samples` samples of its own; field names are relative to the defence.

        Raises DataError if a file is damaged or missing.
        """
        if root_samples and self.own is None and self.resolve_source() == "embedded":
            if root_samples > MOST_DRAWN:
                yield Fault("root_samples", f"must be at most {MOST_DRAWN} ({_REASON}), got {root_samples}")
        elif root_samples and not list(self.faults()):
            sources = self.sources()
            samples = self._samples(sources)
            tested, trained = self._test_count(samples), self._trained(samples)
            left = [
                one.size("train") + one.size("test") - trained - (one.size(self.test_on) if tested is None else tested)
                for one in sources
            ]
            wanted = _divided(root_samples, len(sources))
            if short := [at for at, number in enumerate(wanted) if number > left[at]]:
                titles = ", ".join(f"{left[at]} of {sources[at].title}" for at in short)
                most = len(sources) * min(left[at] for at in short)
                allowed = f"must be at most {most} (samples that are neither trained nor tested on: {titles})"
                advice = "lower it, data.samples_per_client or data.test_samples"
                yield Fault("root_samples", f"{allowed}, got {root_samples}; {advice}")

    def _limit_faults(self, samples: int, sources: Sequence[SampleSource], drawn_for: int) -> Iterator[Fault]:
        """Report too few samples in the files for `samples` per client and for tests, or too many stand-ins to draw.

        A simulation of timing alone draws none, so its population may be larger: it is checked with `drawn_for` 1.
        """
        clients, domains, tested = self._clients_per_domain, len(self.names), self._test_count(samples)
        each = " of each domain" if domains > 1 else ""
        train = test = None  # the most that is allowed, and why
        if self.own is None and self.resolve_source() == "embedded":
            if drawn_for > MOST_DRAWN:
                yield Fault("clients", f"must be at most {MOST_DRAWN} ({_REASON}), got {self.clients}")
            elif drawn_for * samples > MOST_DRAWN:
                train = max(1, MOST_DRAWN // self.clients), f"{_REASON}, {self.clients} clients"
            if (tested or 0) * domains > MOST_DRAWN:
                reason = _REASON + (f", {domains} domains" if domains > 1 else "")
                test = MOST_DRAWN // domains, reason, reason
        else:
            if short := [source for source in sources if self._trained(samples) > source.size(self.train_on)]:
                most, listed = _fewest(short, self.train_on)
                given = "" if self.holders is None else f", {self.holders} of them holders"
                train = (most - self._without_share) // self._holders, f"{listed}, {clients} clients{each}{given}"
            if short := [source for source in sources if (tested or 0) > source.size(self.test_on)]:
                most, listed = _fewest(short, self.test_on)
                test = most, listed, f"there are {listed}"
        if train is not None:
            allowed = f"must be at most {train[0]} ({train[1]}), got {samples}"
            yield Fault("samples_per_client", f"{allowed}; lower data.samples_per_client or data.clients")
        if test is not None and self.test_share is None:
            yield Fault("test_samples", f"must be 1..{test[0]} ({test[1]}), got {tested}")
        elif test is not None:
            wanted = f"asks for {tested} test samples{each}, and {test[2]}"
            yield Fault("test_share", f"{wanted}; lower it or data.samples_per_client")

    def _contradictions(self) -> Iterator[Fault]:
        """Report fields that contradict each other, whatever the data sets contain."""
        if len(set(self.names)) < len(self.names):
            yield Fault("domains", f"must name each data set once, got {', '.join(self.domains)}")
        if self.clients % len(self.names):
            allowed = f"must be a multiple of the number of domains ({len(self.names)})"
            yield Fault("clients", f"{allowed}, got {self.clients}")
        if self.holders is not None and (self.domains or self.holders > self.clients):
            allowed = "null where domains are given" if self.domains else f"1..clients ({self.clients})"
            yield Fault("holders", f"must be {allowed}, got {self.holders}")
        if self.test_share is not None and self.test_samples is not None:
            yield Fault("test_share", f"must be null where test_samples ({self.test_samples}) is given")
        if self.train_on == "test" and (self.domains or self.test_share is not None):
            yield Fault("train_on", "must be train where domains or a test_share are given, got test")
        if self.mixed_domains and not (self.domains and kind_of(self.partition) == "iid"):
            got = f"{kind_of(self.partition)} of {len(self.domains)} domains"
            yield Fault("mixed_domains", f"must be false unless domains are given with partition: iid, got {got}")
        title = None if self.domains else title_without_stand_in(self.dataset)
        if title is not None and self.source == "embedded":
            yield Fault("source", f"must be auto or real for {title}, which has no stand-in, got embedded")
            return
        if self.own is not None and self.own.on_disk:
            for field in ("concept", "canaries"):
                if getattr(self, field) is not None:
                    yield Fault(field, f"must be null where samples stay on disk ({self.own.title}); take kind: npz")
        if not self.classes:
            why = f"needs classes, but {self.names[0]} is a regression"
            if self.partition.by_class:
                advice = "take iid, quantity or by (a column)"
                yield Fault("partition.kind", f"{kind_of(self.partition)} {why}; {advice}")
            if self.concept is not None:
                yield Fault("concept", f"{kind_of(self.concept)} {why}; leave it null")
        elif self.concept is not None:
            yield from (fault.under("concept") for fault in self.concept.faults(self.clients, self.classes))
            if self.own is not None:
                yield from (fault.under("concept") for fault in self.concept.image_faults(self.own))

    def client_sizes(self, streams: Streams) -> Ints:
        """Return the number of samples (clients,) that each client will hold, without loading images.

        A partition that needs no labels opens no data set, so a population larger than it can be timed.
        """
        sources = [] if self.samples_per_client and not self.partition.sizes_from_data else self.sources()
        samples = self._samples(sources)
        sizes = []
        for domain in range(len(self.names)):
            own = self.partition.sizes(self._holders, samples, streams.generator("partition", number=domain))
            if own is not None:
                own = np.concatenate([own, np.ones(self._without_share, own.dtype)])
            else:
                shares, _ = self._shares(domain, self.sources()[domain], samples, streams)
                own = np.array([len(share) for share in shares])
            sizes.append(own)
        return concatenate(sizes)

    def sample_counts(self) -> tuple[int, int]:
        """Return the average number of training samples per client (an upper limit if the data determine the sizes),
        and the number of test samples, without loading images. Raises DataError."""
        domains = len(self.names)
        if self.samples_per_client and not self.partition.sizes_from_data and self.test_samples is not None:
            return self.samples_per_client, self.test_samples * domains
        sources = self.sources()
        samples = self._samples(sources)
        tested = self._test_count(samples)
        return samples, sum(one.test_size(self.test_on) if tested is None else tested for one in sources)

    def build(self, streams: Streams, root_samples: int = 0) -> FederatedData:
        """Build the samples of all clients, the test set, and the server's own `root_samples`.

        The stream `samples` of each domain selects the samples, and `partition` assigns them to clients. The server's
        samples are drawn, as many of each domain, from the rest of the clients' split, and if that is too small, from
        the rest of the test split. Raises DataError if there are too few samples (fields are named from the scenario
        on), or if a file is missing or damaged.
        """
        faults = [fault.under("data") for fault in self.faults()]
        faults += [fault.under("defence") for fault in self.root_faults(root_samples)]
        if faults:
            raise DataError(faults)
        sources = self.sources()
        samples, per_domain = self._samples(sources), self._clients_per_domain
        if faults := list(self._limit_faults(samples, sources, drawn_for=self.clients)):
            raise DataError(fault.under("data") for fault in faults)
        root_per_domain = _divided(root_samples, len(sources))
        images, labels, held_by, tests = [], [], [], []
        roots: list[tuple[Floats, Array]] = []
        for domain, (source, held, owners, shifted_labels) in enumerate(self.assignments(streams)):
            members = domain * per_domain + np.arange(per_domain)
            held_by.append(owners)
            labels.append(shifted_labels)
            if isinstance(source, ArraySource) and source.on_disk:
                mapped = MappedRows(source, self.train_on, held, self.scaling)
                images.append(cast(Floats, mapped))  # behaves like an array
            else:
                images.append(self._inputs(source, source.images(self.train_on, held), owners, self.scaling))
            random = streams.generator("samples", client=0, number=domain)
            features, given, tested = source.test_set(self._test_count(samples), random, self.test_on)
            tests.append(self._unheld(source, features, given, members, streams, self.test_scaling or self.scaling))
            random, left = streams.generator("root_set", number=domain), root_per_domain[domain]
            for split, used in ((self.train_on, held), (self.test_on, tested)):
                chosen = source.unused(left, used, random, split) if left else used[:0]
                left -= len(chosen)
                if len(chosen):
                    features, given = source.images(split, chosen), source.labels(split, chosen)
                    roots.append(self._unheld(source, features, given, members, streams, self.scaling))
        notes = [source.provenance for source in sources] + ([self.concept.description] if self.concept else [])
        notes += [self.canaries.description] if self.canaries else []
        notes += ["clients hold the test split, tested on the training split"] if self.train_on == "test" else []
        held_images, held_labels, owners = concatenate(images), concatenate(labels), concatenate(held_by)
        if self.mixed_domains:
            order = np.argsort(owners, kind="stable")
            held_images, held_labels = held_images[order], held_labels[order]
        offsets = offsets_from_sizes(np.bincount(owners, minlength=self.clients).tolist())
        planted: PlantedCanaries | None = None
        if self.canaries is not None:
            if faults := list(self.canaries.faults(self.clients, len(held_labels))):
                raise DataError(fault.under("data.canaries") for fault in faults)
            held_images, held_labels, planted = plant_canaries(
                self.canaries, held_images, held_labels, offsets, self.classes, streams
            )
        tested_together = [len(part) for _, part in tests]
        if self.mixed_domains:
            tested_together = [sum(tested_together)]
        return FederatedData(
            images=held_images,
            labels=held_labels,
            offsets=offsets,
            test_images=concatenate([part for part, _ in tests]),
            test_labels=concatenate([part for _, part in tests]),
            classes=self.classes,
            source=self.resolve_source(),
            provenance="; ".join(notes),
            original=self.concept is None and planted is None and all(source.is_original for source in sources),
            domains=("mixed",) if self.mixed_domains else self.names,
            client_domains=np.repeat(np.arange(len(tested_together)), self.clients // len(tested_together)),
            test_offsets=offsets_from_sizes(tested_together),
            root=(concatenate([x for x, _ in roots]), concatenate([y for _, y in roots])) if root_samples else None,
            canaries=planted,
        )

    def assignments(self, streams: Streams) -> Iterator[tuple[SampleSource, Ints, Ints, Array]]:
        """Yield for each domain its source, the indices of the clients' samples, the client of each sample and its
        label, exactly as `build` with equal streams assigns them, without reading features. `faults` must be none."""
        sources = self.sources()
        samples, per_domain = self._samples(sources), self._clients_per_domain
        if self.mixed_domains:
            dealt = np.repeat(np.arange(self.clients), samples)
            streams.generator("partition", number=len(sources)).shuffle(dealt)
        for domain, source in enumerate(sources):
            shares, labels = self._shares(domain, source, samples, streams)
            if self.mixed_domains:
                owners = dealt[domain * len(labels) : (domain + 1) * len(labels)]
            else:
                owners = np.repeat(domain * per_domain + np.arange(per_domain), [len(share) for share in shares])
            yield source, np.concatenate(shares), owners, self._apply_label_shift(labels, owners, streams)

    @property
    def test_on(self) -> Split:
        """Split of the data set that models are tested on."""
        return "test" if self.train_on == "train" else "train"

    @property
    def _clients_per_domain(self) -> int:
        return self.clients // len(self.names)

    @property
    def _holders(self) -> int:
        """Clients of a domain among which the partition divides its samples."""
        return self.holders or self._clients_per_domain

    @property
    def _without_share(self) -> int:
        """Clients of a domain that hold one sample each."""
        return self._clients_per_domain - self._holders

    def _trained(self, samples: int) -> int:
        """Return the number of training samples of a domain, of `samples` per client that holds a share."""
        return self._holders * samples + self._without_share

    def _samples(self, sources: list[SampleSource]) -> int:
        """Return the average number of training samples per client; an upper limit if the data determine the sizes."""
        if self.samples_per_client is not None and not self.partition.sizes_from_data:
            return self.samples_per_client
        available = (min(map(self._default_samples, sources)) - self._without_share) // self._holders
        return min(self.samples_per_client or available, available)

    def _default_samples(self, source: SampleSource) -> int:
        """Return the number of training samples to divide if `samples_per_client` is null."""
        if self.test_share is None:
            return source.default_size(self.train_on)
        return min(source.default_size(), int(source.size("test") * (1 - self.test_share) / self.test_share))

    def _test_count(self, samples: int) -> int | None:
        """Return the number of test samples of each domain, None for all; `samples` is the number per client."""
        if self.test_share is None:
            return self.test_samples
        return max(1, round(self._trained(samples) * self.test_share / (1 - self.test_share)))

    def sources(self) -> list[SampleSource]:
        """Open the source of each domain, or of the one data set. Raises DataError."""
        if self.own is not None:
            return [self.own]
        return image_sources(self.names, self.resolve_source(), bool(self.domains))

    def _shares(self, domain: int, source: SampleSource, samples: int, streams: Streams) -> tuple[list[Ints], Array]:
        """Assign samples to the clients of a domain; return each client's indices, and the labels of all."""
        clients, alone = self._holders, self._without_share
        random = streams.generator("samples", number=domain)
        wanted = clients * samples * self.partition.oversampling + alone
        drawn = source.candidates(wanted, random, self.train_on)
        (single, candidates), (single_labels, labels) = (
            np.split(of, [alone]) for of in (drawn, source.labels(self.train_on, drawn))
        )
        split_column = self.partition.split_column
        if split_column != "label" and split_column not in source.columns:
            allowed = f"must be label or a column of {source.title} ({', '.join(source.columns) or 'it has none'})"
            raise DataError([Fault("data.partition.column", f"{allowed}, got {split_column!r}")])
        most = samples if not self.partition.sizes_from_data else self.samples_per_client or len(candidates)
        sorted_by = labels if split_column == "label" else source.column(split_column, self.train_on, candidates)
        gaps = np.array([one is None or one != one for one in sorted_by.tolist()], bool)
        if gaps.any():
            first, more = int(np.sort(candidates[gaps])[0]), int(gaps.sum()) - 1
            got = f"got none for sample {first} (counted from 0)" + (f" and {more} more" if more else "")
            message = f"{split_column} must have a value for each sample of {source.title}, {got}; fill or drop them"
            raise DataError([Fault("data.partition.column", message)])
        shares = self.partition.assign(sorted_by, clients, most, streams.generator("partition", number=domain))
        empty = [client for client, share in enumerate(shares) if not len(share)]
        if empty or len(shares) != clients:
            got = f"client {domain * clients + empty[0]} got none" if empty else f"got {len(shares)} shares"
            message = f"{kind_of(self.partition)} must leave each of {clients} clients at least one sample, {got}"
            raise DataError([Fault("data.partition", message)])
        held = [*(candidates[share] for share in shares), *single.reshape(alone, 1)]
        return held, np.concatenate([labels[np.concatenate(shares)], single_labels])

    def _apply_label_shift(self, labels: Array, owners: Ints, streams: Streams) -> Array:
        return labels if self.concept is None else self.concept.labels(labels, owners, self.classes, streams)

    def _unheld(
        self, source: SampleSource, features: Array, labels: Array, of: Array, streams: Streams, scaling: Scaling
    ) -> tuple[Floats, Array]:
        """Return samples that no client holds as the domain's clients `of` see them in turn."""
        owners = of[np.arange(len(labels)) % len(of)]
        return self._inputs(source, features, owners, scaling), self._apply_label_shift(labels, owners, streams)

    def _inputs(self, source: SampleSource, features: Array, owners: Ints, scaling: Scaling) -> Floats:
        """Return stored features (n, ...) as the models of their clients `owners` (n,) receive them."""
        if self.concept is not None:
            features = self.concept.images(features, owners)
        features = to_common_shape(features) if self.domains else features
        return source.scaled(features, scaling)


def _divided(root: int, domains: int) -> list[int]:
    """Divide the server's samples evenly over the domains; the first domains get one more."""
    return [root // domains + (domain < root % domains) for domain in range(domains)]


def _fewest(sources: Sequence[SampleSource], split: Split) -> tuple[int, str]:
    """Return the smallest number of samples of the data sets, and all their numbers in words."""
    first, *rest = [(source.size(split), source.title) for source in sources]
    kind = "training" if split == "train" else "test"
    listed = [f"{first[0]} {kind} samples of {first[1]}", *(f"{count} of {title}" for count, title in rest)]
    return min(source.size(split) for source in sources), ", ".join(listed)
