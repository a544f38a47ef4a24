"""Simulate scenarios from Python: `simulate` in memory, `execute` into a folder, `timeline` without training."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from asyncfl.base.errors import AsyncflError, Fault, OutputError, RunError, ScenarioError, system_says
from asyncfl.base.files.own_folder import CHECKPOINT, FORMAT, FolderMark, Write, fill
from asyncfl.base.instrument import NO_INSTRUMENT, Instrument, Instruments
from asyncfl.base.interrupt_signals import InterruptSignals
from asyncfl.learning.gemm import choice, numpy_as_torch, sizes_of
from asyncfl.learning.kernels import TORCH
from asyncfl.learning.kernels import VERSION as KERNELS_VERSION
from asyncfl.learning.weights import as_safetensors
from asyncfl.privacy.ledger.statements import statements
from asyncfl.results.run_files import read_summary, read_table
from asyncfl.results.run_tables import clients_table, per_client_table, rounds_table, seed_summary
from asyncfl.results.seed_ledger import SeedLedger
from asyncfl.results.snapshots import Snapshots
from asyncfl.results.storage import COMPLETE, PER_CLIENT, Run, RunFolder
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, TrainingWorkers, simulate_clock, simulate_seed, started_workers
from asyncfl.simulation.checkpoint import Checkpoints, PausedError
from asyncfl.simulation.limits import USUAL, Limits
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.simulation.workers import check_workers

log = logging.getLogger(__name__)

SEED = "seed"
"""Contents of a folder with one finished seed, by its mark."""


def simulate(
    scenario: Scenario | Mapping[str, Any],
    instruments: Iterable[Instrument] = (),
    *,
    limits: Limits = USUAL,
    workers: int | str = 0,
) -> Run:
    """Simulate all seeds of `scenario` in memory and return the run. Writes no files.

    `scenario`: a `Scenario`, or its fields as nested mappings. `instruments`: follow the run.
    `workers`: number of further processes that train and evaluate (a script that asks for some must begin at `if
    __name__ == "__main__":`), or the address of a Dask scheduler; 0: this process does. Results do not depend on it.

    Raises ScenarioError for an invalid scenario or one whose estimated time or memory exceeds `limits`, DataError if
    data are missing or too few, and RunError if data or code change during the run.
    """
    scenario = _read(scenario)
    limits.check(scenario)
    digest, parts = scenario.digest(), []
    with closing(Instruments(instruments)) as instrument, started_workers(workers) as started:
        instrument.begin(digest, scenario.resolved())
        for seed in scenario.seeds:
            parts.append(one_seed(scenario, seed, [instrument], workers=started))
            _check_unchanged(scenario, digest, seed)
        run = gather(scenario, parts, digest)
        instrument.end(run.summary)
    return run


def timeline(
    scenario: Scenario | Mapping[str, Any], instruments: Iterable[Instrument] = (), *, limits: Limits = USUAL
) -> list[SeedRun]:
    """Simulate the clock of `scenario` alone, without training, and return one result for each seed.

    Arguments as in `simulate`; instruments receive the rows of the table of rounds. Raises ScenarioError.
    """
    scenario = _read(scenario)
    limits.check(scenario, training=False)
    with closing(Instruments(instruments)) as instrument:
        return [simulate_clock(scenario, seed, instruments=[instrument]) for seed in scenario.seeds]


def _read(described: Scenario | Mapping[str, Any]) -> Scenario:
    return described if isinstance(described, Scenario) else Scenario.read(described)


def execute(
    scenario: Scenario | Mapping[str, Any],
    folder: str | Path,
    instruments: Iterable[Instrument] = (),
    *,
    force: bool = False,
    limits: Limits = USUAL,
    prior: SimulatedRuns | None = None,
    seed_cache: Path | None = None,
    workers: int | str = 0,
    until: int | None = None,
) -> Path:
    """Simulate `scenario` and write the run to `folder`, unless a complete run is there already. Return the folder.

    The folder must be new, empty, or hold a run. Finished seeds are kept in its `.partial` until the run is complete,
    so an interrupted run continues with the seeds that it lacks; `asyncfl.results.snapshots` reports the progress of
    the seed that is being computed.

    `force`: compute the run again, and replace a run of another scenario. `prior`: clock-only runs that several
    scenarios of this process need, so that each is simulated once. `seed_cache`: a folder of finished seeds that runs
    share; seeds found there are reused, others are added. `instruments`: follow the run; the rows of a finished run or
    seed are read from its files. `workers`: as in `simulate`. `until`: version at which each seed pauses; the folder
    then holds no run yet, and a later call goes on.

    Raises OutputError or ScenarioError before anything is computed, DataError, and RunError where data or code change
    during the run; seeds that were finished before are kept. A signal (SIGINT, SIGTERM, SIGHUP) leaves a checkpoint and
    raises KeyboardInterrupt, unless the caller handles it.
    """
    scenario = _read(scenario)
    with closing(Instruments(instruments)) as instrument:
        return _execute(scenario, Path(folder), instrument, force, limits, prior, seed_cache, workers, until)


def _execute(
    scenario: Scenario,
    folder: Path,
    instrument: Instruments,
    force: bool,
    limits: Limits,
    prior: SimulatedRuns | None,
    seed_cache: Path | None,
    workers: int | str,
    until: int | None,
) -> Path:
    """See `execute`."""
    own = RunFolder(folder, scenario)
    own.check(force)
    if until is not None and until < 1:
        raise ScenarioError([Fault("until", f"must be a version, at least 1, got {until}")])
    if until is not None and scenario.evaluation.audit is not None:
        raise ScenarioError([Fault("evaluation.audit", "must be null for a run that pauses (--until)")])
    if own.is_whole() and not force:
        own.tidy()
        log.info("%s holds the run already", own.folder)
        if instrument:
            instrument.begin(own.scenario, scenario.resolved())
            _read_rows(read_table(own.folder, "rounds"), instrument)
            instrument.end(read_summary(own.folder / COMPLETE))
        return own.folder
    limits.check(scenario)
    check_workers(workers)
    instrument.begin(own.scenario, scenario.resolved())
    with own.working(force) as area, InterruptSignals() as interrupts, started_workers(workers) as started:
        parts: list[Run] = []
        conditions = _conditions(scenario)
        for seed in scenario.seeds:
            place = area / conditions / f"seed-{seed}"
            kept = None if seed_cache is None else seed_cache / conditions / f"seed-{seed}"
            cached = None if kept is None else _kept(kept, scenario, seed)
            part = cached or _kept(place, scenario, seed)
            if part is not None:
                log.info("seed %d was finished before, in %s", seed, place if cached is None else kept)
                _read_rows(part.tables["rounds"], instrument)
            else:
                snapshots = Snapshots(place.parent, scenario, seed)
                file = place.with_suffix(CHECKPOINT)
                checkpoints = Checkpoints(file, scenario, seed, until, interrupts=interrupts)
                try:
                    part = one_seed(scenario, seed, [instrument, snapshots], prior, started, checkpoints)
                    # On a nearly full disk the finished seed is worth more than the snapshots.
                    snapshots.clear()
                    if not _check_unchanged(scenario, own.scenario, seed, scenario.seeds[: len(parts)]):
                        kept = None
                    with _one_part(instrument, f"files of seed {seed}"):
                        own.keep(place, _writer(part))
                except PausedError as paused:
                    log.info("%s", paused)
                    continue
                except KeyboardInterrupt:
                    checkpoints.keep_ended()
                    raise
                checkpoints.clear()
            if kept is not None and cached is None:
                _cache_seed(part, kept, scenario, seed)
            parts.append(part)
        if len(parts) < len(scenario.seeds):
            log.info("%s is not complete yet", own.folder)
            return own.folder
        with _one_part(instrument, "files of the run"):
            own.replace(area, gather(scenario, parts, own.scenario).write_to, COMPLETE)
    instrument.end(read_summary(own.folder / COMPLETE))
    log.info("%s written", own.folder)
    return own.folder


def _read_rows(rounds: pa.Table, instrument: Instrument) -> None:
    for row in rounds.to_pylist():
        instrument.row(row)


@contextmanager
def _one_part(instrument: Instrument, what: str) -> Iterator[None]:
    instrument.progress(what, 0, 1)
    yield
    instrument.progress(what, 1, 1)


def _check_unchanged(scenario: Scenario, digest: str, seed: int, kept: Sequence[int] = ()) -> bool:
    """Whether the data and code that `scenario` names are verified to be unchanged since `digest` was computed.

    Returns False, and logs why, where they cannot be read now. `kept`: seeds already finished on disk. Raises RunError
    where they have changed.
    """
    try:
        if scenario.digest() == digest:
            return True
    except (AsyncflError, OSError) as error:
        # The samples were read before training: a disk that fails now must not cost hours of work.
        unread = "the data and code of the scenario cannot be read to check them for changes"
        log.warning("seed %d is kept, but %s: %s", seed, unread, error)
        return False
    kept_seeds = f"; seed {', '.join(map(str, kept))} {'is' if len(kept) == 1 else 'are'} kept" if kept else ""
    raise RunError(
        f"samples, a component of your own or a file that the scenario names changed while seed {seed} was computed: "
        f"that seed is discarded{kept_seeds}; run the scenario again, or undo the change first"
    )


def _writer(part: Run) -> Write:
    """Return a function that writes the run of one seed, and a mark with the digests of its files, into a folder."""

    def write(into: Path) -> None:
        part.write_to(into)
        FolderMark.of(into, SEED, "", volatile=RunFolder.volatile).write(into)

    return write


def _kept(place: Path, scenario: Scenario, seed: int) -> Run | None:
    """Load the finished seed in `place`; None where there is none, or one that is damaged or of another scenario."""
    if not place.is_dir():
        return None
    try:
        mark, part = FolderMark.read(place), Run.load(place)
        if mark is None or mark.holds != SEED:
            raise RunError("it has no mark of a finished seed")
        if "tasks.parquet" not in mark.files:
            raise RunError("an earlier version of this program wrote it")
        same = _of_one(part.scenario.resolved()) == _of_one(scenario.resolved())
        if not same or list(part.summary["seeds"]) != [str(seed)]:
            raise RunError("it is of another scenario or seed")
    except AsyncflError as error:
        log.warning("seed %d in %s is not used and computed again: %s", seed, place, error)
        return None
    return part


def _of_one(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a scenario on which the run of one seed depends."""
    evaluation = {name: value for name, value in description["evaluation"].items() if name != "checkpoint"}
    return {**description, "seeds": None, "evaluation": evaluation}


