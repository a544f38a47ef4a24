"""Whether there are as many samples as a federation asks for: in the files, or to be drawn in their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from asyncfl.data.sample_source import SampleSource, Split
from asyncfl.errors import Fault

MOST_DRAWN = 500_000
"""Stand-ins to train on, and again to test on, of all domains together. There is no end to them, but so many take up to
half a minute to draw and 6 GB to keep; the largest original has 479 400."""
_WHY = f"no more than {MOST_DRAWN} stand-ins are drawn"


@dataclass(frozen=True)
class SampleRequest:
    """What is asked of the data sets, each of which has an equal part of the clients."""

    clients: int
    domains: int
    samples: int
    """To train on, of each client."""
    tested: int | None
    """To test on, of each domain; None: all there are, or what is usual."""
    by_share: bool
    """Whether `tested` follows from a share of all samples."""
    train_on: Split = "train"
    root: int = 0
    """Of the server's own, of all domains together."""

    @property
    def roots(self) -> list[int]:
        """Samples of the server's own of each domain: as many of each, the first ones one more."""
        return [self.root // self.domains + (domain < self.root % self.domains) for domain in range(self.domains)]

    def left(self, source: SampleSource) -> int:
        """Samples of a data set that are neither trained nor tested on."""
        test_on = other(self.train_on)
        tested = source.size(test_on) if self.tested is None else self.tested
        return source.size(self.train_on) - self.clients_per_domain * self.samples + source.size(test_on) - tested

    @property
    def clients_per_domain(self) -> int:
        return self.clients // self.domains

    @property
    def of_each(self) -> str:
        """Words behind a number that every domain has."""
        return " of each domain" if self.domains > 1 else ""


def shortage_faults(asked: SampleRequest, sources: Sequence[SampleSource]) -> Iterator[Fault]:
    """What more clients and tests ask for than files have, fields named relative to the data."""
    clients = asked.clients_per_domain
    if short := [source for source in sources if clients * asked.samples > source.size(asked.train_on)]:
        most = min(source.size(asked.train_on) for source in short) // clients
        allowed = f"must be at most {most} ({_listed(short, asked.train_on)}, {clients} clients{asked.of_each})"
        yield _too_many_samples(allowed, asked)
    tested, test_on = asked.tested or 0, other(asked.train_on)
    if short := [source for source in sources if tested > source.size(test_on)]:
        most = min(source.size(test_on) for source in short)
        listed = _listed(short, test_on)
        yield _too_many_tests(asked, f"must be 1..{most} ({listed})", f"there are {listed}")


def root_shortage_faults(asked: SampleRequest, sources: Sequence[SampleSource]) -> Iterator[Fault]:
    """What more the server asks for than clients and tests leave in the files, fields named relative to the defence."""
    short = [source for source, root in zip(sources, asked.roots, strict=True) if root > asked.left(source)]
    if short:
        titles = ", ".join(f"{asked.left(source)} of {source.title}" for source in short)
        most = asked.domains * min(asked.left(source) for source in short)
        allowed = f"must be at most {most} (samples that are neither trained nor tested on: {titles})"
        way_out = "lower it, data.samples_per_client or data.test_samples"
        yield Fault("root_samples", f"{allowed}, got {asked.root}; {way_out}")


def stand_in_faults(asked: SampleRequest, drawn_for: int) -> Iterator[Fault]:
    """What takes more stand-ins than are drawn, if their training samples are drawn for so many clients.

    Fields are named relative to the data.

    A population that is only put on the clock may be larger, as nobody draws its samples: then it is asked for one.
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
    """More stand-ins of the server's own than are drawn, fields named relative to the defence."""
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


def other(split: Split) -> Split:
    """The split that models are tested on, of the one that clients hold."""
    return "test" if split == "train" else "train"


def _listed(sources: Sequence[SampleSource], split: Split) -> str:
    """How many samples there are of each data set, in words."""
    first, *rest = [(source.size(split), source.title) for source in sources]
    kind = "training" if split == "train" else "test"
    return ", ".join([f"{first[0]} {kind} samples of {first[1]}", *(f"{count} of {title}" for count, title in rest)])
