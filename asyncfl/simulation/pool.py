"""Training ahead of the clock, on several cores or machines.

What a task computes follows from its client, its turn, the model that it was sent, and random streams of its own. So
its training may begin as soon as the task does, anywhere, and results depend neither on the number of workers nor on
their speed or deaths. A task is sent to the workers if its own draws say that its update will arrive, the soonest
first; the clock waits for it only when the server collects it. A task that was foreseen wrongly is trained again.
"""

from __future__ import annotations

import heapq
import importlib
import itertools
import logging
import pickle
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from asyncfl.base.arrays import Bools, Vector
from asyncfl.base.client_state import ClientState
from asyncfl.base.component import components_in
from asyncfl.base.errors import AsyncflError, RunError, shortened
from asyncfl.base.files.checkpoint_file import package_digest
from asyncfl.base.own_classes import (
    describe_exception,
    describe_user_exception,
    folders_of_modules,
    look_for_modules_in,
    reach_modules,
)
from asyncfl.client import Assignment, Trained
from asyncfl.learning.gemm import Arithmetic, keep_threads, use
from asyncfl.measurements import Schedule
from asyncfl.simulation.evaluation import Evaluator, Measured
from asyncfl.simulation.prepare import Federation, ResolvedSeed, prepare
from asyncfl.simulation.workers import TrainingWorkers, fetch, leave, shared

log = logging.getLogger(__name__)

AT_ONCE = 3
"""Calls per worker that are handed over and not returned: one that it computes, and others so that it need not wait."""
HELD_BYTES = 2**30
"""Updates trained ahead of their collection, in bytes, beyond which no other is begun."""
FRUITLESS = 5
"""Deaths of workers, without a result between them, after which a run gives up."""
LOOK_S = 10.0
"""Seconds without a result, after which a run looks after its workers."""


@dataclass(frozen=True)
class TrainingOrder:
    """Order to train a task."""

    client: int
    turn: int
    epochs: int | None
    """Epochs that the client has time for; None for all."""
    attacked: bool
    """Whether it trains on poisoned data."""
    carried: ClientState
    """The part of the client's state that its training reads."""
    download: ClientState = field(default_factory=ClientState)
    """The algorithm's vectors that the client was sent with the model, as arrays."""
    version: int = -1
    """The version that the client was sent."""


# --- in a worker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeedDescription:
    """Description of a seed from which a worker prepares it."""

    resolved: ResolvedSeed
    digest: str
    """Digest of the scenario with its data and own components, as they are where the run began."""
    choice: Arithmetic


class NotComputed(NamedTuple):
    """Why a worker could not compute."""

    reason: str


class _Seed:
    """A seed in a worker."""

    def __init__(self, setup: SeedDescription) -> None:
        self.scenario = setup.resolved.scenario
        for name in {name for part in components_in(self.scenario) for name in part.code_modules}:
            importlib.import_module(name)  # the digest covers what is imported
        if (mine := self.scenario.digest()) != setup.digest:
            raise AsyncflError(
                f"its data or own components differ from those of the run: digest {mine}, not {setup.digest}"
            )
        with use(setup.choice):
            self.federation: Federation = prepare(setup.resolved)  # its learner keeps the library of the products
        keep_threads(setup.choice.threads)  # once: looking for the libraries takes longer than a small task

    @cached_property
    def schedule(self) -> Schedule:
        return self.scenario.evaluation_schedule

    @cached_property
    def evaluator(self) -> Evaluator:
        attackers = self.federation.attackers
        attack = None if attackers is None else attackers.threats.attack
        return Evaluator(self.federation.learner, self.federation.data, attack)


_seeds: dict[str, _Seed] = {}
"""Key -> the seed that this worker computed for last."""
_models: dict[str, Vector] = {}
"""Key -> model, the last few that were used."""
_KEPT_MODELS = 8
_one_at_a_time = threading.Lock()  # learners keep buffers, and a Dask worker may have several threads


