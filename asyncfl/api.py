"""The program as a library: a scenario in, a run out."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from asyncfl.errors import AsyncflError, OutputError, RunError, system_says
from asyncfl.federation import (
    Federation,
    SeedLedger,
    SeedRun,
    clients_table,
    per_client_table,
    rounds_table,
    seed_summary,
)
from asyncfl.federation.round_recorder import Progress, Watch
from asyncfl.files.own_folder import FORMAT, fill
from asyncfl.learning.compute_settings import numpy_as_torch
from asyncfl.learning.gemm import resolve
from asyncfl.learning.weights import as_safetensors
from asyncfl.limits import USUAL, Limits
from asyncfl.privacy.ledger.statements import statements
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_clock, simulate_seed
from asyncfl.stages import Stage, nobody_waits
from asyncfl.storage import COMPLETE, PER_CLIENT, Run, RunFolder
from asyncfl.twins import Audited, TwinsObserver, audited
from asyncfl.under_way import Snapshots

log = logging.getLogger(__name__)


def simulate(
    scenario: Scenario | Mapping[str, Any], progress: Progress | None = None, *, limits: Limits = USUAL
) -> Run:
    """The run of `scenario`, built from classes or given as nested mappings of its fields: all its seeds, in memory.

    Nothing is written. Raises ScenarioError for a scenario that cannot be, or would take longer or more memory than
    `limits` say, DataError where the data are missing or too few, and RunError where data or code change meanwhile.
    """
    scenario = _read(scenario)
    limits.check(scenario)
    digest, parts = scenario.digest(), []
    for seed in scenario.seeds:
        parts.append(one_seed(scenario, seed, progress))
        _check_unchanged(scenario, digest, seed, 0)
    return gather(scenario, parts, digest)


def timeline(
    scenario: Scenario | Mapping[str, Any], progress: Progress | None = None, *, limits: Limits = USUAL
) -> list[SeedRun]:
    """The clock of `scenario` alone, without training: one per seed. Raises ScenarioError, also past `limits`."""
    scenario = _read(scenario)
    limits.check(scenario, training=False)
    return [simulate_clock(scenario, seed, progress=progress) for seed in scenario.seeds]


def _read(described: Scenario | Mapping[str, Any]) -> Scenario:
    return described if isinstance(described, Scenario) else Scenario.read(described)


def execute(
    scenario: Scenario | Mapping[str, Any],
    folder: str | Path,
    progress: Progress | None = None,
    *,
    force: bool = False,
    limits: Limits = USUAL,
    prior: SimulatedRuns | None = None,
    shelf: Path | None = None,
    stage: Stage = nobody_waits,
) -> Path:
    """Run `scenario` and write it to `folder`, unless it lies there whole already. Returns the folder.

    The folder must be new or empty, or hold a run. Finished seeds are kept in its `.partial` until the run is whole, so
    that a run that was interrupted goes on with the seeds it lacks; for whoever looks, `asyncfl.under_way` tells there
    how far the next one has come. force: compute the run again where it is there, and let it replace that of another
    scenario. `prior`: runs that others of this process are measured by as well, so that each is simulated once.
    `shelf`: a folder of finished seeds, whatever the number of seeds of their runs: a seed that is there is taken from
    it, others are put there. `stage`: is told how far accounting and audits are. Raises OutputError, and ScenarioError
    past `limits`, before anything is computed, DataError, and RunError where data or code change meanwhile: the seeds
    of before are kept then.
    """
    scenario = _read(scenario)
    own = RunFolder(Path(folder), scenario)
    own.check(force)
    if own.is_whole() and not force:
        log.info("%s holds the run already", own.folder)
        return own.folder
    limits.check(scenario)
    with own.working(force) as area:
        parts: list[Run] = []
        conditions = _conditions(scenario)
        for seed in scenario.seeds:
            place = area / conditions / f"seed-{seed}"
            kept = None if shelf is None else shelf / conditions / f"seed-{seed}"
            shelved = None if kept is None else _kept(kept)
            part = shelved or _kept(place)
            if part is not None:
                log.info("seed %d was finished before, in %s", seed, place if shelved is None else kept)
            else:
                snapshots = Snapshots(place.parent, scenario, seed)
                part = one_seed(scenario, seed, progress, prior, snapshots, stage)
                # On a disk that is nearly full the seed itself comes first.
                snapshots.clear()
                if not _check_unchanged(scenario, own.scenario, seed, len(parts)):
                    kept = None
                own.keep(place, part.write_to)
            if kept is not None and shelved is None:
                _shelve(part, kept)
            parts.append(part)
        own.replace(area, gather(scenario, parts, own.scenario).write_to, COMPLETE)
    log.info("%s written", own.folder)
    return own.folder


def _check_unchanged(scenario: Scenario, digest: str, seed: int, kept: int) -> bool:
    """Whether what the scenario names is known to be the same as in the beginning; False, which is logged, where it
    cannot be read now.

    kept: seeds that were finished before that, and lie on disk. Raises RunError where it is not the same.
    """
    try:
        if scenario.digest() == digest:
            return True
    except (AsyncflError, OSError) as error:
        # The samples were in memory: that they cannot be read for a moment must not cost hours of work.
        log.warning(
            "seed %d is kept, but whether what the scenario names has changed meanwhile cannot be told: %s", seed, error
        )
        return False
    before = [str(one) for one in scenario.seeds[:kept]]
    told = f"; seed {', '.join(before)} {'is' if kept == 1 else 'are'} kept, and whole" if kept else ""
    raise RunError(
        f"while seed {seed} was computed, samples, a component of your own or a file that the scenario names has "
        f"changed: nothing of that seed is kept{told}; run the scenario again, or undo the change first"
    )


def _kept(place: Path) -> Run | None:
    """The finished seed in `place`; None where there is none that can be read."""
    with suppress(RunError):
        return Run.load(place)
    return None


def _shelve(part: Run, place: Path) -> None:
    """Put a finished seed on its shelf, whole or not at all. Raises OutputError."""
    mine = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        fill(mine, part.write_to)
        if place.exists() and _kept(place) is None:
            shutil.rmtree(place)
        # Another process may have put the same seed there meanwhile.
        with suppress(OSError):
            os.replace(mine, place)
        shutil.rmtree(mine, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"cannot write {place}: {system_says(error)}") from None


def _conditions(scenario: Scenario) -> str:
    """Name of what the bytes of a seed depend on, so that seeds of other conditions are not put together.

    How many seeds the run has is no such condition.
    """
    import torch

    one = scenario.model_copy(update={"seeds": (0,)})
    text = json.dumps(
        [one.digest(), _versions(), torch.get_num_threads(), resolve(scenario.training.gemm)], sort_keys=True
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def one_seed(
    scenario: Scenario,
    seed: int,
    progress: Progress | None = None,
    prior: SimulatedRuns | None = None,
    watch: Watch | None = None,
    stage: Stage = nobody_waits,
) -> Run:
    """The run of one seed of `scenario`. `watch`: who looks at what it has come to, after each version; `stage`: who
    is told how far accounting and audits are."""
    audit, observers = scenario.evaluation.audit, []

    def watched(federation: Federation) -> Federation:
        if audit is not None:
            federation.path.observer = TwinsObserver(federation, audit, stage)
            observers.append(federation.path.observer)
        return federation

    with numpy_as_torch():
        result = simulate_seed(scenario, seed, progress, prior, watched, watch)
        run = run_of(scenario, result, stage)
        for observer in observers:
            with_audit(run, audited(observer, result, run.tables["ledger"]), seed)
    return run


def run_of(scenario: Scenario, result: SeedRun, stage: Stage = nobody_waits) -> Run:
    """A run of one seed, from what the seed left behind."""
    ledger, seed = SeedLedger(result, stage), result.seed
    return Run(
        scenario=scenario,
        tables={
            "rounds": ledger.with_epsilons(rounds_table(result)),
            "events": result.events,
            "clients": clients_table(result),
            "ledger": ledger.ledger,
            "spending": ledger.spending,
            **({} if (by_client := per_client_table(result)) is None else {PER_CLIENT: by_client}),
        },
        summary={"seeds": {str(seed): seed_summary(result)}},
        timing={str(seed): {"gemm": result.gemm, **result.seconds}},
        messages=[] if result.recording is None else [result.recording.text()],
        models={(seed, at): model for at, model in _kept_models(scenario, result).items()},
    )


def _kept_models(scenario: Scenario, result: SeedRun) -> dict[int, bytes]:
    """Version -> a kept model as safetensors; where layers are personal, with those of all clients."""
    if not result.kept:
        return {}
    parameter_split = scenario.model.parameter_split(scenario.data.shape, scenario.data.outputs)
    own = {at: parameter_split.by_name(one) for at, one in result.kept_personal.items()}
    return {at: as_safetensors(parameter_split.shared, one, own.get(at)) for at, one in result.kept.items()}


def with_audit(run: Run, found: Audited, seed: int) -> None:
    """Put what an audit of one seed found into the run of that seed alone: its table, the ledger, examples, notes."""
    run.tables |= {"audit": found.table, "ledger": found.ledger}
    run.files |= found.files
    run.summary["seeds"][str(seed)]["notes"] += found.notes


def gather(scenario: Scenario, parts: Sequence[Run], digest: str | None = None) -> Run:
    """One run out of the runs of its seeds. `digest`: that of the scenario when they began; None: as it is now."""
    tables = {name: _joined(name, [part.tables[name] for part in parts]) for name in parts[0].tables}
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


def _joined(name: str, tables: Sequence[pa.Table]) -> pa.Table:
    # A detector may have had a number to tell of one seed only.
    return pa.concat_tables(tables, promote_options="default" if name == "rounds" else "none")


def _notes(seeds: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader must know, each once; what was noted version by version with the number of versions."""
    noted = _total(summary.get("noted", {}) for summary in seeds)
    versions = sum(summary["versions"] for summary in seeds)
    counted = [f"{note} (in {number} of {versions} versions)" for note, number in noted.items()]
    return [*dict.fromkeys(note for summary in seeds for note in summary["notes"]), *counted]


def _total(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    names = ("asyncfl", "numpy", "torch", "simpy", "pyarrow")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
