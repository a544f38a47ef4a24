"""Judging what the program makes of a mutant: refused in one message, accepted, or something that nobody may see."""

import random
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from asyncfl.base.errors import AsyncflError

LONGEST_S = 20
"""Of the processor, so that a busy machine changes no verdict."""
LONGEST_ASLEEP_S = 300
"""On the wall, for what waits without computing."""
MORE_BYTES = 6 * 2**30
"""Address space beyond what the process has when it begins."""
LONGEST_MESSAGE = 20_000


class HangError(BaseException):
    """What was called did not come back in time."""


class NonsenseError(AssertionError):
    """Something was accepted, or changed by being written and read, that must not."""


class Case(NamedTuple):
    """One mutated input."""

    change: str
    call: Callable[[], object]
    nonsense: bool
    text: str
    """The input, to be kept with a finding."""


Subject = Callable[[random.Random, Path], Case]


@dataclass(frozen=True)
class Finding:
    """What went wrong, and where."""

    what: str
    where: str
    """Innermost lines of the traceback: equal ones are one defect."""


def judge(call: Callable[[], object]) -> Finding | str:
    """`accepted`, `refused` (an AsyncflError with a message that fits on a page), or a finding."""
    try:
        with _alarm():
            call()
    except AsyncflError as error:
        message = str(error)
        if not message.strip() or len(message) > LONGEST_MESSAGE or "Traceback" in message:
            return Finding(f"a message of {len(message)} characters", message[:200])
        return "refused"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        inner = traceback.extract_tb(error.__traceback__)
        lines = [f"{one.filename.rpartition('/')[2]}:{one.lineno} {one.name}" for one in inner]
        shown = lines if len(lines) < 9 else [*lines[:4], "...", *lines[-4:]]
        return Finding(f"{type(error).__name__}: {str(error)[:200]}", " < ".join(reversed(shown)))
    return "accepted"


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Asking for much more memory than now fails instead of taking the machine down."""
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HangError(f"longer than {LONGEST_S} s")

    limits = [(signal.SIGPROF, signal.ITIMER_PROF, LONGEST_S), (signal.SIGALRM, signal.ITIMER_REAL, LONGEST_ASLEEP_S)]
    before = [(number, signal.signal(number, ring)) for number, _, _ in limits]
    for _, timer, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for _, timer, _ in limits:
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)


@dataclass
class Report:
    """What became of all mutants."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], str] = field(default_factory=dict)
    """(what, where) -> seed, change and text of the first mutant that showed it."""

    def __str__(self) -> str:
        told = [f"{what}\n    at {where}\n    {first}" for (what, where), first in self.findings.items()]
        return "\n".join([", ".join(f"{number} {name}" for name, number in self.outcomes.items()), *told])


def campaign(
    subject: Subject, mutations: int, seed: int, folder: Path, told: Callable[[str], None] | None = None
) -> Report:
    """What becomes of `mutations` mutants of a subject; mutant i is drawn from (seed, i) alone."""
    report = Report()
    with bounded_memory():
        for number in range(mutations):
            case = subject(random.Random(f"{seed}/{number}"), folder)
            outcome = judge(case.call)
            if outcome == "accepted" and case.nonsense:
                outcome = Finding("nonsense was accepted", case.change)
            if isinstance(outcome, Finding):
                report.outcomes["found"] += 1
                place = (outcome.what[:60], outcome.where)
                if place not in report.findings:
                    report.findings[place] = f"{seed}/{number}: {case.change[:300]}\n    {case.text[:1500]!r}"
                    if told is not None:
                        told(f"{outcome.what}\n    at {outcome.where}\n    {report.findings[place]}")
            else:
                report.outcomes[outcome] += 1
    return report
