"""Runs whose tasks are trained by workers have the bytes of runs that train here, whatever happens to the workers."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from asyncfl import Instrument, Scenario, simulate
from asyncfl.api import one_seed
from asyncfl.base.errors import RunError, ScenarioError
from asyncfl.cli import app
from asyncfl.cli.run import read_scenario
from asyncfl.results.storage import Run
from asyncfl.simulation import started_workers
from asyncfl.simulation.checkpoint import Checkpoints
from asyncfl.simulation.workers import TrainingWorkers, WorkerProcesses, start_remover

GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_runs.json").read_text(encoding="utf-8"))
BASE = GOLDEN["scenario"] | {"seeds": [0]}
PERSONAL = {"model.personal": ["3.*", "5.*"], "model.hidden": [16, 8]}
BUFFERED = {"kind": "buffered", "rounds": 12, "buffer": 3, "dispatch": {"kind": "constant", "in_flight": 6}}
CASES: dict[str, dict[str, Any]] = {
    **{name: run["changes"] for name, run in GOLDEN["runs"].items()},
    "personal layers, attackers of each round": {
        **PERSONAL,
        "threats": {"attack": {"kind": "label_flip"}, "attackers": 0.3, "selection": "per_round"},
    },
    "personal layers, in flight": {**PERSONAL, "protocol": BUFFERED | {"staleness": {"kind": "constant"}}},
    "noise after each epoch": {
        "privacy": {"kind": "local_gaussian", "epsilon": 60.0, "noise": "epoch"},
        "training.gradient_clip": 1.0,
    },
    "clients stop at a deadline": {"training.deadline_s": 0.16, "training.epochs": 4},
    "evaluations of some versions": {"evaluation": {"train_every": 2, "test_every": 3, "clients_every": 4}},
    "Poisson batches": {
        "privacy": {"kind": "dp_sgd", "noise_multiplier": 1.0},
        "training.batches": "poisson",
        "training.example_clip": 1.0,
        "training.example_noise": 1.0,
    },
    "diverges": {"training.lr": 1e6},
    "convolutions behind pooling": {"model": {"kind": "lenet", "channels": [4, 6], "hidden": [16]}},
    "pairwise secure aggregation": {"protocol.secure_aggregation": {"kind": "pairwise", "threshold": 2}},
    "secure aggregation of a buffer": {
        "protocol": BUFFERED | {"secure_aggregation": {"kind": "lightsecagg", "threshold": 3, "colluders": 1}},
        "privacy": {"kind": "dp_fedavg", "noise_multiplier": 0.1},
    },
}


def same(ours: Run, theirs: Run) -> bool:
    """Whether two runs agree in all files but `timing.json`."""
    assert ours.tables.keys() == theirs.tables.keys()
    for name, table in ours.tables.items():
        assert table.to_pandas().equals(theirs.tables[name].to_pandas()), name
    return (ours.summary, ours.models, ours.messages) == (theirs.summary, theirs.models, theirs.messages)


def counts(run: Run) -> dict[str, int]:
    """What the run says of its workers."""
    return dict(run.timing["0"]["workers"])


class Unruly(TrainingWorkers, Executor):
    """TrainingWorkers in this process that compute in a random order, when somebody waits, and die now and then."""

    def __init__(self, seed: int, dies: float = 0.0) -> None:
        self.number = 3
        self._random, self._dies = random.Random(seed), dies
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    @property
    def executor(self) -> Executor:
        return self

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Lazy(self)
        self._waiting.append((future, lambda: fn(*args)))
        return future

    def work(self) -> None:
        """Compute one of the calls."""
        if self._random.random() < self._dies:
            for future, _ in self._waiting:
                if future.set_running_or_notify_cancel():
                    future.set_exception(BrokenExecutor("killed"))
            self._waiting.clear()
        elif self._waiting:
            future, call = self._waiting.pop(self._random.randrange(len(self._waiting)))
            if future.set_running_or_notify_cancel():
                future.set_result(call())

    def share(self, array: np.ndarray) -> Any:
        return array.copy()

    def unshare(self, shared: Any) -> None:
        shared[:] = 0  # whoever still used it would notice

    def revive(self, error: BaseException) -> None:
        pass

    def close(self) -> None:
        pass


class Lazy(Future):  # type: ignore[type-arg]
    """A future that lets its workers compute when it is asked whether it is done."""

    def __init__(self, workers: Unruly) -> None:
        super().__init__()
        self.workers = workers

    def done(self) -> bool:
        if not super().done():
            self.workers.work()
        return super().done()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to start a cluster."""
    monkeypatch.setattr("asyncfl.simulation.workers.PATIENCE_S", 60.0)