def _cache_seed(part: Run, place: Path, scenario: Scenario, seed: int) -> None:
    """Add a finished seed to the cache, completely or not at all. Raises OutputError."""
    mine = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        fill(mine, _writer(part))
        if place.exists() and _kept(place, scenario, seed) is None:
            shutil.rmtree(place)
        # Another process may have added the same seed meanwhile.
        with suppress(OSError):
            os.replace(mine, place)
        shutil.rmtree(mine, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"cannot write {place}: {system_says(error)}") from None


def _conditions(scenario: Scenario) -> str:
    """Return the digest of everything that the bytes of a seed depend on: scenario, versions, threads, matrix library
    and kernels.

    The number of seeds is not part of it. Only seeds with equal digests are joined into one run.
    """
    one = scenario.model_copy(update={"seeds": (0,)})
    training, data = scenario.training, scenario.data
    layout = scenario.model.layout(data.shape, data.outputs)
    kernels = training.kernels if layout.convolves else TORCH
    computed_by = [one.digest(), _versions(), *choice(training.gemm, sizes_of(layout, training.batch_size), kernels)]
    if kernels != TORCH:
        computed_by.append(KERNELS_VERSION)
    return hashlib.sha256(json.dumps(computed_by, sort_keys=True).encode()).hexdigest()[:16]


