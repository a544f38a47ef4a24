"""Checks that there are as many samples as a federation asks for: in the files, or as stand-ins that can be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from asyncfl.data.sample_source import SampleSource, Split
from asyncfl.errors import Fault

MOST_DRAWN = 500_000
"""Largest number of stand-ins to train on, and again to test on, over all domains. Drawing that many takes up to half a
minute and 6 GB of memory; the largest original has 479 400 samples."""
_WHY = f"no more than {MOST_DRAWN} stand-ins are drawn"


@dataclass(frozen=True)
class SampleRequest:
    """Numbers of samples requested from the data sets, each of which serves an equal part of the clients."""

    clients: int
    domains: int
    samples: int
    """Training samples of each client."""
    tested: int | None
    """Test samples of each domain; None: the default number."""
    by_share: bool
    """Whether `tested` follows from a share of all samples."""
    train_on: Split = "train"
    root: int = 0
    """Samples of the server's own, over all domains."""

    @property
    def roots(self) -> list[int]:
        """Server's samples of each domain: divided evenly, the first domains get one more."""
        return [self.root // self.domains + (domain < self.root % self.domains) for domain in range(self.domains)]

    def left(self, source: SampleSource) -> int:
        """Count the samples of a data set that are used neither for training nor for testing."""
        test_on = other_split(self.train_on)
        tested = source.size(test_on) if self.tested is None else self.tested
        return source.size(self.train_on) - self.clients_per_domain * self.samples + source.size(test_on) - tested

    @property
    def clients_per_domain(self) -> int:
        return self.clients // self.domains

    @property
    def of_each(self) -> str:
        """Words after a number that holds for every domain."""
        return " of each domain" if self.domains > 1 else ""


def shortage_faults(asked: SampleRequest, sources: Sequence[SampleSource]) -> Iterator[Fault]:
    """Report too few samples in the files for clients and tests; field names are relative to `data`."""
    clients = asked.clients_per_domain
    if short := [source for source in sources if clients * asked.samples > source.size(asked.train_on)]:
        most = min(source.size(asked.train_on) for source in short) // clients
        allowed = f"must be at most {most} ({_listed(short, asked.train_on)}, {clients} clients{asked.of_each})"
        yield _too_many_samples(allowed, asked)
    tested, test_on = asked.tested or 0, other_split(asked.train_on)
    if short := [source for source in sources if tested > source.size(test_on)]:
        most = min(source.size(test_on) for source in short)
        listed = _listed(short, test_on)
        yield _too_many_tests(asked, f"must be 1..{most} ({listed})", f"there are {listed}")


def root_shortage_faults(asked: SampleRequest, sources: Sequence[SampleSource]) -> Iterator[Fault]:
    """Report too few remaining samples for the server; field names are relative to the defence."""
    short = [source for source, root in zip(sources, asked.roots, strict=True) if root > asked.left(source)]
    if short:
        titles = ", ".join(f"{asked.left(source)} of {source.title}" for source in short)
        most = asked.domains * min(asked.left(source) for source in short)
        allowed = f"must be at most {most} (samples that are neither trained nor tested on: {titles})"
        way_out = "lower it, data.samples_per_client or data.test_samples"
        yield Fault("root_samples", f"{allowed}, got {asked.root}; {way_out}")


def stand_in_faults(asked: SampleRequest, drawn_for: int) -> Iterator[Fault]:
    """Report requests for more stand-ins than are drawn, if training samples are drawn for `drawn_for` clients.

    Field names are relative to `data`. A simulation of timing alone draws no samples, so its population may be larger:
    it is checked with `drawn_for` 1.
    """
    if drawn_for > MOST_DRAWN:
        yield Fault("clients", f"must be at most {MOST_DRAWN} ({_WHY}), got {asked.clients}")
    elif drawn_for * asked.samples > MOST_DRAWN:
        most = max(1, MOST_DRAWN // asked.clients)
        yield _too_many_samples(f"must be at most {most} ({_WHY}, {asked.clients} clients)", asked)
    if (asked.tested or 0) * asked.domains > MOST_DRAWN:
        of = f", {asked.domains} domains" if asked.domains > 1 else ""
        yield _too_many_tests(asked, f"must be 1..{MOST_DRAWN // asked.domains} ({_WHY}{of})", _WHY + of)


def root_stand_in_faults(root: int) -> Iterator[Fault]:
    """Report a request for more stand-ins for the server than are drawn; field names are relative to the defence."""
    if root > MOST_DRAWN:
        yield Fault("root_samples", f"must be at most {MOST_DRAWN} ({_WHY}), got {root}")


def _too_many_samples(allowed: str, asked: SampleRequest) -> Fault:
    way_out = "lower data.samples_per_client or data.clients"
    return Fault("samples_per_client", f"{allowed}, got {asked.samples}; {way_out}")


def _too_many_tests(asked: SampleRequest, allowed: str, why: str) -> Fault:
    if not asked.by_share:
        return Fault("test_samples", f"{allowed}, got {asked.tested}")
    wanted = f"asks for {asked.tested} test samples{asked.of_each}, and {why}"
    return Fault("test_share", f"{wanted}; lower it or data.samples_per_client")


def other_split(split: Split) -> Split:
    """Return the test split that belongs to the clients' split."""
    return "test" if split == "train" else "train"


def _listed(sources: Sequence[SampleSource], split: Split) -> str:
    """List the number of samples of each data set, in words."""
    first, *rest = [(source.size(split), source.title) for source in sources]
    kind = "training" if split == "train" else "test"
    return ", ".join([f"{first[0]} {kind} samples of {first[1]}", *(f"{count} of {title}" for count, title in rest)])
