"""A workload by asyncfl: the whole simulator, with its clock, record of events and tables."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from work import Turn, Work


def run(work: Work, turn: Turn) -> tuple[dict[str, str], float]:
    """Run the workload; return versions, and the test loss after its last round."""
    from asyncfl import RowCallback, simulate
    from asyncfl.simulation.limits import Limits

    losses: list[float] = []

    def end_of_round(row: dict[str, Any]) -> None:
        if row["version"]:
            losses.append(row["test_loss"])
            turn()

    simulate(work.scenario, [RowCallback(end_of_round)], limits=Limits(hours=1e9, gib=1e9))
    return {"asyncfl": version("asyncfl")}, losses[-1]
