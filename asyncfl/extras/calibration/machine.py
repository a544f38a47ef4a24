"""Estimate when the server aggregated and evaluated, and the number of processors that clients and server share.

Trainings take longer under load. With n jobs on P processors, each job gets r(n) = min(1, P / n) of a processor
(egalitarian processor sharing: Kleinrock, Queueing Systems II, 1976, section 4.4). So a training from time b to e does
the work

    w = integral from b to e of r(n(t)) dt,

and where works have the density f, its end has the density f(w) r(n(e)). The times of trainings and aggregations are
known. The server also evaluates published versions, one after another: each evaluation has the same unknown work, a
known arrival, and an end that follows. P and the work of an evaluation are estimated by maximum likelihood, where f is
log-Laplace about the client's own median, so that a few outliers have little influence. Each parameter is accepted only
where it raises the likelihood by more than its cost (Schwarz, Ann. Statist. 6, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from asyncfl.extras.calibration.families import Floats
from asyncfl.extras.calibration.observations import Ints, ObservedRun, trained_s
from asyncfl.protocol.events import Kind
from asyncfl.protocol.messages import Fate
from asyncfl.protocol.tasks import FATES

TRIED = 12  # numbers of processors that are tried before the best one is refined
DEVIATIONS = 1.645  # standard deviations by which the gain in log-likelihood must exceed 0: one-sided 5 % level
SPREAD = 1e-6  # smallest spread of the logarithms of works, since equal works differ by rounding
STEPS = 70  # largest number of evaluations of the likelihood that refine the best values
AT_ONCE = 0.05  # share of an aggregation's duration after publication within which dispatches belong to the publication


def aggregations_of(run: ObservedRun) -> tuple[Floats, Floats]:
    """Return (n,) starts and (n,) ends of aggregations, seconds: from its event, or else the last update of a buffer,
    to the version. Where clients score updates there are none, because the server waits for the scores."""
    found: list[tuple[float, float]] = []
    time_s, published = run.column("time_s"), run.published_s
    used = run.tasks.only(run.tasks.fate == FATES.index(Fate.AGGREGATED))
    started, short_s = time_s[run.rows(Kind.AGGREGATION_STARTED)], time_s[run.rows(Kind.SHORT_BUFFER)]
    for number, at_s in published.items() if not len(run.rows(Kind.SCORES_REQUESTED)) else ():
        theirs = used.uploaded_s[(used.making == number) & (used.uploaded_s <= at_s)]
        if number == 0 or not len(theirs):
            continue
        began_s = float(theirs.max())
        if ((short_s >= began_s) & (short_s <= at_s)).any():
            # The server waited for updates that did not come.
            continue
        began_s = float(started[(started >= began_s) & (started <= at_s)].max(initial=began_s))
        # An update that arrived before the last version was published waited for that.
        found.append((max(began_s, published.get(number - 1, 0.0)), at_s))
    began, ended = np.array(found).reshape(-1, 2).T
    return began, ended


def aggregates_alone(run: ObservedRun, aggregated: tuple[Floats, Floats]) -> bool | None:
    """Return whether the server mostly dispatched no task while it aggregated.

    None: no aggregation took time, or the protocol dispatches tasks only with new versions.
    """
    began_s, ended_s = (one[aggregated[1] > aggregated[0]] for one in aggregated)
    if not len(began_s) or not run.scenario.protocol.dispatch.level(len(run.samples)):
        return None
    published = run.published_s
    tasks, made_s = run.tasks, np.array([published[version] for version in range(len(published))])
    # A task dispatched upon publication of a version gets that version, and is not dispatched during an aggregation.
    # A real server reads its clock again for the dispatch, slightly after the publication.
    soon_s = AT_ONCE * float(np.median(ended_s - began_s))
    for_next = tasks.dispatched_s - made_s[tasks.base_version] <= soon_s
    given_s = np.sort(tasks.dispatched_s[~for_next])
    meanwhile = np.searchsorted(given_s, ended_s, side="left") > np.searchsorted(given_s, began_s, side="left")
    # A request just before the last update of a buffer may be handled just after it.
    return float(meanwhile.mean()) < 0.5


def evaluated_s(run: ObservedRun) -> Floats:
    """Return the publication times of the evaluated versions, ascending."""
    schedule, published = run.scenario.evaluation_schedule, run.published_s
    due = [version for version in published if schedule.is_due(schedule.test_every, version)]
    return np.sort([published[version] for version in due])


@dataclass(frozen=True)
class Concurrency:
    """Number of concurrent jobs in one run over time."""

    at_s: Floats  # (n,) times of changes, ascending
    at_work: Floats  # (n,) number of jobs from these times on

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
    others: Concurrency  # concurrency of trainings and aggregations
    published_s: Floats  # (n,) publication times of evaluated versions, ascending
    client: Ints
    asked: Floats
    began_s: Floats
    ended_s: Floats  # finished trainings: client, samples times epochs, start and end

    @classmethod
    def of(cls, run: ObservedRun, aggregated: tuple[Floats, Floats], workers: int | None) -> MachineActivity:
        """Create from one seed of a run.

        `aggregated`: starts and ends of aggregations, seconds. `workers`: clients that can train at once; None: all.
        """
        tasks = run.tasks.only(~np.isnan(run.tasks.training_started_s))
        parts = (tasks.training_started_s, trained_s(tasks), *aggregated, np.array([0.0, run.end_s]))
        at_s, place = np.unique(np.concatenate(parts), return_inverse=True)
        part = np.repeat(np.arange(5), [len(one) for one in parts])
        trains, serves = (
            np.cumsum(np.bincount(place, (part == first) * 1.0 - (part == first + 1), len(at_s))) for first in (0, 2)
        )
        others = Concurrency(at_s, np.minimum(trains, math.inf if workers is None else workers) + serves)
        some = run.training_finished & (run.work > 0) & (run.tasks.trained_s > run.tasks.training_started_s)
        whole = run.tasks.only(some)
        return cls(others, evaluated_s(run), whole.client, run.work[some], whole.training_started_s, whole.trained_s)

    def load(self, processors: float, evaluate_s: float) -> Concurrency:
        """Compute the concurrency including evaluations of `evaluate_s` seconds of work each."""
        others = self.others
        if not evaluate_s or not len(self.published_s):
            return others
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

    processors: float | None  # number of shared processors; None: each job has one
    evaluate_s: float  # seconds of an evaluation on an unshared processor; 0: none is visible
    loads: tuple[Concurrency, ...]  # concurrency of each run

    def work(self, run: int, began_s: Floats, ended_s: Floats) -> Floats:
        """Compute the work in intervals of a run, seconds on an unshared processor."""
        if self.processors is None:
            return ended_s - began_s
        load = self.loads[run]
        return load.done(ended_s, self.processors) - load.done(began_s, self.processors)


def fit_processor_sharing(
    runs: Sequence[ObservedRun], aggregated: Sequence[tuple[Floats, Floats]], workers: int | None
) -> ProcessorSharing:
    """Fit the number of shared processors, and the seconds of an evaluation, to runs.

    Without significant evidence that jobs slow each other down, each job gets a processor of its own, and evaluations
    take no time. `aggregated`, `workers`: see `MachineActivity.of`.
    """
    machines = [MachineActivity.of(*one, workers) for one in zip(runs, aggregated, strict=True)]
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

    def refined(processors: float, evaluate_s: float, both: bool) -> tuple[float, float, float]:
        """Maximise the likelihood near the given values, and return it with them; unless `both`, keep `evaluate_s`."""
        start = np.array([processors, evaluate_s] if both else [processors])

        def at(free: Floats) -> tuple[float, float, float]:
            p, e = max(1.0, float(free[0])), max(0.0, float(free[1])) if both else evaluate_s
            return float(densities(p, e).sum()), p, e

        simplex = np.vstack([start, start + np.diag(0.2 * start + 1e-9)])
        options = {"maxfev": STEPS, "initial_simplex": simplex, "xatol": 1e-6, "fatol": 1e-3}
        return at(optimize.minimize(lambda free: -at(free)[0], start, method="Nelder-Mead", options=options).x)

    # Each parameter costs: processors, and with evaluations their work too.
    costs = math.log(np.count_nonzero(several)) / 2
    unshared = densities(most, 0.0)
    usual_s = float(np.median(np.concatenate([one.ended_s - one.began_s for one in machines])))
    evaluates = (0.0, 0.1 * usual_s, 0.5 * usual_s) if any(len(one.published_s) for one in machines) else (0.0,)
    tried = [(p, e) for e in evaluates for p in np.geomspace(1.0, most, TRIED).tolist()]
    found = [float(densities(*one).sum()) for one in tried]
    plain = refined(*tried[int(np.argmax(found[:TRIED]))], both=False)
    both = refined(*tried[int(np.argmax(found))], both=len(evaluates) > 1)
    worth, (_, processors, evaluate_s) = max((plain[0] - costs, plain), (both[0] - 2 * costs, both))
    gains = densities(processors, evaluate_s) - unshared
    # Where the jitter is not Laplace, sharing may fit slightly better by chance: the gain must be significant against
    # the variation between trainings (Vuong 1989).
    if worth - float(unshared.sum()) <= DEVIATIONS * math.sqrt(len(gains)) * float(gains.std()):
        return alone
    return ProcessorSharing(processors, evaluate_s, tuple(one.load(processors, evaluate_s) for one in machines))


def _log_densities(work: Floats, rate: Floats, client: Ints) -> Floats:
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
