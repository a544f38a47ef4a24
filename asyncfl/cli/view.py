"""`asyncfl view`: draw a run in one HTML file."""

from __future__ import annotations

import os
import shlex
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.files.own_folder import PARTIAL
from asyncfl.base.quantities import quantity
from asyncfl.cli.options import RunFolder, Seed, load_run
from asyncfl.cli.output import console, print_text

if TYPE_CHECKING:
    from asyncfl.federation.storage import Run

RELOAD_S = 3.0
"""Seconds after which the page of an unfinished run reloads itself."""


def view(
    run: RunFolder,
    other: Annotated[
        Path | None, typer.Argument(help="Folder of a second run, drawn over the first.", metavar="OTHER")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write. Default: the run's name with .html, in the working directory.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the file in the browser.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow an unfinished run: update the file until the run ends.")
    ] = False,
    seed: Seed = None,
    since: Annotated[float | None, typer.Option(help="Draw only tasks from this virtual second on.")] = None,
    until: Annotated[float | None, typer.Option(help="Draw only tasks up to this virtual second.")] = None,
) -> None:
    """Draw a run, task by task, in one HTML file.

    The file needs no network. With OTHER, the second run is drawn over the first.

    Example: asyncfl view results/runs/HASH --out run.html --open
    """
    from asyncfl.view import Window, page, write

    # Not Path.resolve, which raises its own error for circular links.
    names = [os.path.basename(os.path.realpath(one)) for one in (run, other) if one is not None]
    target = out or Path(f"{'-'.join(names)}.html")
    window = Window(since, until, seed)
    if follow:
        faults = [Fault("--follow", "must be used with one run, got two")] if other is not None else []
        given = {"--seed": seed, "--since": since, "--until": until}
        faults += [
            Fault(name, "cannot be combined with --follow") for name, value in given.items() if value is not None
        ]
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
    """Load a run. Raises RunError if it is unfinished, ScenarioError if it lacks `seed`."""
    from asyncfl.federation.storage import COMPLETE

    if not (folder / COMPLETE).exists() and (folder / PARTIAL).is_dir():
        raise RunError(f"{folder} holds an unfinished run; asyncfl view --follow draws it")
    return load_run(folder, seed)


def _follow(folder: Path, target: Path, open_: bool) -> None:
    """Write the page of an unfinished run now and every few seconds until the run ends, and print its path. Raises
    RunError."""
    from asyncfl.view import page, write
    from asyncfl.view.going import Standing, follow

    shown: list[Standing] = []

    def show(now: Standing, reload_s: float = RELOAD_S) -> None:
        if now.run is None:
            return
        write(page(now.run, str(folder), going=now.said, reload_s=reload_s), target)
        if not shown:
            console.print(f"{target}: reloads itself every {quantity(RELOAD_S, 's')}, until the run ends")
            if open_:
                webbrowser.open(target.resolve().as_uri())
        shown.append(now)

    try:
        last = follow(folder, show, lambda: time.sleep(RELOAD_S))
    except KeyboardInterrupt:
        # The page is not updated any more, so it must not reload itself.
        for now in shown[-1:]:
            show(now, 0)
        raise
    if last.run is None:
        raise RunError(f"{folder} holds no run: it was interrupted before the first model version")
    show(last, 0)
    print_text(last.said or f"{target}: the run is finished")
