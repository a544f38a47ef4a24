"""`asyncfl trace`: read the events of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from asyncfl.base.description import differing_fields
from asyncfl.base.errors import Fault, InputError, ScenarioError
from asyncfl.base.quantities import quantity
from asyncfl.cli.command_group import CommandGroup
from asyncfl.cli.options import Json, RunFolder, at_most_int64, load_run
from asyncfl.cli.output import console, format_number, print_json, print_table, rounded_difference

if TYPE_CHECKING:
    import pyarrow as pa

    from asyncfl.federation.storage import Run
    from asyncfl.trace.compare import Divergence, SeedComparison, TraceComparison
    from asyncfl.trace.follow import TaskHistory


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
        load_run(run, seed).tables["events"],
        clients=client,
        kinds=kind,
        task=task,
        version=version,
        seed=seed,
        since_s=since,
        until_s=until,
    )
    if not count:
        _print_rows(chosen, limit=limit, json=json, without=("seq",))
    elif json:
        print_json(counts(chosen))
    else:
        print_table(["kind", "events"], list(counts(chosen).items()))


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

    events = load_run(run).tables["events"]
    try:
        history = follow_task(events, task, seed)
    except InputError as error:
        typed = {"task": "TASK", "seed": "--seed"}
        raise ScenarioError([Fault(typed.get(one.field, one.field), one.message) for one in error.faults]) from None
    _print_history(history, json=json)


@app.command("table")
def table(
    run: RunFolder,
    by: Annotated[
        Literal["client", "version", "base_version", "seed", "staleness"],
        typer.Option(help="Property to group tasks by. version: the version that the update entered."),
    ] = "client",
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

    events = load_run(run, seed).tables["events"]
    tasks = tasks_of(events).select(clients=client or None, task=task, seed=seed, since_s=since, until_s=until)
    # Requests for scores belong to no task, and have no time of dispatch.
    requests = scoring_requests_of(events) if (task, since, until) == (None, None, None) else []
    _print_rows(tabulate(tasks, by, requests), limit=limit, json=json, keys=1 if by == "seed" else 2)


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

    runs = load_run(run, seed), Run.load(other, own_code=False)
    if not _print_comparison(*runs, (str(run), str(other)), seed, json=json):
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
    from asyncfl.trace.perfetto import epsilon_curves, write_perfetto

    loaded = load_run(run, seed)
    spent, missing = epsilon_curves(_of_seed(loaded.tables["spending"], seed))
    notes = [f"spent epsilon not available: {reason}" for reason in missing]
    events = _of_seed(loaded.tables["events"], seed)
    written = write_perfetto(events, file, title=run.resolve().name, spent=spent, notes=notes, clients=client)
    for note in notes:
        console.print(note)
    console.print(f"{file}: {written} events; open it at https://ui.perfetto.dev")


def _of_seed(table: pa.Table, seed: int | None) -> Any:
    from asyncfl.trace.query import select

    return table if seed is None else select(table, seed=seed)


def _has_value(value: object) -> bool:
    """Return whether a cell holds a value: -1, NaN and empty texts mean none."""
    return value not in (-1, "") and value == value


def _print_rows(table: pa.Table, *, limit: int, json: bool, without: Sequence[str] = (), keys: int = 1) -> None:
    """Print the first `limit` rows (0: all) of a table, without columns that hold no value in them."""
    shown = table.slice(0, limit) if limit else table
    rows = shown.to_pylist()
    if json:
        print_json(rows)
        return
    if not rows:
        console.print("no matching events or tasks")
        return
    columns = [
        name for name in shown.column_names if name not in without and any(_has_value(row[name]) for row in rows)
    ]
    print_table(columns, [[_cell(name, row[name]) for name in columns] for row in rows], keys=keys)
    if len(rows) < len(table):
        console.print(f"{len(table) - len(rows)} more rows; raise --limit, or filter")


def _cell(column: str, value: Any) -> Any:
    if not _has_value(value):
        return None
    return quantity(value, "bytes") if column == "bytes" or column.endswith("_bytes") else value


def _print_history(history: TaskHistory, *, json: bool) -> None:
    """Print the steps of one task, its fate, and the duration of each phase."""
    if json:
        print_json(dataclasses.asdict(history))
        return
    console.print(history.headline)
    console.print()
    began_s = history.steps[0].time_s
    rows = [[step.time_s, step.time_s - began_s, step.event, step.took_s, step.what] for step in history.steps]
    print_table(["time_s", "after_s", "event", "took_s", ""], rows)
    console.print()
    total = history.durations_s["total"]
    parts = [[name, seconds, f"{_share(seconds, total)} %"] for name, seconds in history.durations_s.items()]
    print_table(["phase", "seconds", "share"], parts)


def _share(part: float, total: float) -> str:
    return f"{100 * part / total:.1f}" if total else "—"


def _print_comparison(one: Run, other: Run, names: tuple[str, str], seed: int | None, *, json: bool) -> bool:
    """Print where two runs differ; return whether they are the same."""
    from asyncfl.trace.compare import compare
    from asyncfl.trace.query import select

    tables = [run.tables[name] for name in ("events", "rounds") for run in (one, other)]
    if seed is not None:
        tables = [select(table, seed=seed) for table in tables]
    found = compare(*tables)
    scenarios = [run.description for run in (one, other)]
    differing = differing_fields(scenarios[0], scenarios[1])
    fields = [(name, _plain(mine), _plain(theirs)) for name, mine, theirs in differing]
    if json:
        described = [{"field": name, "one": mine, "other": theirs} for name, mine, theirs in fields]
        print_json({"same": found.same, "scenario": described, **dataclasses.asdict(found)})
        return found.same
    console.print(f"one: {names[0]}\nother: {names[1]}")
    if fields:
        console.print("\nscenarios differ in")
        print_table(["field", "one", "other"], fields)
    else:
        console.print("\nthe scenarios are the same")
    _print_seeds(found)
    if found.same:
        events = len(tables[0])
        seeds = "1 seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
        console.print(f"\nno difference: the same {events} events and published numbers in {seeds}")
    return found.same


def _plain(value: Any) -> str:
    return "null" if value is None else format_number(value)


def _print_seeds(comparison: TraceComparison) -> None:
    """Print the seeds that only one run has, and the differences of the common seeds."""
    for which, seeds in (("one", comparison.only_one), ("other", comparison.only_other)):
        if seeds:
            console.print(f"\nonly {which} has seed {', '.join(map(str, seeds))}")
    for seed in comparison.seeds:
        if seed.same:
            continue
        beside = "" if seed.seed == seed.other_seed else f" beside seed {seed.other_seed}"
        console.print(f"\nseed {seed.seed}{beside}")
        _print_seed(seed)


def _print_seed(seed: SeedComparison) -> None:
    if seed.events is None:
        console.print("the same events")
    else:
        console.print(f"first different event: number {seed.events.row}{_place_of(seed.events)}")
        _print_divergence(seed.events)
    if seed.rounds is not None:
        versions = [int(rows[0]["version"]) for rows in (seed.rounds.one, seed.rounds.other) if rows]
        console.print(f"first different published numbers: version {min(versions)}{_place_of(seed.rounds)}")
    if seed.lines:
        rows = [[line.what, line.one, line.other, rounded_difference(line.one, line.other)] for line in seed.lines]
        print_table(["in sum", "one", "other", "change"], rows)
    if seed.changed_fates:
        console.print(f"{seed.changed_fates} tasks of both went to another client or had another fate")


def _place_of(divergence: Divergence) -> str:
    """Return the end of a line: the columns that differ, or which run has ended."""
    if not divergence.columns:
        return f", where {'one' if not divergence.one else 'other'} has ended"
    return f", in {', '.join(divergence.columns)}"


def _print_divergence(divergence: Divergence) -> None:
    """Print the events around a difference: common ones first, then those of each run."""
    rows = [("", row) for row in divergence.common]
    rows += [("one", row) for row in divergence.one] + [("other", row) for row in divergence.other]
    (_, first), *_ = rows
    columns = [name for name in first if name not in ("seq", "seed") and any(_has_value(row[name]) for _, row in rows)]
    cells = [[which, *(row[name] if _has_value(row[name]) else None for name in columns)] for which, row in rows]
    print_table(["", *columns], cells)
