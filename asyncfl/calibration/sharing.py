"""Estimate the number of processors that clients and server share, from trainings that take longer under load.

With n jobs on P processors, each job gets r(n) = min(1, P / n) of a processor (egalitarian processor sharing:
Kleinrock, Queueing Systems II, 1976, section 4.4). So a training from time b to e does the work

    w = integral from b to e of r(n(t)) dt,

and where works have the density f, its end has the density f(w) r(n(e)). The times of trainings and aggregations are
known. The server also evaluates published versions, one after another: each evaluation has the same unknown work, a
known arrival, and an end that follows. P and the work of an evaluation are estimated by maximum likelihood, where f is
log-Laplace about the client's own median, so that a few outliers have little influence. Each parameter is accepted only
where it raises the likelihood by more than its cost (Schwarz, Ann. Statist. 6, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from asyncfl.calibration.families import Floats
from asyncfl.calibration.observations import Ints, ObservedRun, trained_s

TRIED = 12
"""Numbers of processors that are tried before the best one is refined."""
DEVIATIONS = 1.645
"""Standard deviations by which the gain in log-likelihood must exceed 0: one-sided 5 % level."""
SPREAD = 1e-6
"""Smallest spread of the logarithms of works, since equal works differ by rounding."""
STEPS = 70
"""Largest number of evaluations of the likelihood that refine the best values."""


@dataclass(frozen=True)
class Concurrency:
    """Number of concurrent jobs in one run over time."""

    at_s: Floats
    """(n,) times of changes, ascending."""
    at_work: Floats
    """(n,) number of jobs from these times on."""

    @classmethod
    def of(cls, at_s: Floats, change: Floats) -> Concurrency:
        """Create from the times `at_s` (m,) of jobs in any order; `change`: (m,) 1 at a start, -1 at an end."""
        moments, place = np.unique(at_s, return_inverse=True)
        return cls(moments, np.cumsum(np.bincount(place, change, len(moments))))

    def rate(self, processors: float) -> Floats:
        """Compute the share of a processor that each job gets from each change on, (n,)."""
        return np.asarray(np.minimum(1.0, processors / np.maximum(self.at_work, 1.0)))

    def rate_before(self, time_s: Floats, processors: float) -> Floats:
        """Compute the share of a processor just before the given times, which are after the first change."""
        return self.rate(processors)[np.searchsorted(self.at_s, time_s, side="left") - 1]

    def done(self, time_s: Floats, processors: float) -> Floats:
        """Compute the work, seconds on an unshared processor, that a job present all the time has done by `time_s`."""
        return np.asarray(np.interp(time_s, self.at_s, self._done(processors)))

    def reached(self, done: Floats, processors: float) -> Floats:
        """Compute the times at which a job present all the time has done the work `done`; the inverse of `done`."""
        return np.asarray(np.interp(done, self._done(processors), self.at_s))

    def _done(self, processors: float) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.rate(processors)[:-1] * np.diff(self.at_s))])


@dataclass(frozen=True)
class MachineActivity:
    others: Concurrency
    """Concurrency of trainings and aggregations."""
    published_s: Floats
    """(n,) publication times of evaluated versions, ascending."""
    client: Ints
    asked: Floats
    began_s: Floats
    ended_s: Floats
    """Finished trainings: client, samples times epochs, start and end."""

    @classmethod
    def of(
        cls, run: ObservedRun, aggregated: tuple[Floats, Floats], published_s: Floats, workers: int | None
    ) -> MachineActivity:
        """Create from one seed of a run.

        `aggregated`: starts and ends of aggregations, seconds. `published_s`: publication times of evaluated versions,
        ascending. `workers`: clients that can train at once; None: all.
        """
        tasks = run.tasks.only(~np.isnan(run.tasks.training_started_s))
        at_s = np.concatenate([tasks.training_started_s, trained_s(tasks), *aggregated, [0.0, run.end_s]])
        one, server, none = np.ones(len(tasks)), np.ones(len(aggregated[0])), np.zeros(2)
        clients = Concurrency.of(at_s, np.concatenate([one, -one, 0 * server, 0 * server, none]))
        servers = Concurrency.of(at_s, np.concatenate([0 * one, 0 * one, server, -server, none]))
        most = math.inf if workers is None else workers
        some = run.training_finished & (run.work > 0) & (run.tasks.trained_s > run.tasks.training_started_s)
        whole = run.tasks.only(some)
        others = Concurrency(clients.at_s, np.minimum(clients.at_work, most) + servers.at_work)
        return cls(others, published_s, whole.client, run.work[some], whole.training_started_s, whole.trained_s)

    def load(self, processors: float, evaluate_s: float) -> Concurrency:
        """Compute the concurrency including evaluations of `evaluate_s` seconds of work each."""
        if not evaluate_s or not len(self.published_s):
            return self.others
        others = self.others
        with_it = Concurrency(others.at_s, others.at_work + 1)
        # First come, first served, with time measured by the work that one more job would have done:
        # end_k = max over j <= k of (came_j + (k - j + 1) evaluate_s).
        came = with_it.done(self.published_s, processors)
        turn = np.arange(len(came)) * evaluate_s
        ended = np.maximum.accumulate(came - turn) + turn + evaluate_s
        began_s, ended_s = (with_it.reached(one, processors) for one in (ended - evaluate_s, ended))
        moments = np.unique(np.concatenate([others.at_s, began_s, ended_s]))
        before = others.at_work[np.searchsorted(others.at_s, moments, side="right") - 1]
        evaluates = np.searchsorted(began_s, moments, side="right") - np.searchsorted(ended_s, moments, side="right")
        return Concurrency(moments, before + evaluates)


@dataclass(frozen=True)
class ProcessorSharing:
    """Fitted processors, and work of an evaluation."""

    processors: float | None
    """Number of shared processors; None: each job has one."""
    evaluate_s: float
    """Seconds of an evaluation on an unshared processor; 0: none is visible."""
    loads: tuple[Concurrency, ...]
    """Concurrency of each run."""

    def work(self, run: int, began_s: Floats, ended_s: Floats) -> Floats:
        """Compute the work in intervals of a run, seconds on an unshared processor."""
        if self.processors is None:
            return ended_s - began_s
        load = self.loads[run]
        return load.done(ended_s, self.processors) - load.done(began_s, self.processors)


def fit_processor_sharing(
    runs: Sequence[ObservedRun],
    aggregated: Sequence[tuple[Floats, Floats]],
    published_s: Sequence[Floats],
    workers: int | None,
) -> ProcessorSharing:
    """Fit the number of shared processors, and the seconds of an evaluation, to runs.

    Without significant evidence that jobs slow each other down, each job gets a processor of its own, and evaluations
    take no time.

    `aggregated`, `published_s`: of each run, see `MachineActivity`. `workers`: clients that can train at once; None:
    all.
    """
    machines = [MachineActivity.of(*one, workers) for one in zip(runs, aggregated, published_s, strict=True)]
    alone = ProcessorSharing(None, 0.0, tuple(one.others for one in machines))
    client = np.concatenate([one.client for one in machines])
    several = np.bincount(client, minlength=1)[client] > 1
    most = max(float(one.others.at_work.max()) for one in machines) + 1
    if not several.any():
        return alone

    def densities(processors: float, evaluate_s: float) -> Floats:
        works, rates = [], []
        for one in machines:
            load = one.load(processors, evaluate_s)
            done = load.done(one.ended_s, processors) - load.done(one.began_s, processors)
            works.append(done / one.asked)
            rates.append(load.rate_before(one.ended_s, processors))
        work, rate = np.concatenate(works), np.concatenate(rates)
        return _log_densities(work[several], rate[several], client[several])

    def likelihood(processors: float, evaluate_s: float) -> float:
        return float(densities(processors, evaluate_s).sum())

    costs = math.log(np.count_nonzero(several)) / 2
    unshared = densities(most, 0.0)
    usual_s = float(np.median(np.concatenate([one.ended_s - one.began_s for one in machines])))
    evaluates = (0.0, 0.1 * usual_s, 0.5 * usual_s) if any(len(one.published_s) for one in machines) else (0.0,)
    tried = [(p, e) for e in evaluates for p in np.geomspace(1.0, most, TRIED).tolist()]
    found = [likelihood(*one) for one in tried]
    plain = _refined(likelihood, *tried[int(np.argmax(found[:TRIED]))], both=False)
    both = _refined(likelihood, *tried[int(np.argmax(found))], both=len(evaluates) > 1)
    # Each parameter costs: processors, and with `both` also the evaluation.
    worth, best = max((plain.log - costs, plain), (both.log - 2 * costs, both))
    gains = densities(best.processors, best.evaluate_s) - unshared
    # Where the jitter is not Laplace, sharing may fit slightly better by chance: the gain must be significant against
    # the variation between trainings (Vuong 1989).
    if worth - float(unshared.sum()) <= DEVIATIONS * math.sqrt(len(gains)) * float(gains.std()):
        return alone
    loads = tuple(one.load(best.processors, best.evaluate_s) for one in machines)
    return ProcessorSharing(best.processors, best.evaluate_s, loads)


class _Likelihood(NamedTuple):
    """Number of processors and seconds of an evaluation, with their log-likelihood."""

    processors: float
    evaluate_s: float
    log: float


def _refined(
    likelihood: Callable[[float, float], float], processors: float, evaluate_s: float, *, both: bool
) -> _Likelihood:
    """Maximise the likelihood near the given values; unless `both`, `evaluate_s` stays fixed."""
    start = np.array([processors, evaluate_s] if both else [processors])

    def at(free: Floats) -> _Likelihood:
        p, e = max(1.0, float(free[0])), max(0.0, float(free[1])) if both else evaluate_s
        return _Likelihood(p, e, likelihood(p, e))

    simplex = np.vstack([start, start + np.diag(0.2 * start + 1e-9)])
    options = {"maxfev": STEPS, "initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-3}
    found = optimize.minimize(lambda free: -at(free).log, start, method="Nelder-Mead", options=options)
    return at(found.x)


def _log_densities(work: Floats, rate: Floats, client: NDArray[np.int64]) -> Floats:
    """Compute log-densities (n,) of trainings up to a constant, as Laplace about the client's median logarithm.

    `work`: (n,) seconds on an unshared processor per sample and epoch; `rate`: (n,) share of a processor at the end.
    """
    logs = np.log(np.maximum(work, 1e-300))
    order = np.lexsort((logs, client))
    of, first = np.unique(client[order], return_index=True)
    number = np.diff(np.append(first, len(order)))
    ordered = logs[order]
    middle = (ordered[first + (number - 1) // 2] + ordered[first + number // 2]) / 2
    apart = np.abs(logs - middle[np.searchsorted(of, client)])
    spread = float(apart.mean()) + SPREAD
    densities: Floats = (apart.mean() - apart) / spread - math.log(spread) - logs + np.log(rate)
    return densities