@pytest.fixture(scope="module", name="two")
def two_processes() -> Iterator[TrainingWorkers | None]:
    with started_workers(2) as workers:
        yield workers


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if at % 2 else pytest.mark.long) for at, name in enumerate(CASES)]
)
def test_two_processes_change_no_byte(name: str, two: TrainingWorkers) -> None:
    scenario = Scenario.read(BASE).override(CASES[name])
    elsewhere = one_seed(scenario, 0, workers=two)
    assert same(elsewhere, one_seed(scenario, 0))
    assert counts(elsewhere)["deaths"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_neither_the_order_of_calls_nor_deaths_change_a_byte(seed: int) -> None:
    name = [*GOLDEN["runs"]][8 + seed]
    scenario = Scenario.read(BASE).override(CASES[name])
    elsewhere = one_seed(scenario, 0, workers=Unruly(seed, dies=0.1))
    assert counts(elsewhere)["deaths"] > 0
    assert same(elsewhere, one_seed(scenario, 0))


def test_tasks_are_trained_ahead_only_if_they_will_arrive() -> None:
    scenario = Scenario.read(BASE).override({"world.dropout": 0.5, "protocol.rounds": 12})
    found = counts(one_seed(scenario, 0, workers=Unruly(0)))
    assert found == {"number": 3, "again": 0, "in_vain": 0, "deaths": 0}


def test_a_killed_process_costs_its_tasks_again_and_not_the_run(tmp_path: Path) -> None:
    scenario = Scenario.read(BASE).override({"training.epochs": 40, "protocol.rounds": 20})
    with started_workers(2) as workers:
        assert isinstance(workers, WorkerProcesses)
        done = threading.Event()

        def kill() -> None:
            while not done.wait(0.05):
                for process in list(getattr(workers.executor, "_processes", None) or {}):
                    os.kill(process, signal.SIGKILL)
                    return

        killer = threading.Thread(target=kill)
        killer.start()
        run = one_seed(scenario, 0, workers=workers)
        done.set()
        killer.join()
    assert counts(run)["deaths"] == 1
    assert same(run, one_seed(scenario, 0))


def test_processes_that_outlive_a_broken_executor_do_not_keep_new_ones_from_starting() -> None:
    """An executor that breaks while it starts a process does not end that one, and waits for it."""
    with started_workers(2) as workers:
        assert isinstance(workers, WorkerProcesses)
        calls = [workers.executor.submit(time.sleep, 60) for _ in range(2)]
        first, last = getattr(workers.executor, "_processes").values()  # noqa: B009
        last.terminate = lambda: None
        os.kill(first.pid, signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):
            calls[0].result(timeout=50)
        began = time.monotonic()
        workers.revive(BrokenProcessPool())
        assert workers.executor.submit(abs, -1).result(timeout=50) == 1
        assert time.monotonic() - began < 50


def _half_sent(_: Any) -> bytes:
    """Return a result in whose sending the process is killed: half of it is in the pipe then."""
    whole = connection.Connection._send  # type: ignore[attr-defined]

    def send(self: Any, data: Any) -> None:
        if len(data) < 100_000:
            whole(self, data)
            return
        whole(self, bytes(data)[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    connection.Connection._send = send  # type: ignore[attr-defined]
    return bytes(200_000)


def test_a_process_killed_while_it_sends_a_result_does_not_hold_up_the_others() -> None:
    """The executor waits for the other half, which any process could write, and looks at nothing else."""
    with started_workers(2) as workers:
        assert isinstance(workers, WorkerProcesses)
        assert workers.executor.submit(abs, -1).result(timeout=50) == 1
        lost = workers.executor.submit(_half_sent, 0)
        for _ in range(500):
            time.sleep(0.1)
            try:
                workers.look()
            except BrokenProcessPool as error:
                workers.revive(error)
                break
        with pytest.raises(BrokenProcessPool):
            lost.result(timeout=50)
        assert workers.executor.submit(abs, -2).result(timeout=50) == 2
        workers.executor.submit(_half_sent, 0)
        time.sleep(0.2)
    # closing ended, too


def test_a_run_looks_after_workers_from_which_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncfl.simulation.pool.LOOK_S", 0.05)
    scenario = Scenario.read(BASE).override({"training.epochs": 40})
    with started_workers(1) as workers:
        assert isinstance(workers, WorkerProcesses)
        whole, looks = workers.look, [0]

        def look() -> None:
            looks[0] += 1
            if looks[0] == 1:
                raise BrokenProcessPool("a process was killed while it sent a result")
            whole()

        monkeypatch.setattr(workers, "look", look)
        run = one_seed(scenario, 0, workers=workers)
    assert counts(run)["deaths"] == 1
    assert same(run, one_seed(scenario, 0))


@pytest.mark.parametrize("raised", ["SystemExit(0)", "KeyboardInterrupt()", "type('Own', (BaseException,), {})()"])
def test_a_component_that_ends_its_worker_ends_the_run_with_a_message(
    raised: str, two: TrainingWorkers, tmp_path: Path
) -> None:
    name = f"ending_{len(raised)}"
    code = f"def mine(outputs, labels):\n    raise {raised}\n"
    scenario = own_component(tmp_path, name, code, evaluation={"metrics": {"mine": f"{name}:mine"}})
    with pytest.raises(RunError, match="a worker cannot compute"):
        one_seed(scenario, 0, workers=two)


def test_workers_that_always_die_end_the_run() -> None:
    with pytest.raises(RunError, match="workers died 5 times without finishing a task; perhaps they lack memory"):
        one_seed(Scenario.read(BASE), 0, workers=Unruly(0, dies=1.0))


def test_processes_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncfl.simulation.workers.MEMORY", tmp_path)
    scenario = Scenario.read(BASE | {"seeds": [0, 1]})
    with started_workers(1) as workers:
        one_seed(scenario, 0, workers=workers)
        processes = [*getattr(getattr(workers, "executor"), "_processes")]  # noqa: B009
        assert processes
        assert [*tmp_path.iterdir()]
    assert not [*tmp_path.iterdir()]
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_files_in_memory_are_used_again_by_the_next_seed(two: WorkerProcesses) -> None:
    run = one_seed(Scenario.read(BASE).override({"protocol": BUFFERED}), 0, workers=two)
    assert counts(run)["in_vain"] > 0
    deadline_s = time.monotonic() + 60
    while len(two._free) < len(files := [*two._folder.iterdir()]) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert {*two._free} == {*map(str, files)}
    one_seed(Scenario.read(BASE), 1, workers=two)
    assert len([*two._folder.iterdir()]) <= len(files) + 1


def test_a_run_on_a_full_memory_goes_on(two: WorkerProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two, "_free", [])
    monkeypatch.setattr(two, "_folder", Path("/dev/full"))  # nothing can be created below a file
    scenario = Scenario.read(BASE)
    assert same(one_seed(scenario, 0, workers=two), one_seed(scenario, 0))


def test_what_a_component_raises_in_a_worker_is_told_with_its_place(two: TrainingWorkers, tmp_path: Path) -> None:
    code = "def mine(outputs, labels):\n    raise RuntimeError('no such thing')\n"
    evaluation = {"metrics": {"mine": "faulty_metric:mine"}}
    scenario = own_component(tmp_path, "faulty_metric", code, evaluation=evaluation)
    with pytest.raises(RunError, match=r"faulty_metric.*line 2.*no such thing"):
        one_seed(scenario, 0, workers=two)


def own_component(folder: Path, name: str, code: str, **fields: Any) -> Scenario:
    """A scenario with a component of the module `name`."""
    (folder / f"{name}.py").write_text(code)
    (folder / "scenario.yaml").write_text(json.dumps(BASE | fields))
    return read_scenario(folder / "scenario.yaml", [])


def test_a_version_that_workers_cannot_evaluate_ends_the_run(tmp_path: Path) -> None:
    code = "calls = []\ndef mine(outputs, labels):\n    calls.append(0)\n    return 1 / (len(calls) != 3)\n"
    evaluation = {"metrics": {"mine": "fails_once:mine"}, "checkpoint": 1}
    scenario = own_component(tmp_path, "fails_once", code, evaluation=evaluation)
    checkpoints = Checkpoints(tmp_path / "seed", scenario, 0)
    with pytest.raises(RunError, match=r"a worker cannot compute: .*division by zero"):
        one_seed(scenario, 0, workers=Unruly(0), checkpoints=checkpoints)


def test_a_component_that_cannot_be_pickled_is_refused_for_workers(tmp_path: Path) -> None:
    code = (
        "from typing import Any\nfrom pydantic import PrivateAttr\nfrom asyncfl.defences import Rule\n"
        "class Held(Rule):\n    kind: str = 'holds_function:Held'\n"
        "    _mean: Any = PrivateAttr(default_factory=lambda: lambda updates: updates.mean(0))\n"
        "    def aggregate(self, updates, weights):\n        return self._mean(updates)\n"
    )
    scenario = own_component(tmp_path, "holds_function", code, defence={"rule": {"kind": "holds_function:Held"}})
    with pytest.raises(RunError, match="workers cannot be given this scenario, a part of it cannot be pickled"):
        one_seed(scenario, 0, workers=Unruly(0))


def test_a_worker_with_other_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter(["theirs", *["mine"] * 9])
    monkeypatch.setattr("asyncfl.simulation.pool.package_digest", lambda: next(codes))
    with pytest.raises(RunError, match="its code of asyncfl differs from that of the run: digest mine, not theirs"):
        one_seed(Scenario.read(BASE), 0, workers=Unruly(0))


def test_files_in_memory_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / "asyncfl" / "0").mkdir(parents=True)
    if (child := os.fork()) == 0:
        try:
            start_remover(tmp_path / "asyncfl")
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    for _ in range(1000):
        if not [*tmp_path.iterdir()]:
            return
        time.sleep(0.01)
    pytest.fail("files are left")


@pytest.mark.parametrize("asked", ["-1", "two", "1025", "1.5", ""])
def test_other_numbers_of_workers_are_refused(asked: str) -> None:
    with pytest.raises(ScenarioError, match=r"--workers: must be a number of processes, 1 to 1024, or the address"):
        simulate(BASE, workers=asked)


def test_the_command_refuses_no_workers_and_an_absent_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncfl.simulation.workers.PATIENCE_S", 0.5)
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(BASE))
    none = CliRunner().invoke(app, ["run", str(file), "--workers", "0", "--out", str(tmp_path / "a")])
    assert isinstance(none.exception, ScenarioError)
    assert "got 0" in str(none.exception)
    absent = CliRunner().invoke(app, ["run", str(file), "--workers", "tcp://127.0.0.1:9", "--out", str(tmp_path / "b")])
    assert isinstance(absent.exception, ScenarioError)
    assert "must be the address of a Dask scheduler with workers, got tcp://127.0.0.1:9" in str(absent.exception)
    assert not (tmp_path / "b").exists()


def on_a_cluster(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that starts a Dask cluster, which leaves sockets to the garbage collector."""
    quiet = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    return pytest.mark.long(quiet(test))  # type: ignore[no-any-return]


def cluster_of(number: int) -> Any:
    """A Dask cluster of this machine with `number` workers."""
    from distributed import LocalCluster

    return LocalCluster(n_workers=number, threads_per_worker=1, dashboard_address=":0")


@on_a_cluster
def test_lenet_on_two_workers_of_a_dask_cluster() -> None:
    scenario = Scenario.read(BASE).override({"model": {"kind": "lenet"}, "protocol.rounds": 4, "seeds": [0, 1]})
    with cluster_of(2) as cluster:
        elsewhere = simulate(scenario, workers=cluster.scheduler_address)
        cases = [CASES[name] for name in ("personal layers, in flight", "diverges")]
        for changes in cases:
            other = Scenario.read(BASE).override(changes)
            with started_workers(cluster.scheduler_address) as workers:
                assert same(one_seed(other, 0, workers=workers), one_seed(other, 0))
    assert counts(elsewhere)["number"] == 2
    assert same(elsewhere, simulate(scenario))


@on_a_cluster
@pytest.mark.parametrize("number", [1, 2])
def test_a_killed_worker_of_a_dask_cluster_costs_no_byte(number: int) -> None:
    scenario = Scenario.read(BASE).override({"training.epochs": 40, "protocol.rounds": 30})
    with cluster_of(number) as cluster:
        victim = next(iter(cluster.workers.values())).pid

        class Killer(Instrument):
            """Kills a worker in the middle of the run."""

            def row(self, row: Mapping[str, Any]) -> None:
                if row["version"] == 5:
                    os.kill(victim, signal.SIGKILL)

        elsewhere = simulate(scenario, [Killer()], workers=cluster.scheduler_address)
    assert number == 2 or counts(elsewhere)["deaths"] > 0  # of two, the other may have all that is needed
    assert same(elsewhere, simulate(scenario))


@on_a_cluster
def test_a_worker_that_dies_while_it_is_sent_a_model_does_not_hold_up_a_cluster() -> None:
    two = cluster_of(2)
    with two as cluster, started_workers(cluster.scheduler_address) as workers:
        assert workers is not None
        victim = next(iter(cluster.workers.values())).pid
        os.kill(victim, signal.SIGSTOP)  # it takes what it is sent, and does not answer
        killer = threading.Timer(2.0, os.kill, (victim, signal.SIGKILL))
        killer.start()
        models = [np.arange(4.0) + number for number in range(4)]
        given = [workers.share(model) for model in models]
        killer.join()
        sums = [workers.executor.submit(np.sum, one).result(timeout=60) for one in given]
    assert sums == [6.0, 10.0, 14.0, 18.0]


class Unsendable:
    """A result that ends the worker which is asked to send it."""

    def __reduce__(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def _unsendable(_: Any) -> Unsendable:
    return Unsendable()


@on_a_cluster
def test_calls_on_a_cluster_end_whatever_becomes_of_them() -> None:
    """Dask's own executor never ends a call whose result is lost with the only worker: a run would wait for ever."""
    one = cluster_of(1)
    with one as cluster, started_workers(cluster.scheduler_address) as workers:
        assert workers is not None
        submit = workers.executor.submit
        lost = submit(_unsendable, workers.share(np.arange(4.0)))
        with pytest.raises(CancelledError):
            lost.result(timeout=60)
        workers.revive(CancelledError())
        with pytest.raises(ValueError, match="invalid literal"):
            submit(int, "x").result(timeout=60)
        assert submit(int, "12", base=3).result(timeout=60) == 5
        first, second = submit(time.sleep, 5), submit(abs, -1)
        assert second.cancel()
        wait([first, second], timeout=60)
        assert first.done()
        assert second.cancelled()
        assert submit(abs, -2).result(timeout=60) == 2


@on_a_cluster
def test_a_run_whose_scheduler_dies_ends_with_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncfl.simulation.workers.PATIENCE_S", 10.0)  # so long does it try to connect again
    scenario = Scenario.read(BASE).override({"training.epochs": 40, "protocol.rounds": 400})
    cluster = cluster_of(1)

    class Killer(Instrument):
        """Ends the cluster as soon as a version is published."""

        thread = threading.Thread(target=cluster.close)

        def row(self, row: Mapping[str, Any]) -> None:
            if row["version"] == 2:
                self.thread.start()

    with cluster, pytest.raises(RunError, match="the workers are gone: "):
        simulate(scenario, [Killer()], workers=cluster.scheduler_address)
    Killer.thread.join()


@pytest.mark.long
def test_five_processes_change_no_byte() -> None:
    with started_workers(5) as workers:
        for changes in CASES.values():
            scenario = Scenario.read(BASE).override(changes)
            assert same(one_seed(scenario, 0, workers=workers), one_seed(scenario, 0))
