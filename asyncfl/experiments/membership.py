"""The workflow's step from runs to membership inference: the uploads and the last model of each seed are attacked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from asyncfl.audit.finished_run import FinishedRun
from asyncfl.audit.membership import audit_membership
from asyncfl.experiments.membership_table import MEMBERSHIP
from asyncfl.experiments.run_tables import plain, write_csv
from asyncfl.experiments.spec import Experiment


def infer_membership(experiment: Experiment, runs: list[tuple[dict[str, Any], Path]], folder: Path) -> None:
    """Write `membership.csv` (see `asyncfl.experiments.membership_table`) of the experiment's runs into `folder`.

    runs: axis values and run folder of each cell. Each run is simulated again; seeds that diverged are left out. Raises
    RunError where one cannot be attacked.
    """
    asked = experiment.membership
    assert asked is not None
    rows = []
    for values, place in runs:
        run = FinishedRun.load(place)
        seeds = tuple(seed for seed in run.run.scenario.seeds if seed not in run.run.summary["diverged"])
        found = audit_membership(run, seeds, asked.adversary, asked.clients, asked.worlds).found
        keys = {name: plain(value) for name, value in values.items()}
        rows += [keys | row for row in found.to_pylist()]
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(pd.DataFrame(rows), folder / MEMBERSHIP)
