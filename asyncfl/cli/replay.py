"""`asyncfl replay`: repeat the server's decisions of a recorded run, without a clock."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from asyncfl.base.errors import RunError
from asyncfl.cli.options import Json, OwnCode, Seed, argument, check_own_code, load_run, option
from asyncfl.cli.output import console, print_json


def replay(
    run: Annotated[Path, argument("RUN", "Folder of a run with evaluation.record: digests or parameters.")],
    seed: Seed = None,
    train: Annotated[bool, option("Train again where only digests were recorded.", "--train")] = False,
    own_code: OwnCode = False,
    json: Json = False,
) -> None:
    """Repeat the server's decisions of a recorded run, and compare them.

    A new server receives the recorded messages without a clock. The exit status is 1 if a decision differs.

    Example: asyncfl replay results/runs/HASH --train
    """
    from asyncfl.protocol.recording import ReplayError
    from asyncfl.results.storage import MESSAGES
    from asyncfl.testing.recordings import replay_run

    loaded = load_run(run, seed, own_code)
    check_own_code(loaded)
    scenario = loaded.scenario
    if not (run / MESSAGES).exists():
        raise RunError(f"{run} holds no {MESSAGES}; run its scenario with --set evaluation.record=digests")
    found: list[dict[str, Any]] = []
    for one in scenario.seeds if seed is None else (seed,):
        try:
            found.append({"seed": one, **asdict(replay_run(run, one, train=train))})
        except ReplayError as error:
            found.append({"seed": one, "difference": str(error)})
    same = not any("difference" in one for one in found)
    if json:
        print_json({"same": same, "seeds": found})
    else:
        for result in found:
            console.print(f"seed {result['seed']}: {_outcome(result)}")
    if not same:
        raise typer.Exit(1)


def _outcome(found: dict[str, Any]) -> str:
    if "difference" in found:
        return f"first difference in {found['difference']}"
    outcome = f"all {found['actions']} actions in answer to {found['calls']} messages are the same as recorded"
    if found["unchecked"]:
        outcome += f"; not compared: {', '.join(found['unchecked'])} (--train compares them)"
    return outcome
