"""`asyncfl audit`: what an attacker finds out from a finished run, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.cli.output import console
from asyncfl.cli.progress import ProgressBar


def audit(
    run: Annotated[Path, typer.Argument(help="folder of a run")],
    seed: Annotated[int | None, typer.Option(help="only this seed", max=2**63 - 1)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Simulate a finished run again and measure what it gave away.

    Example: asyncfl audit results/runs/HASH
    """
    from asyncfl.audit.again import FinishedRun

    finished = FinishedRun.load(run)
    seeds = finished.seeds(seed)
    with ProgressBar(finished.run.scenario, quiet) as bar:
        for one in seeds:
            finished.again(one, lambda federation: federation, bar)
    console.print(f"{run}: {len(seeds)} seeds come out the same when they are simulated again")
