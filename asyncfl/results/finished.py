"""What is on disk to report: each experiment at its best scale, and the verdicts of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from asyncfl.analysis.evidence.discoveries import q_values
from asyncfl.analysis.tables import read_csv
from asyncfl.experiment import SCALES, Experiment, Scale


@dataclass(frozen=True)
class Finished:
    """An experiment's outputs at the best scale there is."""

    experiment: Experiment
    scale: Scale
    folder: Path


def best_scale(results: str | Path, name: str) -> Scale | None:
    """The highest scale at which an experiment's verdicts are on disk; None: it has not been run."""
    done = [scale for scale in SCALES if (Path(results) / scale / name / "claims.csv").is_file()]
    return done[-1] if done else None


def finished(results: str | Path, experiments: Mapping[str, Experiment]) -> list[Finished]:
    """What is there to report, in the order of the experiments."""
    found = []
    for name, experiment in experiments.items():
        scale = best_scale(results, name)
        if scale is not None:
            found.append(Finished(experiment, scale, Path(results) / scale / name))
    return found


def all_claims(done: list[Finished]) -> pd.DataFrame:
    """The verdicts of all experiments, one row each; `q` is the q-value of `p` among all of them."""
    frames = [frame for item in done if len(frame := read_csv(item.folder / "claims.csv"))]
    if not frames:
        return pd.DataFrame(columns=["experiment", "verdict"])
    claims = pd.concat(frames, ignore_index=True)
    claims.insert(list(claims).index("p") + 1, "q", q_values(claims["p"]))
    return claims