def one_seed(
    scenario: Scenario,
    seed: int,
    instruments: Iterable[Instrument] = (),
    prior: SimulatedRuns | None = None,
    workers: TrainingWorkers | None = None,
    checkpoints: Checkpoints | None = None,
) -> Run:
    """Simulate one seed of `scenario`, and return its run. Writes no files. Arguments as in `simulate_seed`."""
    instrument = Instruments(instruments)
    followed_by: list[Instrument] = [instrument]
    if (audit := scenario.evaluation.audit) is not None:
        checkpoints = None  # the twins of audited clients are not part of a checkpoint
        followed_by.append(audit.instrument(instrument))
    with numpy_as_torch():
        result = simulate_seed(scenario, seed, followed_by, prior, workers, checkpoints)
        run = run_of(scenario, result, instrument)
        Instruments(reversed(followed_by)).complete(result, run)  # what the audit found is in the run then
    return run


def run_of(scenario: Scenario, result: SeedRun, instrument: Instrument = NO_INSTRUMENT) -> Run:
    """Return the run of one seed from its result: tables, ledger, summary, kept models. `instrument`: receives
    the progress."""
    seed = result.seed
    instrument.progress(_tables_of(seed), 0, 1)
    ledger = SeedLedger(result, instrument)
    tables = {"rounds": ledger.with_epsilons(rounds_table(result)), "events": result.events, "tasks": result.tasks}
    tables |= {"clients": clients_table(result), "ledger": ledger.ledger, "spending": ledger.spending}
    if (by_client := per_client_table(result)) is not None:
        tables[PER_CLIENT] = by_client
    run = Run(
        scenario=scenario,
        tables=tables,
        summary={"seeds": {str(seed): seed_summary(result)}},
        timing={str(seed): {"gemm": result.gemm, "kernels": result.kernels, **result.seconds, **_by_workers(result)}},
        messages=[] if result.recording is None else [result.recording.text()],
        models={(seed, at): model for at, model in _kept_models(scenario, result).items()},
    )
    instrument.progress(_tables_of(seed), 1, 1)
    return run


