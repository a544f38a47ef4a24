"""What is on disk to report: each experiment at its best scale, and the verdicts of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from asyncfl.experiments.evidence.samples import q_values
from asyncfl.experiments.run_tables import read_csv
from asyncfl.experiments.spec import SCALES, Experiment, Scale
from asyncfl.experiments.verdicts import frame, not_run


@dataclass(frozen=True)
class Finished:
    """An experiment's outputs at the best scale there is."""

    experiment: Experiment
    scale: Scale
    folder: Path


def best_scale(results: str | Path, name: str) -> Scale | None:
    """Return the highest scale at which an experiment's verdicts are on disk; None: it has not been run."""
    done = [scale for scale in SCALES if (Path(results) / scale / name / "claims.csv").is_file()]
    return done[-1] if done else None


def finished(results: str | Path, experiments: Mapping[str, Experiment]) -> list[Finished]:
    """List what is there to report, in the order of the experiments."""
    scales = {name: best_scale(results, name) for name in experiments}
    return [Finished(experiments[name], scale, Path(results) / scale / name) for name, scale in scales.items() if scale]


def waiting(done: Sequence[Finished], experiments: Mapping[str, Experiment]) -> dict[str, Experiment]:
    """The experiments without results that quick scale runs on request only."""
    names = {item.experiment.name for item in done}
    return {name: experiment for name, experiment in experiments.items() if experiment.on_request and name not in names}


def all_claims(done: Sequence[Finished], experiments: Mapping[str, Experiment]) -> pd.DataFrame:
    """Return the verdicts of all experiments, one row each; `q` is the q-value of `p` among all of them.

    Claims of experiments that wait for a request are `not run`.
    """
    left_out = [verdict for experiment in waiting(done, experiments).values() for verdict in not_run(experiment)]
    tables = [*(read_csv(item.folder / "claims.csv") for item in done), frame(left_out)]
    frames = [table for table in tables if len(table)]
    if not frames:
        return pd.DataFrame(columns=["experiment", "verdict"])
    claims = pd.concat(frames, ignore_index=True)
    claims.insert(list(claims).index("p") + 1, "q", q_values(claims["p"]))
    return claims


def left_out(done: Sequence[Finished], experiments: Mapping[str, Experiment]) -> list[str]:
    """Sentences that name the experiments without results, and the command that runs them."""
    on_request = waiting(done, experiments)
    missing = [name for name in experiments if name not in {item.experiment.name for item in done} | on_request.keys()]
    command = f"snakemake --cores 2 --config only={','.join(on_request)}"
    told = [f"Not run yet: {', '.join(missing)}."] if missing else []
    return told + ([f"Run on request at quick scale, and at full scale: {command}"] if on_request else [])
