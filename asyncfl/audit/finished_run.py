"""A finished run, simulated once more so that an audit can look on.

Base models of tasks are not stored: a run is deterministic, and making it again costs less than it cost, since no model
is judged on the way. Storing them would take 4 bytes per parameter and audited task. What is made again must be what
lies on disk, which is checked: clip norms, noise, times and the last losses, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from asyncfl.errors import Fault, RunError, ScenarioError
from asyncfl.federation import Federation, SeedRun, rounds_table
from asyncfl.federation.round_recorder import Progress
from asyncfl.learning.compute_settings import computing_with
from asyncfl.run_files import conditions_of
from asyncfl.scenario import Scenario
from asyncfl.simulation import SimulatedRuns, simulate_seed
from asyncfl.storage import Run

JUDGED = ("train_loss", "test_loss", "test_accuracy", "test_r2", "test_mae", "attack_success")
"""Columns of the table of rounds that are compared in the last version alone."""


def with_sparse_evaluation(scenario: Scenario, train_every: int = 0, test_every: int = 0) -> Scenario:
    """`scenario` with models judged that seldom (0: where it ends alone), in nothing of one's own, and none kept."""
    asked = {
        "train_every": train_every,
        "test_every": test_every,
        "clients_every": 0,
        "metrics": {},
        "aggregates": False,
    }
    evaluation = scenario.evaluation.model_copy(update={**asked, "record": "none", "keep": "none"})
    return scenario.model_copy(update={"evaluation": evaluation})


@dataclass(frozen=True)
class FinishedRun:
    """A run on disk whose seeds can be simulated again."""

    folder: Path
    run: Run

    @classmethod
    def load(cls, folder: str | Path) -> FinishedRun:
        """The run in `folder`. Raises RunError where there is none, or one that this program would run otherwise."""
        run = Run.load(folder)
        if run.summary.get("hash") != run.scenario.digest():
            raise RunError(
                f"{folder} was made by another version of this program, or of a component of your own, or from other "
                "profiles: it cannot be made again to be audited; run its scenario.yaml again"
            )
        return cls(Path(folder), run)

    @property
    def note(self) -> str:
        """What a reader of canaries and membership inference must know of the attacker; empty: nothing."""
        if not self.run.scenario.model.personal:
            return ""
        return (
            "The run has model.personal: whoever attacks had only the initial personal layers, one with a client's "
            "own may find more."
        )

    def seeds(self, only: int | None = None) -> tuple[int, ...]:
        """The seeds to audit: all, or `only` that one. Raises ScenarioError where it is not of the run, RunError where
        one of them has diverged."""
        known = self.run.scenario.seeds
        if only is not None and only not in known:
            raise ScenarioError(
                [Fault("--seed", f"must be one of the run's ({', '.join(map(str, known))}), got {only}")]
            )
        seeds = known if only is None else (only,)
        diverged = [seed for seed in seeds if self.run.summary["seeds"][str(seed)]["diverged"]]
        if diverged:
            sound = [seed for seed in known if not self.run.summary["seeds"][str(seed)]["diverged"]]
            way_out = f"audit another with --seed {sound[0]}" if sound else "no seed of this run can be audited"
            raise RunError(
                f"{self.folder}: seed {diverged[0]} has diverged, of which nothing can be measured; {way_out}"
            )
        return seeds

    def resimulate(
        self,
        seed: int,
        around: Callable[[Federation], Federation],
        progress: Progress | None = None,
        prior: SimulatedRuns | None = None,
    ) -> SeedRun:
        """That seed once more, with what an audit makes of the federation (`around`), which must not change the run.

        With as many threads and by the same library as before. Models are judged in the last version only. Raises
        RunError where the run comes out otherwise than on disk.
        """
        there = self._rounds(seed)
        # The last version may have come before `protocol.rounds`: it is judged in what it was judged in then.
        last = max(int(there["version"].iloc[-1]), 1)
        every = {name: 0 if pd.isna(there[name].iloc[-1]) else last for name in ("train_loss", "test_loss")}
        scenario = with_sparse_evaluation(self.run.scenario, every["train_loss"], every["test_loss"])
        with self.conditions(seed):
            again = simulate_seed(scenario, seed, progress, prior, around=around)
        self._compare(seed, there, rounds_table(again).to_pandas())
        return again

    def conditions(self, seed: int) -> AbstractContextManager[None]:
        """As many threads, and the same library for products, as when that seed was run."""
        return computing_with(*conditions_of(self.folder, seed))

    def _rounds(self, seed: int) -> pd.DataFrame:
        rounds = self.run.rounds
        return rounds[rounds["seed"] == seed].reset_index(drop=True)

    def _compare(self, seed: int, there: pd.DataFrame, made: pd.DataFrame) -> None:
        if len(there) != len(made):
            raise self._another(seed, f"it has {len(made) - 1} versions, on disk {len(there) - 1}")
        differences = []
        for name in [str(name) for name in made if name in there]:
            rows = slice(len(made) - 1, None) if name.startswith(JUDGED) else slice(None)
            old, new = there[name].to_numpy()[rows], made[name].to_numpy()[rows]
            same = np.equal(old, new) | (pd.isna(old) & pd.isna(new))
            if not same.all():
                row = int(np.argmin(same))
                version = int(made["version"].iloc[rows].iloc[row])
                differences.append((version, f"{name} of version {version} is {new[row]}, on disk {old[row]}"))
        if differences:
            raise self._another(seed, min(differences)[1])

    def _another(self, seed: int, difference: str) -> RunError:
        return RunError(
            f"{self.folder}: simulated again, seed {seed} is another run: {difference}; a run can be audited on the "
            "machine and with the versions of the libraries that made it: run its scenario.yaml again here"
        )
