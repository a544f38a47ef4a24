"""`asyncfl view`: a run as one HTML file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from asyncfl.cli.output import console
from asyncfl.errors import Fault, ScenarioError
from asyncfl.quantities import quantity


def view(
    run: Annotated[Path, typer.Argument(help="folder of a run")],
    other: Annotated[Path | None, typer.Argument(help="folder of a second run, drawn over the first")] = None,
    out: Annotated[Path | None, typer.Option(help="file to write; default: the run's name and .html, here")] = None,
    open_: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
    seed: Annotated[int | None, typer.Option(help="only this seed", min=0, max=2**63 - 1)] = None,
    since: Annotated[float | None, typer.Option(help="only tasks from this virtual second on")] = None,
    until: Annotated[float | None, typer.Option(help="only tasks up to this virtual second")] = None,
) -> None:
    """Write a run as one HTML file that shows what happened, task by task; it needs no network.

    Example: asyncfl view results/runs/HASH --out run.html --open
    """
    from asyncfl.storage import Run
    from asyncfl.view import Window, page, write

    loaded = [(Run.load(one), str(one)) for one in (run, other) if one is not None]
    for one, _ in loaded:
        if seed is not None and seed not in one.scenario.seeds:
            known = ", ".join(map(str, one.scenario.seeds))
            raise ScenarioError([Fault("--seed", f"must be one of the run's ({known}), got {seed}")])
    first, *second = loaded
    text = page(*first, other=second[0] if second else None, window=Window(since, until, seed))
    names = [one.resolve().name for one in (run, other) if one is not None]
    target = out or Path(f"{'-'.join(names)}.html")
    write(text, target)
    console.print(f"{target}: {quantity(len(text.encode()), 'bytes')}")
    if open_:
        webbrowser.open(target.resolve().as_uri())
