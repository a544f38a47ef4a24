"""`asyncfl trace`: read the events of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.cli.output import console, print_json, print_table
from asyncfl.errors import Fault, ScenarioError


def trace(
    run: Annotated[Path, typer.Argument(help="folder of a run")],
    client: Annotated[list[int] | None, typer.Option(help="only these clients")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="only these kinds of events")] = None,
    task: Annotated[int | None, typer.Option(help="only this task")] = None,
    version: Annotated[int | None, typer.Option(help="only while this version was current")] = None,
    seed: Annotated[int | None, typer.Option(help="only this seed")] = None,
    since: Annotated[float | None, typer.Option(help="from this virtual second on")] = None,
    until: Annotated[float | None, typer.Option(help="up to this virtual second")] = None,
    limit: Annotated[int, typer.Option(help="most events to print; 0: all", min=0)] = 50,
    count: Annotated[bool, typer.Option("--count", help="count events by kind instead")] = False,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the events of a run, in the order in which they happened."""
    from asyncfl.storage import Run
    from asyncfl.trace.events import Kind
    from asyncfl.trace.query import counts, select

    kinds = [str(known) for known in Kind]
    unknown = [name for name in kind or [] if name not in kinds]
    if unknown:
        raise ScenarioError([Fault("--kind", f"must be one of {', '.join(kinds)}, got {', '.join(unknown)}")])
    events = select(
        Run.load(run).tables["events"],
        clients=client,
        kinds=kind,
        task=task,
        version=version,
        seed=seed,
        since_s=since,
        until_s=until,
    )
    if count:
        found = counts(events)
        print_json(found) if json else print_table(["kind", "events"], list(found.items()))
        return
    shown = events.slice(0, limit) if limit else events
    rows = shown.to_pylist()
    if json:
        print_json(rows)
        return
    columns = [name for name in shown.column_names if name != "seq" and any(_says(row[name]) for row in rows)]
    print_table(columns, [[row[name] if _says(row[name]) else None for name in columns] for row in rows])
    if len(rows) < len(events):
        console.print(f"{len(events) - len(rows)} more; raise --limit or filter")


def _says(value: object) -> bool:
    """Whether a cell means anything for its event: -1, NaN and empty texts do not."""
    return value not in (-1, "") and value == value
