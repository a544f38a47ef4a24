"""`asyncfl view`: a run as one HTML file."""

from __future__ import annotations

import shlex
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asyncfl.cli.output import console, print_text
from asyncfl.errors import Fault, RunError, ScenarioError
from asyncfl.files.own_folder import PARTIAL
from asyncfl.quantities import quantity

if TYPE_CHECKING:
    from asyncfl.storage import Run

RELOAD_S = 3.0
"""Seconds after which the page of a run that is going loads itself again."""


def view(
    run: Annotated[Path, typer.Argument(help="folder of a run")],
    other: Annotated[Path | None, typer.Argument(help="folder of a second run, drawn over the first")] = None,
    out: Annotated[Path | None, typer.Option(help="file to write; default: the run's name and .html, here")] = None,
    open_: Annotated[bool, typer.Option("--open", help="open it in the browser")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="of a run that is going: write it again and again until the run ends")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="only this seed", min=0, max=2**63 - 1)] = None,
    since: Annotated[float | None, typer.Option(help="only tasks from this virtual second on")] = None,
    until: Annotated[float | None, typer.Option(help="only tasks up to this virtual second")] = None,
) -> None:
    """Draw a run, task by task, in one HTML file.

    The file needs no network. With OTHER, the second run is drawn over the first.

    Example: asyncfl view results/runs/HASH --out run.html --open
    """
    from asyncfl.view import Window, page, write

    target = out or Path(f"{'-'.join(one.resolve().name for one in (run, other) if one is not None)}.html")
    window = Window(since, until, seed)
    if follow:
        faults = [Fault("--follow", "is of one run, got two")] if other is not None else []
        given = {"--seed": seed, "--since": since, "--until": until}
        faults += [Fault(name, "cannot go with --follow") for name, value in given.items() if value is not None]
        if faults:
            raise ScenarioError(faults)
        _follow(run, target, open_)
        return
    first, *second = [(_loaded(one, seed), str(one)) for one in (run, other) if one is not None]
    named = " ".join(shlex.quote(str(one)) for one in (run, other) if one is not None)
    command = f"asyncfl view {named}" + ("" if seed is None else f" --seed {seed}")
    text = page(*first, other=second[0] if second else None, window=window, command=command)
    write(text, target)
    console.print(f"{target}: {quantity(len(text.encode()), 'bytes')}")
    if open_:
        webbrowser.open(target.resolve().as_uri())


def _loaded(folder: Path, seed: int | None) -> Run:
    from asyncfl.storage import COMPLETE, Run

    if not (folder / COMPLETE).exists() and (folder / PARTIAL).is_dir():
        raise RunError(f"{folder} holds half a run; asyncfl view --follow shows how far it has come")
    loaded = Run.load(folder)
    if seed is not None and seed not in loaded.scenario.seeds:
        known = ", ".join(map(str, loaded.scenario.seeds))
        raise ScenarioError([Fault("--seed", f"must be one of the run's ({known}), got {seed}")])
    return loaded


def _follow(folder: Path, target: Path, open_: bool) -> None:
    """Write the page of a run that is going whenever it has come further, and at its end."""
    from asyncfl.view import page, write
    from asyncfl.view.going import Standing, follow

    shown: list[Standing] = []

    def show(now: Standing, reload_s: float = RELOAD_S) -> None:
        if now.run is None:
            return
        write(page(now.run, str(folder), going=now.said, reload_s=reload_s), target)
        if not shown:
            console.print(f"{target}: loads itself again every {quantity(RELOAD_S, 's')}, until the run ends")
            if open_:
                webbrowser.open(target.resolve().as_uri())
        shown.append(now)

    try:
        last = follow(folder, show, lambda: time.sleep(RELOAD_S))
    except KeyboardInterrupt:
        # Nobody will write the page again, so it need not look for that.
        for now in shown[-1:]:
            show(now, 0)
        raise
    if last.run is None:
        raise RunError(f"{folder} holds no run: it was interrupted before a version could be seen")
    show(last, 0)
    print_text(last.said or f"{target}: the run is whole")