def _seed_of(key: str, given: Any) -> _Seed:
    if key not in _seeds:
        _seeds.clear()
        _models.clear()
        folders, code, setup = pickle.loads(shared(given).tobytes())
        if code != (mine := package_digest()):
            raise AsyncflError(f"its code of asyncfl differs from that of the run: digest {mine}, not {code}")
        for folder in folders:
            look_for_modules_in(folder)
        reach_modules()
        # Pickled apart: it names classes of the user's own.
        _seeds[key] = _Seed(pickle.loads(setup))
    return _seeds[key]


def _model_of(key: str, given: Any) -> Vector:
    if key not in _models:
        while len(_models) >= _KEPT_MODELS:
            del _models[next(iter(_models))]
        _models[key] = shared(given)
    return _models[key]


def _computed(compute: Callable[[_Seed, Vector], Any], key: str, setup: Any, model_key: str, model: Any) -> Any:
    """Compute in a worker. `setup`, `model` (n_parameters,): see `shared`; `key`, `model_key`: what they are kept
    under."""
    try:
        with _one_at_a_time:
            seed = _seed_of(key, setup)
            given, began = _model_of(model_key, model), time.perf_counter()
            return compute(seed, given)._replace(seconds=time.perf_counter() - began)
    except BaseException as error:  # a worker that ended with sys.exit, too, would be taken for one that was killed
        own = describe_user_exception(error)
        return NotComputed(own or (str(error) if isinstance(error, AsyncflError) else describe_exception(error)))


def _train(order: TrainingOrder, place: str | None, seed: _Seed, base: Vector) -> Trained:
    """Train a task from the model that it was sent. `place`: where to leave its model; None: return it."""
    task = Assignment(-1, order.client, order.version, base, order.turn, order.epochs, download=order.download.arrays)
    made = seed.federation.path.trained(task, order.attacked, order.carried)
    return made._replace(model=leave(made.model, place))


def _evaluate(version: int, seed: _Seed, model: Vector) -> Measured:
    return seed.evaluator.measure(seed.scenario.evaluation, seed.schedule, version, model)


# --- where the run is ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Call:
    """A task or a version for the workers."""

    model: Vector
    """(n_parameters,) what it begins with."""
    order: TrainingOrder | int
    """Order to train, or number of a version to evaluate."""
    future: Future[Any] | None = None
    """None until it is handed over."""
    place: str | None = None
    """Path to which the worker may write a trained model; None: it returns the model."""
    needed: bool = True
    """Whether the run may still ask for its result."""


@dataclass
class _Model:
    """A model that the workers were given, while calls need it."""

    model: Vector
    key: str
    given: Any
    calls: int = 0


