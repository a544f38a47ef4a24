"""How far the workflow is: a line per experiment with a bar, runs done of all runs, and the time that is left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable

from asyncfl.base.quantities import quantity
from asyncfl.experiments.files import rule_name
from asyncfl.experiments.plan import WorkflowJob

BAR = 20
"""Letters of a bar."""
WIDTH = 24
"""Letters of an experiment's name; longer ones push the bar to the right."""
NAME = 60
"""Letters of it that are shown."""

_EXPECTED: list[WorkflowJob] = []


def expect(jobs: Iterable[WorkflowJob]) -> None:
    """Tells what the workflow of this process is made of, before it starts: Snakemake's loggers see no plan."""
    _EXPECTED[:] = jobs


def expected() -> tuple[WorkflowJob, ...]:
    """What `expect` was told last."""
    return tuple(_EXPECTED)


class WorkflowProgress:
    """Counts finished runs. Time left is told by the estimated cost of what is done and of what is not."""

    def __init__(
        self, jobs: Collection[WorkflowJob], todo: Collection[str], now: Callable[[], float] = time.monotonic
    ) -> None:
        """jobs: all of the plan. todo: names of the rules that this call will run. now: seconds of a clock."""
        self._now, self._start_s = now, now()
        self._todo = {job.name: job for job in jobs if job.name in todo}
        self._analyses = {rule_name("analysis", job.experiment): job.experiment for job in jobs}
        self._total: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        for job in jobs:
            self._total[job.experiment] += len(job.digests)
            self._done[job.experiment] += 0 if job.name in todo else len(job.digests)
        self._cost_s = sum(job.cost_s for job in self._todo.values())
        self._paid_s = 0.0

    @property
    def beginning(self) -> str:
        """What there is to do."""
        there, total = sum(self._done.values()), sum(self._total.values())
        return f"{there} of {total} runs are there; {len(self._todo)} jobs compute the others"

    def finished(self, rule: str) -> str | None:
        """The line of the experiment that a finished rule belongs to; None where it tells nothing new."""
        if rule in self._analyses:
            return f"{self._analyses[rule][:NAME]:{WIDTH}} tables, figures and verdicts are there"
        job = self._todo.pop(rule, None)
        if job is None:
            return None
        self._paid_s += job.cost_s
        name = job.experiment
        self._done[name] += len(job.digests)
        done, total = self._done[name], self._total[name]
        filled = BAR * done // total
        bar = "#" * filled + "." * (BAR - filled)
        return f"{name[:NAME]:{WIDTH}} [{bar}] {done} of {total} runs{self._left()}"

    def _left(self) -> str:
        """Time that is left for all runs, in words; empty where none is left or nothing is known."""
        if not self._todo or self._paid_s <= 0:
            return ""
        left_s = (self._now() - self._start_s) / self._paid_s * max(self._cost_s - self._paid_s, 0.0)
        return f", about {quantity(left_s, 's')} left for all"
