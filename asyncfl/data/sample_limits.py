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

    @property
    def test_on(self) -> Split:
        return "test" if self.train_on == "train" else "train"

    def shortage_faults(self, sources: Sequence[SampleSource]) -> Iterator[Fault]:
        """Report too few samples in the files for clients and tests; field names are relative to `data`."""
        clients = self.clients // self.domains
        if short := [source for source in sources if clients * self.samples > source.size(self.train_on)]:
            most = min(source.size(self.train_on) for source in short) // clients
            listed = _listed(short, self.train_on)
            yield self._too_many_samples(f"must be at most {most} ({listed}, {clients} clients{self._of_each})")
        if short := [source for source in sources if (self.tested or 0) > source.size(self.test_on)]:
            most, listed = min(source.size(self.test_on) for source in short), _listed(short, self.test_on)
            yield self._too_many_tests(f"must be 1..{most} ({listed})", f"there are {listed}")

    def root_shortage_faults(self, sources: Sequence[SampleSource]) -> Iterator[Fault]:
        """Report too few remaining samples for the server; field names are relative to the defence."""
        left = [self._remaining(source) for source in sources]
        if short := [at for at, root in enumerate(self.root_per_domain) if root > left[at]]:
            titles = ", ".join(f"{left[at]} of {sources[at].title}" for at in short)
            most = self.domains * min(left[at] for at in short)
            allowed = f"must be at most {most} (samples that are neither trained nor tested on: {titles})"
            advice = "lower it, data.samples_per_client or data.test_samples"
            yield Fault("root_samples", f"{allowed}, got {self.root}; {advice}")

    def stand_in_faults(self, drawn_for: int) -> Iterator[Fault]:
        """Report requests for more stand-ins than are drawn, if training samples are drawn for `drawn_for` clients.

        Field names are relative to `data`. A simulation of timing alone draws no samples, so its population may be
        larger: it is checked with `drawn_for` 1.
        """
        if drawn_for > MOST_DRAWN:
            yield Fault("clients", f"must be at most {MOST_DRAWN} ({_REASON}), got {self.clients}")
        elif drawn_for * self.samples > MOST_DRAWN:
            most = max(1, MOST_DRAWN // self.clients)
            yield self._too_many_samples(f"must be at most {most} ({_REASON}, {self.clients} clients)")
        if (self.tested or 0) * self.domains > MOST_DRAWN:
            of = f", {self.domains} domains" if self.domains > 1 else ""
            yield self._too_many_tests(f"must be 1..{MOST_DRAWN // self.domains} ({_REASON}{of})", _REASON + of)

    def _remaining(self, source: SampleSource) -> int:
        """Count the samples of a data set that are used neither for training nor for testing."""
        tested = source.size(self.test_on) if self.tested is None else self.tested
        trained = self.clients // self.domains * self.samples
        return source.size(self.train_on) - trained + source.size(self.test_on) - tested

    @property
    def _of_each(self) -> str:
        return " of each domain" if self.domains > 1 else ""

    def _too_many_samples(self, allowed: str) -> Fault:
        advice = "lower data.samples_per_client or data.clients"
        return Fault("samples_per_client", f"{allowed}, got {self.samples}; {advice}")

    def _too_many_tests(self, allowed: str, why: str) -> Fault:
        if not self.by_share:
            return Fault("test_samples", f"{allowed}, got {self.tested}")
        wanted = f"asks for {self.tested} test samples{self._of_each}, and {why}"
        return Fault("test_share", f"{wanted}; lower it or data.samples_per_client")


def root_stand_in_faults(root: int) -> Iterator[Fault]:
    """Report a request for more stand-ins for the server than are drawn; field names are relative to the defence."""
    if root > MOST_DRAWN:
        yield Fault("root_samples", f"must be at most {MOST_DRAWN} ({_REASON}), got {root}")


def _listed(sources: Sequence[SampleSource], split: Split) -> str:
    """List the number of samples of each data set, in words."""
    first, *rest = [(source.size(split), source.title) for source in sources]
    kind = "training" if split == "train" else "test"
    return ", ".join([f"{first[0]} {kind} samples of {first[1]}", *(f"{count} of {title}" for count, title in rest)])