class TrainingPool:
    """Computes the tasks and evaluations of one seed by workers. Must be closed."""

    def __init__(self, workers: TrainingWorkers, setup: SeedDescription) -> None:
        self._workers = workers
        self._key = uuid.uuid4().hex
        self._names = itertools.count()
        try:
            described = pickle.dumps(setup)
        except Exception as error:
            reason = shortened(str(error), 200)
            raise RunError(f"workers cannot be given this scenario, a part of it cannot be pickled: {reason}") from None
        content = pickle.dumps((folders_of_modules(), package_digest(), described))
        self._content = np.frombuffer(content, np.uint8)
        self._setup = workers.share(self._content)
        self._models: dict[int, _Model] = {}
        """Identity of a model -> what the workers were given of it."""
        self._foreseen: dict[int, Call] = {}
        """Task -> its call."""
        self._queue: list[tuple[float, int]] = []
        """Heap of (virtual time at which its update is needed, task) of foreseen tasks."""
        self._collected = deque[Call]()
        """Calls of the buffer that the server collects now, before all that is foreseen."""
        self._running: list[Call] = []
        """Calls that are handed over and have not returned, with those that are not needed any more."""
        self._handed = set[Call]()
        """Calls that are handed over and neither taken by the run nor dropped."""
        self._fruitless = 0
        """Deaths of workers since a call has returned."""
        self.again = 0
        """Tasks that were foreseen wrongly, and trained once more."""
        self.in_vain = 0
        """Tasks that were handed over and not needed."""
        self.deaths = 0
        """Number of times that workers died and their tasks were handed over again."""

    @classmethod
    def of(cls, workers: TrainingWorkers, federation: Federation) -> TrainingPool:
        """Return a pool for a seed. Workers compute with as many threads as this process, and the same library."""
        import torch

        resolved = federation.resolved
        choice = Arithmetic(torch.get_num_threads(), federation.learner.gemm, federation.learner.kernels)
        return cls(workers, SeedDescription(resolved, resolved.scenario.digest(), choice))

    @property
    def number(self) -> int:
        """Number of workers."""
        return self._workers.number

    def foresee(self, task: int, order: TrainingOrder, model: Vector, needed_s: float) -> None:
        """Train a task once a worker is free. `model`: (n_parameters,) what it was sent; `needed_s`: virtual time at
        which its update is expected."""
        self._foreseen[task] = Call(model, order)
        heapq.heappush(self._queue, (needed_s, task))

    def feed(self) -> None:
        """Hand over foreseen tasks, the soonest needed first, if workers would have to wait otherwise."""
        returned = [call for call in self._running if call.future is None or call.future.done()]
        for call in returned:
            self._running.remove(call)
            if not call.needed:
                self._end(call)
        while self._collected and self._has_room(self._collected[0]):
            call = self._collected.popleft()
            if call.future is None:
                self._hand_over(call)
        while self._queue:
            foreseen = self._foreseen.get(self._queue[0][1])
            if foreseen is not None and foreseen.future is None:
                if not self._has_room(foreseen):
                    return
                self._hand_over(foreseen)
            heapq.heappop(self._queue)

    def _has_room(self, call: Call) -> bool:
        """Whether one more call may be handed over."""
        is_held = len(self._handed) * call.model.nbytes > HELD_BYTES
        return not is_held and len(self._running) < AT_ONCE * self._workers.number

    def train(
        self, tasks: Sequence[Assignment], attacked: Bools, carried: Sequence[ClientState], rows: Vector
    ) -> list[Trained]:
        """Write the models of trained tasks into `rows` (n, n_parameters). `carried`: see `Trainers.train`. Raises
        RunError if the workers cannot compute."""
        calls = [self._call_of(*one) for one in zip(tasks, attacked.tolist(), carried, strict=True)]
        self._collected.extend(call for call in calls if call.future is None)
        made = []
        for row, call in zip(rows, calls, strict=True):
            one: Trained = self.result(call)
            fetch(one.model, row)
            self._free(call)
            made.append(one)
        return made

    def _call_of(self, task: Assignment, attacked: bool, carried: ClientState) -> Call:
        vectors = ClientState(task.download)
        order = TrainingOrder(task.client, task.turn, task.epochs, attacked, carried, vectors, task.base_version)
        call = self._foreseen.pop(task.task, None)
        if call is not None and call.order == order:
            return call
        if call is not None:
            self.again += call.future is not None
            self._drop(call)
        return Call(task.base, order)

    def forget(self, task: int) -> None:
        """Discard a task whose update is not needed."""
        if (call := self._foreseen.pop(task, None)) is not None:
            self.in_vain += call.future is not None
            self._drop(call)

    def evaluate(self, version: int, model: Vector) -> Call:
        """Begin to evaluate a version, (n_parameters,)."""
        call = Call(model, version)
        self._hand_over(call)
        return call

    def result(self, call: Call) -> Any:
        """Wait for a call and return `Trained` or `Measured`. Raises RunError if the workers cannot compute it."""
        while True:
            self.feed()
            if call.future is None:
                self._hand_over(call)
            elif not call.future.done():
                self._await()
            else:
                try:
                    answer = call.future.result()
                except (BrokenExecutor, CancelledError) as error:
                    self._revive(error)
                    continue
                except Exception as error:
                    raise RunError(f"the workers cannot go on: {describe_exception(error)}") from error
                self._end(call)
                self._fruitless = 0
                if isinstance(answer, NotComputed):
                    raise RunError(f"a worker cannot compute: {answer.reason}")
                return answer

    def _await(self) -> None:
        """Wait until a call ends, and look after the workers from time to time."""
        under_way = [one.future for one in self._running if one.future is not None]
        if wait(under_way, LOOK_S, FIRST_COMPLETED).done:
            return
        try:
            self._workers.look()
        except BrokenExecutor as error:
            self._revive(error)

    def _hand_over(self, call: Call) -> None:
        known = self._models.get(id(call.model))
        if known is None:
            key = f"{self._key}/{next(self._names)}"
            known = self._models[id(call.model)] = _Model(call.model, key, self._workers.share(call.model))
        if isinstance(call.order, int):
            do: Callable[[_Seed, Vector], Any] = partial(_evaluate, call.order)
        else:
            call.place = call.place or self._workers.place()
            do = partial(_train, call.order, call.place)
        try:
            call.future = self._workers.executor.submit(_computed, do, self._key, self._setup, known.key, known.given)
        except (BrokenExecutor, OSError, EOFError) as error:  # the last two: the fork server was killed
            self._revive(error)
            self._hand_over(call)
            return
        known.calls += 1
        self._handed.add(call)
        self._running.append(call)

    def _drop(self, call: Call) -> None:
        call.needed = False
        if call.future is not None and (call.future.cancel() or call.future.done()):
            if call in self._running:
                self._running.remove(call)
            self._end(call)

    def _end(self, call: Call) -> None:
        """Forget a call that has returned, and what the workers were given for it alone."""
        self._handed.remove(call)
        if not call.needed:
            self._free(call)
        known = self._models[id(call.model)]
        known.calls -= 1
        if not known.calls:
            del self._models[id(call.model)]
            self._workers.unshare(known.given)

    def _revive(self, error: BaseException) -> None:
        """Hand over again what workers took with them that have died."""
        self.deaths += 1
        self._fruitless += 1
        if self._fruitless > FRUITLESS:
            reason = f"workers died {FRUITLESS} times without finishing a task; perhaps they lack memory"
            unguarded = "the script of the run does not begin at if __name__ == '__main__':"
            raise RunError(f"{reason}, or {unguarded}") from error
        self._workers.revive(error)
        lost = [call for call in self._handed if call.future is not None and not _is_on_its_way(call.future)]
        log.warning("workers died: %d tasks are computed again", sum(call.needed for call in lost))
        self._running = [call for call in self._running if call not in lost]
        for call in lost:
            self._end(call)
            call.future = None
        # The memory of a cluster dies with its workers.
        self._setup = self._workers.share(self._content)
        for known in self._models.values():
            known.given = self._workers.share(known.model)
        for call in lost:
            if call.needed:
                self._hand_over(call)

    def _free(self, call: Call, _: Future[Any] | None = None) -> None:
        if call.place is not None:
            self._workers.free(call.place)
            call.place = None

    def close(self) -> None:
        """Drop all calls, and what the workers were given and have left: they may compute for another seed next."""
        for call in self._handed:
            if call.future is not None:
                call.future.cancel()
                call.future.add_done_callback(partial(self._free, call))
        for known in self._models.values():
            self._workers.unshare(known.given)
        self._workers.unshare(self._setup)


def _is_on_its_way(future: Future[Any]) -> bool:
    """Whether a call has a result, or may still have one."""
    return not future.done() or (not future.cancelled() and future.exception() is None)
