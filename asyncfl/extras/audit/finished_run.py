"""Finished runs that are simulated again, so that an audit can observe them, and the table of attacks on them.

The models that tasks start from are not stored, since that would take 4 bytes per parameter and task. A run is
deterministic, and the second simulation is cheaper because it evaluates no model before the last. Its clip norms,
noise, times and last losses are compared with the tables on disk, bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from asyncfl.base.arrays import Vector
from asyncfl.base.component import kind_of
from asyncfl.base.errors import Fault, OutputError, RunError, ScenarioError, system_says
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.files.reading import read_parquet
from asyncfl.base.instrument import Instrument
from asyncfl.client import Assignment, Batch
from asyncfl.learning.gemm import use
from asyncfl.privacy.release import Upload
from asyncfl.protocol.event_query import select
from asyncfl.protocol.messages import Publish
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.run_files import conditions_of
from asyncfl.results.run_tables import rounds_table
from asyncfl.results.storage import Run
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_seed
from asyncfl.simulation.action_executor import Traffic
from asyncfl.simulation.prepare import Federation
from asyncfl.simulation.seed_run import SeedRun

ATTACKS = "attacks.parquet"
"""Results of canaries and membership inference, in `audit/` of a run; the column `method` says which."""
EVALUATED = ("train_loss", "test_loss", "test_accuracy", "test_r2", "test_mae", "attack_success")
"""Columns of the table of rounds that are compared only for the last version."""


def with_sparse_evaluation(scenario: Scenario, train_every: int = 0, test_every: int = 0) -> Scenario:
    """Return `scenario` with models evaluated every so many versions (0: only the last) and nothing else measured."""
    changes: dict[str, Any] = {"train_every": train_every, "test_every": test_every, "clients_every": 0, "metrics": {}}
    changes |= {"aggregates": False, "record": "none", "keep": "none"}
    return scenario.model_copy(update={"evaluation": scenario.evaluation.model_copy(update=changes)})


def algorithm_faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield the faults of a run for audits that train tasks again: what its algorithm exchanged is not on disk, and no
    adversary of secure aggregation holds an update."""
    if (secure := scenario.protocol.secure_aggregation) is not None:
        message = f"must be null, as audits compare single updates, which nobody holds, got {kind_of(secure)}"
        yield Fault("protocol.secure_aggregation", f"{message}; audit a run without it")
    if scenario.algorithm.changes_tasks:
        names = ", ".join(one.name for one in scenario.payloads.downloads) or "the client's state"
        message = f"must be fedavg, as a task is trained again without {names}, got {kind_of(scenario.algorithm)}"
        yield Fault("algorithm.kind", message)


@dataclass(frozen=True)
class FinishedRun:
    """Run on disk whose seeds can be simulated again."""

    folder: Path
    run: Run

    @classmethod
    def load(cls, folder: str | Path) -> FinishedRun:
        """Load the run in `folder`. Raises RunError if this program would simulate it differently."""
        return cls.of(folder, Run.load(folder))

    @classmethod
    def of(cls, folder: str | Path, run: Run) -> FinishedRun:
        """Return the loaded `run` of `folder`. Raises RunError if this program would simulate it differently."""
        if not run.scenario.is_named(str(run.summary.get("hash"))):
            raise RunError(
                f"{folder} was made with another version of this program, of a component of your own or of the device "
                "profiles, so an audit cannot repeat it; run its scenario.yaml again"
            )
        return cls(Path(folder), run)

    @property
    def note(self) -> str:
        """Limitation of canary and membership audits of this run; empty: none."""
        if self.run.scenario.training.state == "kept":
            return "The run has training.state: kept; the attacker knew no client's optimiser. Others may find more."
        if not self.run.scenario.model.personal:
            return ""
        return (
            "The run has model.personal: the attacker had only the initial personal layers. An attacker with a "
            "client's own layers may find more."
        )

    def seeds(self, only: int | None = None) -> tuple[int, ...]:
        """Return the seeds to audit: all, or `only` one.

        Raises ScenarioError if the run lacks that seed, RunError if one of the seeds diverged.
        """
        known, broken = self.run.scenario.seeds, self.run.summary["diverged"]
        if only is not None and only not in known:
            message = f"must be one of the run's ({', '.join(map(str, known))}), got {only}"
            raise ScenarioError([Fault("--seed", message)])
        seeds = known if only is None else (only,)
        if diverged := [seed for seed in seeds if seed in broken]:
            sound = [seed for seed in known if seed not in broken]
            way_out = f"audit another with --seed {sound[0]}" if sound else "no seed of this run can be audited"
            raise RunError(f"{self.folder}: seed {diverged[0]} has diverged, so nothing can be measured; {way_out}")
        return seeds

    def tasks(self, seed: int) -> Tasks:
        """Return the tasks of a seed."""
        return Tasks.of(select(self.run.tables["tasks"], seed=seed))

    def overheard(self, seed: int, *, scoring: bool = False) -> frozenset[int]:
        """Return the tasks of a seed whose whole update the eavesdropper holds. `scoring`: also from a message that
        sent it to a client for scoring."""
        tasks = self.tasks(seed)
        held = ~np.isnan(tasks.overheard_up_s)
        return frozenset(tasks.task[held | ~np.isnan(tasks.overheard_scoring_s) if scoring else held].tolist())

    def resimulate(
        self, seed: int, instruments: Iterable[Instrument] = (), prior: SimulatedRuns | None = None
    ) -> SeedRun:
        """Simulate a seed again, with threads, matrix library and kernels of the first time, and return the result.

        Models are evaluated at the last version only. Raises RunError if the result differs from the tables on disk.

        `instruments`: follow the seed. `prior`: runs simulated for personal budgets and schedules; None: simulate them
        again.
        """
        rounds = self.run.rounds
        there = rounds[rounds["seed"] == seed].reset_index(drop=True)
        # The run may have ended before `protocol.rounds`; evaluate its last version as it was evaluated then.
        last = max(int(there["version"].iloc[-1]), 1)
        every = {name: 0 if pd.isna(there[name].iloc[-1]) else last for name in ("train_loss", "test_loss")}
        scenario = with_sparse_evaluation(self.run.scenario, every["train_loss"], every["test_loss"])
        with self.compute_settings(seed):
            again = simulate_seed(scenario, seed, instruments, prior)
        self._compare(seed, there, rounds_table(again).to_pandas())
        return again

    def compute_settings(self, seed: int) -> AbstractContextManager[None]:
        """Return a context that computes as the seed's first simulation did: threads, matrix library and kernels."""
        return use(conditions_of(self.folder, seed))

    def _compare(self, seed: int, there: pd.DataFrame, again: pd.DataFrame) -> None:
        differences = []
        if len(there) != len(again):
            differences.append((-1, f"it has {len(again) - 1} versions, on disk {len(there) - 1}"))
        for name in [] if differences else [str(name) for name in again if name in there]:
            first = len(again) - 1 if name.startswith(EVALUATED) else 0
            old, new = there[name].to_numpy()[first:], again[name].to_numpy()[first:]
            same = np.equal(old, new) | (pd.isna(old) & pd.isna(new))
            if not same.all():
                row = int(np.argmin(same))
                version = int(again["version"].iloc[first + row])
                differences.append((version, f"{name} of version {version} is {new[row]}, on disk {old[row]}"))
        if differences:
            raise RunError(
                f"{self.folder}: simulated again, seed {seed} differs: {min(differences)[1]}. A run can be audited "
                "only on the machine and with the library versions that made it; run its scenario.yaml again here"
            )


