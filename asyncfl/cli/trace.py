"""`asyncfl trace`: read the events of a run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from asyncfl.base.errors import Fault, InputError, ScenarioError
from asyncfl.cli import trace_printing
from asyncfl.cli.command_group import CommandGroup
from asyncfl.cli.options import Json, RunFolder, at_most_int64

if TYPE_CHECKING:
    import pyarrow as pa

    from asyncfl.federation.storage import Run


class Grouping(StrEnum):
    """Groups that a row of `asyncfl trace table` may stand for."""

    CLIENT = "client"
    VERSION = "version"
    BASE_VERSION = "base_version"
    SEED = "seed"
    STALENESS = "staleness"


def _kinds() -> list[str]:
    from asyncfl.trace.events import Kind

    return [str(kind) for kind in Kind]


# Events of no client, task or version hold -1.
Clients: TypeAlias = Annotated[
    list[int] | None,
    typer.Option("--client", help="Only this client. May be repeated.", min=-1, callback=at_most_int64),
]
Task: TypeAlias = Annotated[int | None, typer.Option(help="Only this task.", min=-1, callback=at_most_int64)]
Seed: TypeAlias = Annotated[int | None, typer.Option(help="Only this seed.", min=0, callback=at_most_int64)]
Since: TypeAlias = Annotated[float | None, typer.Option(help="Only from this virtual second on.")]
Until: TypeAlias = Annotated[float | None, typer.Option(help="Only up to this virtual second.")]
Limit: TypeAlias = Annotated[
    int, typer.Option(help="Largest number of rows to print; 0: all.", min=0, callback=at_most_int64)
]

HELP = """Read the events of a run: uploads, losses, bans, versions.

Example: asyncfl trace events results/runs/HASH --kind lost --client 3
"""

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=HELP)


@app.command("events")
def events_(
    run: RunFolder,
    client: Clients = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Only events of this kind, e.g. uploaded. May be repeated.", autocompletion=_kinds),
    ] = None,
    task: Task = None,
    version: Annotated[
        int | None, typer.Option(help="Only events while this version was the newest.", min=-1, callback=at_most_int64)
    ] = None,
    seed: Seed = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    count: Annotated[bool, typer.Option("--count", help="Print the number of events of each kind instead.")] = False,
    json: Json = False,
) -> None:
    """Print the events of a run in the order of virtual time.

    Example: asyncfl trace events results/runs/HASH --kind lost --client 3
    """
    from asyncfl.trace.query import counts, select

    known = _kinds()
    if unknown := [name for name in kind or [] if name not in known]:
        raise ScenarioError([Fault("--kind", f"must be one of {', '.join(known)}, got {', '.join(unknown)}")])
    chosen = select(
        _load(run, seed).tables["events"],
        clients=client,
        kinds=kind,
        task=task,
        version=version,
        seed=seed,
        since_s=since,
        until_s=until,
    )
    if count:
        trace_printing.print_counts(counts(chosen), json=json)
    else:
        trace_printing.print_rows(chosen, limit=limit, json=json, without=("seq",))


@app.command("follow")
def follow(
    run: RunFolder,
    task: Annotated[int, typer.Argument(help="Number of the task.", metavar="TASK", min=0, callback=at_most_int64)],
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the task. Required if the run has several.", min=0, callback=at_most_int64),
    ] = None,
    json: Json = False,
) -> None:
    """Follow one task from its dispatch to its aggregation or loss.

    Example: asyncfl trace follow results/runs/HASH 17
    """
    from asyncfl.trace.follow import follow as follow_task

    events = _load(run).tables["events"]
    try:
        history = follow_task(events, task, seed)
    except InputError as error:
        typed = {"task": "TASK", "seed": "--seed"}
        raise ScenarioError([Fault(typed.get(one.field, one.field), one.message) for one in error.faults]) from None
    trace_printing.print_history(history, json=json)


@app.command("table")
def table(
    run: RunFolder,
    by: Annotated[
        Grouping, typer.Option(help="Property to group tasks by. version: the version that the update entered.")
    ] = Grouping.CLIENT,
    client: Clients = None,
    task: Task = None,
    seed: Seed = None,
    since: Annotated[float | None, typer.Option(help="Only tasks dispatched from this virtual second on.")] = None,
    until: Annotated[float | None, typer.Option(help="Only tasks dispatched up to this virtual second.")] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """Tabulate fates, durations and staleness of tasks, one row for each client, version, seed or staleness.

    Example: asyncfl trace table results/runs/HASH --by client
    """
    from asyncfl.trace.scoring_requests import scoring_requests_of
    from asyncfl.trace.tabulate import tabulate
    from asyncfl.trace.tasks import tasks_of

    events = _load(run, seed).tables["events"]
    tasks = tasks_of(events).select(clients=client or None, task=task, seed=seed, since_s=since, until_s=until)
    # Requests for scores belong to no task, and have no time of dispatch.
    requests = scoring_requests_of(events) if (task, since, until) == (None, None, None) else []
    trace_printing.print_rows(
        tabulate(tasks, by.value, requests), limit=limit, json=json, keys=1 if by == Grouping.SEED else 2
    )


@app.command("diff")
def diff(
    run: RunFolder,
    other: Annotated[Path, typer.Argument(help="Folder of the other run.", metavar="OTHER")],
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Find the first event in which two runs differ. The exit status is 1 if they do.

    Example: asyncfl trace diff results/runs/HASH results/runs/OTHER
    """
    from asyncfl.federation.storage import Run

    runs = _load(run, seed), Run.load(other, own_code=False)
    if not trace_printing.print_comparison(*runs, (str(run), str(other)), seed, json=json):
        raise typer.Exit(1)


@app.command("save")
def save(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(help="File to write; a name that ends in .gz is compressed.", metavar="FILE")],
    client: Clients = None,
    seed: Seed = None,
) -> None:
    """Save the events as a trace for Perfetto, which opens at https://ui.perfetto.dev.

    Example: asyncfl trace save results/runs/HASH trace.json.gz
    """
    from asyncfl.cli.output import console
    from asyncfl.trace.perfetto import epsilon_curves, write_perfetto

    loaded = _load(run, seed)
    spent, missing = epsilon_curves(_of_seed(loaded.tables["spending"], seed))
    notes = [f"spent epsilon not available: {reason}" for reason in missing]
    events = _of_seed(loaded.tables["events"], seed)
    written = write_perfetto(events, file, title=run.resolve().name, spent=spent, notes=notes, clients=client)
    for note in notes:
        console.print(note)
    console.print(f"{file}: {written} events; open it at https://ui.perfetto.dev")


def _load(folder: Path, seed: int | None = None) -> Run:
    """Load a run. Raises ScenarioError if it lacks `seed`."""
    from asyncfl.federation.storage import Run

    run = Run.load(folder, own_code=False)
    seeds = run.tables["events"]["seed"].unique().to_pylist()
    if seed is not None and seed not in seeds:
        known = ", ".join(map(str, sorted(seeds)))
        raise ScenarioError([Fault("--seed", f"must be one of the run's ({known}), got {seed}")])
    return run


def _of_seed(table: pa.Table, seed: int | None) -> Any:
    from asyncfl.trace.query import select

    return table if seed is None else select(table, seed=seed)
