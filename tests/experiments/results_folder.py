"""Experiments, one with markup in its texts, and runs for them made by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.experiments.spec import Experiment

EVIL = "<script>alert('x')</script>"
EPSILON = "privacy.epsilon"
CLAIMS: list[dict[str, Any]] = [
    {
        "check": "order",
        "along": EPSILON,
        "says": f"the loss falls {EVIL}",
        "why": "a & b",
        "printed": "fig. 2",
        "sentence": "falls",
    },
    {
        "check": "order",
        "along": EPSILON,
        "says": "the loss rises",
        "direction": "rises",
        "printed": "fig. 2",
        "sentence": "rises",
    },
    {"check": "at_least", "value": "final test_accuracy", "threshold": 0.3, "says": "accurate everywhere"},
    {"check": "best_at", "along": EPSILON, "at": 100, "says": "best where nothing is run", "printed": EVIL},
]


def write_run(folder: Path, final: float, seeds: int = 6, diverged: tuple[int, ...] = ()) -> Path:
    """A run of four rounds: the loss falls from 2.3 to `final` and 0.003 of it or so more for each seed, unevenly."""
    folder.mkdir(parents=True)
    rounds, clients = [], []
    for seed in range(seeds):
        for version in range(5):
            loss = 2.3 + (final + 0.003 * seed * final / 0.45 - 2.3) * version / 4 + 0.1 * final * (version == 2)
            row = {"seed": seed, "version": version, "time_s": 25.0 * version, "train_loss": loss}
            row |= {"test_accuracy": 1 - loss / 3, "diverged": seed in diverged and version >= 3}
            row |= {"staleness_mean": version / 2 if version else np.nan, "staleness_max": version - 1}
            row |= {"participants": 3 * version, "bytes_down": 4 * version, "honest_bans": version % 2}
            rounds.append(row | {"bytes_up": 1_250_000 * version * (seed + 3), "malicious_bans": 0})
        for client in range(4):
            row = {"seed": seed, "client": client, "samples": 10, "attacker": client == 3, "uploads": 4 + client}
            row |= {"aggregated": 3, "used": client, "exposures_up": client + seed, "exposures_down": 4}
            clients.append(row)
    pd.DataFrame(rounds).to_parquet(folder / "rounds.parquet")
    pd.DataFrame(clients).to_parquet(folder / "clients.parquet")
    detection = {"judged": 12, "true_positives": 3, "false_positives": 2, "false_negatives": 1, "attackers": 2}
    detection |= {"honest_bans": 2, "malicious_bans": 1, "precision": 0.6, "recall": 0.75}
    about = {"versions": 4, "exposures": {"assumed": 2, "downlink_versions": 3}, "detection": detection}
    summary = {
        "data": {"source": "real", "provenance": "ten hand-made samples"},
        "diverged": list(diverged),
        "notes": ["a note", "a note", "another"],
        "seeds": {str(seed): about for seed in range(seeds)},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def marked_up(**fields: Any) -> Experiment:
    made: dict[str, Any] = {
        "title": f"Loss {EVIL}",
        "source": {"paper": "nbafl", "figure": 2},
        "scenario": {"protocol": {"kind": "sync", "rounds": 4}, "privacy": {"kind": "nbafl", "epsilon": 60}},
        "axes": {EPSILON: [50, 60, 100]},
        "figures": [
            {"kind": "curves", "hue": EPSILON, "name": "loss"},
            {"kind": "final", "x": EPSILON, "y": "train_loss", "name": "later", "where": {EPSILON: 100}},
        ],
        "tables": [{"rows": EPSILON}],
        "claims": CLAIMS,
        "prints": {"training.momentum": {"prints": "silent", "name": EVIL}, "protocol.rounds": {"prints": 4}},
        "quick": {f"axes.{EPSILON}": [50, 60]},
        "name": "nbafl/one",
    }
    return Experiment.model_validate({**made, **fields})


FINAL = {50: 0.70, 60: 0.45, 100: 0.33, float("inf"): 0.31}


def make_experiment(**fields: Any) -> Experiment:
    made: dict[str, Any] = {
        "title": "Loss by budget",
        "source": {"paper": "nbafl", "figure": 2},
        "scenario": {"protocol": {"kind": "sync", "rounds": 4}},
        "axes": {EPSILON: list(FINAL)},
        "figure": {"kind": "curves", "hue": EPSILON},
        "tables": [{"rows": EPSILON}],
        "claims": [{"check": "order", "along": EPSILON, "says": "the loss falls"}],
        "quick": {"protocol.rounds": 3, f"axes.{EPSILON}": [50, 60]},
        "name": "nbafl/fig2",
    }
    return Experiment.model_validate({**made, **fields})