@dataclass(frozen=True)
class HeldUpload:
    """Upload that an adversary holds: its task, with the model that the client was sent, and its federation."""

    assignment: Assignment
    sent: Vector
    upload: Upload
    federation: Federation

    @property
    def samples(self) -> int:
        return self.upload.contribution.samples


class UploadCollector(Instrument):
    """Instrument that keeps the last model, and each client's last usable honest upload among `tasks` (None: all)."""

    def __init__(self, tasks: frozenset[int] | None) -> None:
        self._tasks = tasks
        self.federation: Federation
        self.held: dict[int, HeldUpload] = {}
        self.model: Vector

    def begin_seed(self, federation: Federation) -> None:
        self.federation, self.held = federation, {}

    def published(self, time_s: float, publish: Publish, traffic: Traffic) -> None:
        self.model = publish.model.copy()

    def collected(self, batch: Batch) -> None:
        for row, assignment in enumerate(batch.assignments):
            upload, model = batch.uploads[row], batch.models[row]
            usable = batch.sound[row] and not upload.attacked and np.isfinite(model).all()
            if usable and (self._tasks is None or assignment.task in self._tasks):
                kept = replace(assignment, base=assignment.base.copy())
                self.held[assignment.client] = HeldUpload(kept, model.copy(), upload, self.federation)


def schema(names: str) -> pa.Schema:
    """Return the schema of words such as `seed:i delta:f method`: integers, floats, text."""
    types = {"": pa.string(), "i": pa.int64(), "f": pa.float64()}
    return pa.schema([(name, types[kind]) for name, _, kind in (word.partition(":") for word in names.split())])


def read_attacks(folder: Path) -> pa.Table | None:
    """Read the table in the folder of a run; None: there was no attack. Raises RunError if it is damaged."""
    path = folder / "audit" / ATTACKS
    if not path.exists():
        return None
    try:
        table = read_parquet(path)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read as a table ({str(error).splitlines()[0]}); remove it") from None
    if not {"seed", "method"} <= set(table.column_names):
        raise RunError(f"{path} is no table of attacks; remove it")
    return table


def write_attacks(folder: Path, results: pa.Table) -> Path:
    """Write the results of one method in place of its earlier results of the same seeds; return the table's path.

    `results`: columns `seed`, `method` and those of the method, which hold null in rows of other methods. Raises
    OutputError.
    """
    before = read_attacks(folder)
    if before is not None:
        same_seed = pc.is_in(before["seed"], pc.unique(results["seed"]))
        replaced = pc.and_(pc.equal(before["method"], results["method"][0]), same_seed)
        results = pa.concat_tables([before.filter(pc.invert(replaced)), results], promote_options="default")
    # The bytes of the table do not depend on the order of the audits.
    results = results.take(pc.sort_indices(results, sort_keys=[("method", "ascending"), ("seed", "ascending")]))
    place = audit_folder(folder) / ATTACKS
    with atomic_file(place) as path:
        pq.write_table(results.combine_chunks(), path, compression="zstd")
    return place


def audit_folder(folder: Path, name: str = "") -> Path:
    """Return `audit` in the folder of a run, or its subfolder `name`; create it if missing. Raises OutputError."""
    own = folder / "audit" / name
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make {own}: {system_says(error)}") from None
    return own