def _tables_of(seed: int) -> str:
    return f"tables of seed {seed}"


def _by_workers(result: SeedRun) -> dict[str, Any]:
    return {"workers": result.workers} if result.workers else {}


def _kept_models(scenario: Scenario, result: SeedRun) -> dict[int, bytes]:
    """Return version -> kept model as safetensors, including all clients' personal layers where there are any."""
    if not result.kept:
        return {}
    parameter_split = scenario.model.parameter_split(scenario.data.shape, scenario.data.outputs)
    own = {at: parameter_split.by_name(one) for at, one in result.kept_personal.items()}
    return {at: as_safetensors(parameter_split.shared, one, own.get(at)) for at, one in result.kept.items()}


def gather(scenario: Scenario, parts: Sequence[Run], digest: str | None = None) -> Run:
    """Return one run that joins the runs of single seeds.

    `digest`: digest of the scenario at the start of the run; None: compute it now.
    """
    tables = {}
    for name in parts[0].tables:
        # A detector may report a column in some seeds only.
        promote = "default" if name == "rounds" else "none"
        tables[name] = pa.concat_tables([part.tables[name] for part in parts], promote_options=promote)
    seeds = {seed: summary for part in parts for seed, summary in part.summary["seeds"].items()}
    first = next(iter(seeds.values()))
    return Run(
        scenario=scenario,
        tables={name: table.unify_dictionaries().combine_chunks() for name, table in tables.items()},
        summary={
            "hash": digest or scenario.digest(),
            "format": FORMAT,
            "versions": _versions(),
            "data": {"dataset": ", ".join(scenario.data.names), **first["data"]},
            "learner": first["learner"],
            "notes": _notes(list(seeds.values())),
            "privacy": statements(tables["ledger"]),
            "diverged": [int(seed) for seed, summary in seeds.items() if summary["diverged"]],
            "fates": _total(summary["fates"] for summary in seeds.values()),
            "tasks": _total(summary["tasks"] for summary in seeds.values()),
            "seeds": seeds,
        },
        timing={seed: seconds for part in parts for seed, seconds in part.timing.items()},
        messages=[text for part in parts for text in part.messages],
        files={name: content for part in parts for name, content in part.files.items()},
        models={key: model for part in parts for key, model in part.models.items()},
    )


def _notes(seeds: Sequence[dict[str, Any]]) -> list[str]:
    """Return the notes of all seeds without repetition; notes made in some versions carry their number."""
    noted = _total(summary.get("noted", {}) for summary in seeds)
    versions = sum(summary["versions"] for summary in seeds)
    counted = [
        note if number == versions else f"{note} (in {number} of {versions} versions)" for note, number in noted.items()
    ]
    return [*dict.fromkeys(note for summary in seeds for note in summary["notes"]), *counted]


def _total(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the sum of counts by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on."""
    from importlib.metadata import version

    names = ("asyncfl", "numpy", "torch", "simpy", "pyarrow")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
