"""The text of a whole results folder (tables, captions, verdicts, report, pages) of runs made by hand, against a list.

`python tests/analysis/test_results.py` writes it anew; read the difference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asyncfl.analysis.tables import read_csv, write_csv
from asyncfl.experiment import Experiment
from asyncfl.results.figures import CAPTIONS, captions
from asyncfl.results.report import write_report
from asyncfl.results.tables import make_tables
from asyncfl.results.verdicts import make_verdicts

TEXT = Path(__file__).with_name("results.txt")
EPSILON = "privacy.epsilon"
CLAIMS: list[dict[str, Any]] = [
    {"check": "order", "along": EPSILON, "says": "the loss falls"},
    {"check": "order", "along": EPSILON, "says": "it falls to 100", "where": {EPSILON: [50, 100]}, "strict": False},
    {
        "check": "order",
        "along": EPSILON,
        "says": "traffic falls",
        "value": "final bytes_up",
        "why": "nothing | lowers it",
    },
    {"check": "order", "along": EPSILON, "says": "up", "direction": "rises", "expected": "fails", "why": "it falls"},
    {"check": "at_least", "value": "final test_accuracy", "threshold": 0.8, "says": "good everywhere"},
    {"check": "at_least", "value": "mean train_loss", "threshold": 1.45, "says": "well below 1.45 on the way"},
    {"check": "at_least", "value": "round 2 train_loss", "threshold": 1.5, "says": "low", "where": {EPSILON: [50, 60]}},
    {"check": "near", "value": "final rounds_to_80", "target": 4, "tolerance": 0.5, "says": "at the end"},
    {"check": "no_worse", "along": EPSILON, "at": 60, "than": 50, "says": "no worse", "absolute": True},
    {
        "check": "times",
        "along": EPSILON,
        "at": 100,
        "than": 50,
        "factor": 2,
        "says": "twice as good",
        "expected": "fails",
    },
    {"check": "best_at", "along": EPSILON, "at": 60, "value": "fluctuation test_accuracy", "says": "smooth"},
    {"check": "crossover", "along": EPSILON, "early": 60, "late": 50, "rounds": [1, 2], "says": "they cross"},
    {
        "check": "alike",
        "along": EPSILON,
        "at": 60,
        "than": 75,
        "margin": 0.1,
        "says": "not run",
        "value": "final time_s",
    },
    {"check": "order", "along": "clients", "bound": "b", "value": "best rounds of final bound", "says": "N lowers T"},
]


def experiment(name: str, **fields: Any) -> Experiment:
    described: dict[str, Any] = {
        "title": "Loss by budget",
        "source": {"paper": "nbafl", "figure": 2},
        "scenario": {"protocol": {"kind": "sync", "rounds": 4}},
        "axes": {EPSILON: [50, 60, 75, 100, float("inf")]},
        "figures": [{"kind": "curves", "hue": EPSILON, "name": "a"}, {"kind": "final", "x": EPSILON, "name": "b"}],
        "tables": [
            {"rows": EPSILON},
            {
                "rows": EPSILON,
                "name": "more",
                "values": ["test_accuracy", "bytes_up", "rounds_to_80", "exposures_up_max"],
            },
        ],
        "targets": {"rounds_to_80": {"cost": "round", "reaches": 0.8}},
        "bounds": {"b": {"theorem": 2, "axes": {"rounds": {"from": 10, "to": 18, "step": 2}, "clients": [40, 50]}}},
        "claims": CLAIMS,
        "quick": {"protocol.rounds": 3, f"axes.{EPSILON}": [50, 60]},
        "name": name,
    }
    return Experiment.model_validate({**described, **fields})


def write_run(folder: Path, final: float, seeds: int, diverged: tuple[int, ...] = ()) -> Path:
    """Four rounds in which the loss falls from 2.3 to `final`, restless, a little other for each seed."""
    import json

    folder.mkdir(parents=True)
    rounds, clients = [], []
    for seed in range(seeds):
        for version in range(5):
            loss = (
                2.3
                + (final + 0.003 * seed**2 * final / 0.45 - 2.3) * version / 4
                + (0.1 * final if version == 2 else 0.0)
            )
            row = {"seed": seed, "version": version, "time_s": 25.0 * version, "train_loss": loss}
            row |= {"test_accuracy": 1 - loss / 3, "diverged": seed in diverged and version >= 3}
            row |= {"staleness_mean": version / 2 if version else np.nan, "staleness_max": version - 1}
            row |= {
                "participants": 3 * version,
                "bytes_up": 1_250_000 * version * (seed + 3),
                "bytes_down": 4 * version,
            }
            rounds.append(row | {"honest_bans": version % 2, "malicious_bans": 0})
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
        "data": {"source": "real" if final > 0.4 else "embedded", "provenance": "ten hand-made samples"},
        "diverged": list(diverged),
        "notes": ["a note", "a note", "another"],
        "seeds": {str(seed): about for seed in range(seeds)},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def _csv(path: Path) -> str:
    frame = read_csv(path)
    return str(frame.to_csv(index=False, float_format="%.5g")) if len(frame) else "nothing\n"


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and text of what is written."""
    results = folder / "results"
    losses = {50: 0.70, 60: 0.45, 75: 0.46, 100: 0.33, float("inf"): 0.31}
    full, quick = experiment("nbafl/full"), experiment("nbafl/quick")
    runs = [
        ({EPSILON: at}, write_run(folder / f"full{at}", loss, 6, diverged=(5,) if at == 75 else ()))
        for at, loss in losses.items()
    ]
    few = [({EPSILON: at}, write_run(folder / f"quick{at}", losses[at], 2)) for at in (50, 60)]
    for one, scale, cells in ((full, "full", runs), (quick, "quick", few)):
        place = results / scale / one.name
        make_tables(one, scale, cells, place)  # type: ignore[arg-type]
        make_verdicts(one, scale, place)  # type: ignore[arg-type]
        told = captions(one, scale, read_csv(place / "cells.csv"))  # type: ignore[arg-type]
        write_csv(told, place / CAPTIONS)
        yield f"{scale}: captions", _csv(place / CAPTIONS)
        for name in ("table.md", "more.md"):
            yield f"{scale}: {name}", (place / name).read_text(encoding="utf-8")
        for name in ("claims", "final", "cells", "bounds"):
            yield f"{scale}: {name}.csv", _csv(place / f"{name}.csv")
    yield "ends.csv", _csv(results / "full" / full.name / "ends.csv")
    write_report(results, {one.name: one for one in (full, quick, experiment("nbafl/never"))})
    for name in ("claims.md", "index.md"):
        yield name, (results / name).read_text(encoding="utf-8")
    for name in ("index.html", "papers/nbafl.html"):
        page = (results / name).read_text(encoding="utf-8")
        yield name, page[page.index("<body") :].partition("<script")[0]


def _whole(folder: Path) -> str:
    return "".join(f"=== {name}\n{text}" for name, text in _texts(folder))


def test_a_results_folder_says_what_is_written_down(tmp_path: Path) -> None:
    there, written = _whole(tmp_path).splitlines(), TEXT.read_text(encoding="utf-8").splitlines()
    changed = [(one, other) for one, other in zip(there, written, strict=False) if one != other]
    assert changed[:3] == [], "if this is meant: python tests/analysis/test_results.py"
    assert len(there) == len(written)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        TEXT.write_text(_whole(Path(made)), encoding="utf-8")
