"""Checks that there are as many samples as a federation asks for: in the files, or as stand-ins that can be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from asyncfl.base.errors import Fault
from asyncfl.data.sample_source import SampleSource, Split

MOST_DRAWN = 500_000
"""Largest number of stand-ins to train on, and again to test on, over all domains. Drawing that many takes up to half a
minute and 6 GB of memory; the largest original has 479 400 samples."""
_REASON = f"no more than {MOST_DRAWN} stand-ins are drawn"


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
    def root_per_domain(self) -> list[int]:
        """Server's samples of each domain: divided evenly, the first domains get one more."""
        return [self.root // self.domains + (domain < self.root % self.domains) for domain in range(self.domains)]

    def remaining(self, source: SampleSource) -> int:
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


def shortage_faults(request: SampleRequest, sources: Sequence[SampleSource]) -> Iterator[Fault]:
    """Report too few samples in the files for clients and tests; field names are relative to `data`."""
    clients = request.clients_per_domain
    if short := [source for source in sources if clients * request.samples > source.size(request.train_on)]:
        most = min(source.size(request.train_on) for source in short) // clients
        allowed = f"must be at most {most} ({_listed(short, request.train_on)}, {clients} clients{request.of_each})"
        yield _too_many_samples(allowed, request)
    tested, test_on = request.tested or 0, other_split(request.train_on)
    if short := [source for source in sources if tested > source.size(test_on)]:
        most = min(source.size(test_on) for source in short)
        listed = _listed(short, test_on)
        yield _too_many_tests(request, f"must be 1..{most} ({listed})", f"there are {listed}")


def root_shortage_faults(request: SampleRequest, sources: Sequence[SampleSource]) -> Iterator[Fault]:
    """Report too few remaining samples for the server; field names are relative to the defence."""
    short = [
        source
        for source, root in zip(sources, request.root_per_domain, strict=True)
        if root > request.remaining(source)
    ]
    if short:
        titles = ", ".join(f"{request.remaining(source)} of {source.title}" for source in short)
        most = request.domains * min(request.remaining(source) for source in short)
        allowed = f"must be at most {most} (samples that are neither trained nor tested on: {titles})"
        advice = "lower it, data.samples_per_client or data.test_samples"
        yield Fault("root_samples", f"{allowed}, got {request.root}; {advice}")


def stand_in_faults(request: SampleRequest, drawn_for: int) -> Iterator[Fault]:
    """Report requests for more stand-ins than are drawn, if training samples are drawn for `drawn_for` clients.

    Field names are relative to `data`. A simulation of timing alone draws no samples, so its population may be larger:
    it is checked with `drawn_for` 1.
    """
    if drawn_for > MOST_DRAWN:
        yield Fault("clients", f"must be at most {MOST_DRAWN} ({_REASON}), got {request.clients}")
    elif drawn_for * request.samples > MOST_DRAWN:
        most = max(1, MOST_DRAWN // request.clients)
        yield _too_many_samples(f"must be at most {most} ({_REASON}, {request.clients} clients)", request)
    if (request.tested or 0) * request.domains > MOST_DRAWN:
        of = f", {request.domains} domains" if request.domains > 1 else ""
        yield _too_many_tests(request, f"must be 1..{MOST_DRAWN // request.domains} ({_REASON}{of})", _REASON + of)


def root_stand_in_faults(root: int) -> Iterator[Fault]:
    """Report a request for more stand-ins for the server than are drawn; field names are relative to the defence."""
    if root > MOST_DRAWN:
        yield Fault("root_samples", f"must be at most {MOST_DRAWN} ({_REASON}), got {root}")


def _too_many_samples(allowed: str, request: SampleRequest) -> Fault:
    advice = "lower data.samples_per_client or data.clients"
    return Fault("samples_per_client", f"{allowed}, got {request.samples}; {advice}")


def _too_many_tests(request: SampleRequest, allowed: str, why: str) -> Fault:
    if not request.by_share:
        return Fault("test_samples", f"{allowed}, got {request.tested}")
    wanted = f"asks for {request.tested} test samples{request.of_each}, and {why}"
    return Fault("test_share", f"{wanted}; lower it or data.samples_per_client")


def other_split(split: Split) -> Split:
    """Return the test split that belongs to the clients' split."""
    return "test" if split == "train" else "train"


def _listed(sources: Sequence[SampleSource], split: Split) -> str:
    """List the number of samples of each data set, in words."""
    first, *rest = [(source.size(split), source.title) for source in sources]
    kind = "training" if split == "train" else "test"
    return ", ".join([f"{first[0]} {kind} samples of {first[1]}", *(f"{count} of {title}" for count, title in rest)])
