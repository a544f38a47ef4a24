"""`asyncfl replay`: repeat the server's decisions of a recorded run, without a clock."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from asyncfl.base.errors import RunError
from asyncfl.cli.options import Json, Seed, load_run
from asyncfl.cli.output import console, print_json


def replay(
    run: Annotated[
        Path, typer.Argument(help="Folder of a run with evaluation.record: digests or parameters.", metavar="RUN")
    ],
    seed: Seed = None,
    train: Annotated[
        bool, typer.Option("--train", help="Repeat the training too, if only digests of the updates were recorded.")
    ] = False,
    json: Json = False,
) -> None:
    """Repeat the server's decisions of a recorded run, and compare them.

    A new server receives the recorded messages without a clock. The exit status is 1 if a decision differs.

    Example: asyncfl replay results/runs/HASH --train
    """
    from asyncfl.federation.storage import MESSAGES
    from asyncfl.server.replay import Replayed, ReplayError
    from asyncfl.testing.recordings import replay_run

    scenario = load_run(run, seed, own_code=True).scenario
    if not (run / MESSAGES).exists():
        raise RunError(f"{run} holds no {MESSAGES}; run its scenario with --set evaluation.record=digests")
    found: dict[int, Replayed | str] = {}
    for one in scenario.seeds if seed is None else (seed,):
        try:
            found[one] = replay_run(run, one, train=train)
        except ReplayError as error:
            found[one] = str(error)
    same = not any(isinstance(result, str) for result in found.values())
    if json:
        seeds = [
            {"seed": one, "difference": result} if isinstance(result, str) else {"seed": one, **asdict(result)}
            for one, result in found.items()
        ]
        print_json({"same": same, "seeds": seeds})
    else:
        for one, result in found.items():
            console.print(f"seed {one}: {_outcome(result)}")
    if not same:
        raise typer.Exit(1)


def _outcome(result: object) -> str:
    """Return a line on one seed. `result`: the finished replay, or the text of the first difference."""
    from asyncfl.server.replay import Replayed

    if not isinstance(result, Replayed):
        return f"first difference in {result}"
    outcome = f"all {result.actions} actions in answer to {result.calls} messages are the same as recorded"
    if result.unchecked:
        outcome += f"; not compared: {', '.join(result.unchecked)} (--train compares them)"
    return outcome
