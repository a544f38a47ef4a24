"""`asyncfl view`: draw a run in one HTML file."""

from __future__ import annotations

import os
import shlex
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from asyncfl.base.errors import Fault, RunError, ScenarioError
from asyncfl.base.files.own_folder import PARTIAL
from asyncfl.base.quantities import quantity
from asyncfl.cli.options import RunFolder, Seed, argument, load_run, number, option
from asyncfl.cli.output import console, print_text

if TYPE_CHECKING:
    from asyncfl.results.storage import Run

RELOAD_S = 3.0
"""Seconds after which the page of an unfinished run reloads itself."""


def view(
    run: RunFolder,
    other: Annotated[Path | None, argument("OTHER", "Folder of a second run, drawn over the first.")] = None,
    out: Annotated[Path | None, option("File to write. Default: the run's name with .html.")] = None,
    open_: Annotated[bool, option("Open the file in the browser.", "--open")] = False,
    follow: Annotated[bool, option("Follow an unfinished run until it ends.", "--follow")] = False,
    seed: Seed = None,
    since: Annotated[float | None, number("Draw only tasks from this virtual second on.")] = None,
    until: Annotated[float | None, number("Draw only tasks up to this virtual second.")] = None,
) -> None:
    """Draw a run, task by task, in one HTML file.

    The file needs no network. With OTHER, the second run is drawn over the first.

    Example: asyncfl view results/runs/HASH --out run.html --open
    """
    from asyncfl.extras.view import Window, page, title_of, write

    folders = [one for one in (run, other) if one is not None]
    # Not Path.resolve, which raises its own error for circular links.
    names = [os.path.basename(os.path.realpath(one)) for one in folders]
    target = out or Path(f"{'-'.join(names)}.html")
    if follow:
        faults = [Fault("--follow", "must be used with one run, got two")] if other is not None else []
        given = {"--seed": seed, "--since": since, "--until": until}
        faults += [Fault(name, "cannot be combined with --follow") for name, one in given.items() if one is not None]
        if faults:
            raise ScenarioError(faults)
        _follow(run, target, open_)
        return
    loaded = [(_loaded(one, seed), one) for one in folders]
    first, *second = [(run, title_of(run, place)) for run, place in loaded]
    command = shlex.join(["asyncfl", "view", *map(str, folders)]) + ("" if seed is None else f" --seed {seed}")
    text = page(*first, other=second[0] if second else None, window=Window(since, until, seed), command=command)
    write(text, target)
    console.print(f"{target}: {quantity(len(text.encode()), 'bytes')}")
    if open_:
        webbrowser.open(target.resolve().as_uri())


def _loaded(folder: Path, seed: int | None) -> Run:
    """Load a run. Raises RunError if it is unfinished, ScenarioError if it lacks `seed`."""
    from asyncfl.results.storage import COMPLETE

    if not (folder / COMPLETE).exists() and (folder / PARTIAL).is_dir():
        raise RunError(f"{folder} holds an unfinished run; asyncfl view --follow draws it")
    return load_run(folder, seed)


def _follow(folder: Path, target: Path, open_: bool) -> None:
    """Write the page of an unfinished run now and every few seconds until the run ends. Raises RunError."""
    from asyncfl.extras.view import page, title_of, write
    from asyncfl.extras.view.run_state import RunState, run_state

    shown: RunState | None = None

    def show(now: RunState, reload_s: float) -> None:
        assert now.run is not None
        write(page(now.run, title_of(now.run, folder), going=now.description, reload_s=reload_s), target)

    try:
        while (now := run_state(folder)).going:
            if now.run is not None and (shown is None or now.description != shown.description):
                show(now, RELOAD_S)
                if shown is None:
                    console.print(f"{target}: reloads itself every {quantity(RELOAD_S, 's')}, until the run ends")
                    if open_:
                        webbrowser.open(target.resolve().as_uri())
                shown = now
            time.sleep(RELOAD_S)
    except KeyboardInterrupt:
        # The page is not updated any more, so it must not reload itself.
        if shown is not None:
            show(shown, 0)
        raise
    if now.run is None:
        raise RunError(f"{folder} holds no run: it was interrupted before the first model version")
    show(now, 0)
    if open_ and shown is None:
        webbrowser.open(target.resolve().as_uri())
    print_text(now.description or f"{target}: the run is finished")
