"""`asyncfl trace`: read the events of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from asyncfl.base.errors import Fault, InputError, ScenarioError
from asyncfl.base.quantities import quantity
from asyncfl.cli.options import (
    CommandGroup,
    Json,
    RunFolder,
    argument,
    at_most_int64,
    integer,
    load_run,
    number,
    option,
)
from asyncfl.cli.output import console, print_json, print_table, rounded_difference

if TYPE_CHECKING:
    import pyarrow as pa

    from asyncfl.results.compare_traces import TraceComparison

HELP = """Read the events of a run: uploads, losses, bans, versions.

Example: asyncfl trace events results/runs/HASH --kind lost --client 3
"""

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=HELP)


def _kinds() -> list[str]:
    from asyncfl.protocol.events import Kind

    return [str(kind) for kind in Kind]


# Events of no client, task or version hold -1.
Clients: TypeAlias = Annotated[list[int] | None, integer("Only this client. May be repeated.", "--client", least=-1)]
Task: TypeAlias = Annotated[int | None, integer("Only this task.", least=-1)]
Seed: TypeAlias = Annotated[int | None, integer("Only this seed.")]
Limit: TypeAlias = Annotated[int, integer("Largest number of rows to print; 0: all.")]


@app.command("events")
def events_(
    run: RunFolder,
    client: Clients = None,
    kind: Annotated[
        list[str] | None, option("Only this kind, e.g. lost. May be repeated.", autocompletion=_kinds)
    ] = None,
    task: Task = None,
    version: Annotated[int | None, integer("Only events while this version was the newest.", least=-1)] = None,
    seed: Seed = None,
    since: Annotated[float | None, number("Only from this virtual second on.")] = None,
    until: Annotated[float | None, number("Only up to this virtual second.")] = None,
    limit: Limit = 50,
    count: Annotated[bool, option("Print the number of events of each kind instead.", "--count")] = False,
    json: Json = False,
) -> None:
    """Print the events of a run in the order of virtual time.

    Example: asyncfl trace events results/runs/HASH --kind lost --client 3
    """
    from asyncfl.protocol.event_query import counts, select

    known = _kinds()
    if unknown := [name for name in kind or [] if name not in known]:
        raise ScenarioError([Fault("--kind", f"must be one of {', '.join(known)}, got {', '.join(unknown)}")])
    filters: dict[str, Any] = {"clients": client, "kinds": kind, "task": task, "version": version, "seed": seed}
    chosen = select(load_run(run, seed).tables["events"], **filters, since_s=since, until_s=until)
    if not count:
        _print_rows(chosen.drop_columns("seq") if not json else chosen, limit=limit, json=json)
    elif json:
        print_json(counts(chosen))
    else:
        print_table(["kind", "events"], list(counts(chosen).items()))


@app.command("follow")
def follow(
    run: RunFolder,
    task: Annotated[int, argument("TASK", "Number of the task.", min=0, callback=at_most_int64)],
    seed: Annotated[int | None, integer("Seed of the task. Required if the run has several.")] = None,
    json: Json = False,
) -> None:
    """Follow one task from its dispatch to its aggregation or loss.

    Example: asyncfl trace follow results/runs/HASH 17
    """
    from asyncfl.results.follow import follow as follow_task

    try:
        tables = load_run(run).tables
        history = follow_task(tables["events"], tables["tasks"], task, seed)
    except InputError as error:
        typed = {"task": "TASK", "seed": "--seed"}
        raise ScenarioError([Fault(typed.get(one.field, one.field), one.message) for one in error.faults]) from None
    if json:
        print_json(dataclasses.asdict(history))
        return
    console.print(f"{history.headline}\n")
    began_s, total = history.steps[0].time_s, history.durations_s["total"]
    steps = [[step.time_s, step.time_s - began_s, step.event, step.took_s, step.what] for step in history.steps]
    print_table(["time_s", "after_s", "event", "took_s", ""], steps)
    console.print()
    shares = [f"{100 * took_s / total:.1f} %" if total else "— %" for took_s in history.durations_s.values()]
    rows = [[*one, share] for one, share in zip(history.durations_s.items(), shares, strict=True)]
    print_table(["phase", "seconds", "share"], rows)


@app.command("table")
def table(
    run: RunFolder,
    by: Annotated[
        Literal["client", "version", "base_version", "seed", "staleness"],
        option("Property to group tasks by. version: the version that the update entered."),
    ] = "client",
    client: Clients = None,
    task: Task = None,
    seed: Seed = None,
    since: Annotated[float | None, number("Only tasks dispatched from this virtual second on.")] = None,
    until: Annotated[float | None, number("Only tasks dispatched up to this virtual second.")] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """Tabulate fates, durations and staleness of tasks, one row for each client, version, seed or staleness.

    Example: asyncfl trace table results/runs/HASH --by client
    """
    from asyncfl.protocol.score_requests import score_requests_of
    from asyncfl.protocol.tasks import Tasks
    from asyncfl.results.tabulate import tabulate

    tables = load_run(run, seed).tables
    tasks = Tasks.of(tables["tasks"]).select(clients=client or None, task=task, seed=seed, since_s=since, until_s=until)
    # Requests for scores belong to no task, and have no time of dispatch.
    requests = score_requests_of(tables["events"]) if (task, since, until) == (None, None, None) else []
    _print_rows(tabulate(tasks, by, requests), limit=limit, json=json, keys=1 if by == "seed" else 2)


@app.command("diff")
def diff(
    run: RunFolder,
    other: Annotated[Path, argument("OTHER", "Folder of the other run.")],
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Find the first event in which two runs differ. The exit status is 1 if they do.

    `asyncfl compare` shows in which fields their scenarios differ.

    Example: asyncfl trace diff results/runs/HASH results/runs/OTHER
    """
    from asyncfl.results.compare_traces import compare
    from asyncfl.results.storage import Run

    runs = load_run(run, seed), Run.load(other, own_code=False)
    tables = [{name: _of_seed(one.tables[name], seed) for name in ("events", "rounds", "tasks")} for one in runs]
    found = compare(*tables)
    if json:
        print_json({"same": found.same, **dataclasses.asdict(found)})
    else:
        console.print(f"one: {run}\nother: {other}")
        _print_differences(found)
        if found.same:
            seeds = "1 seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
            same = f"the same {len(tables[0]['events'])} events and published numbers in {seeds}"
            console.print(f"\nno difference: {same}")
    if not found.same:
        raise typer.Exit(1)


@app.command("save")
def save(
    run: RunFolder,
    file: Annotated[Path, argument("FILE", "File to write; a name that ends in .gz is compressed.")],
    client: Clients = None,
    seed: Seed = None,
) -> None:
    """Save the events as a trace for Perfetto, which opens at https://ui.perfetto.dev.

    Example: asyncfl trace save results/runs/HASH trace.json.gz
    """
    from asyncfl.results.perfetto import epsilon_curves, write_perfetto

    loaded = load_run(run, seed)
    spent, missing = epsilon_curves(_of_seed(loaded.tables["spending"], seed))
    notes = [f"spent epsilon not available: {reason}" for reason in missing]
    events, tasks = (_of_seed(loaded.tables[name], seed) for name in ("events", "tasks"))
    written = write_perfetto(events, tasks, file, title=run.resolve().name, spent=spent, notes=notes, clients=client)
    for line in (*notes, f"{file}: {written} events; open it at https://ui.perfetto.dev"):
        console.print(line)


def _of_seed(table: pa.Table, seed: int | None) -> Any:
    from asyncfl.protocol.event_query import select

    return table if seed is None else select(table, seed=seed)


def _print_rows(table: pa.Table, *, limit: int, json: bool, keys: int = 1) -> None:
    """Print the first `limit` rows (0: all) of a table, without columns that hold no value in them."""
    from asyncfl.protocol.event_query import value_of

    rows = (table.slice(0, limit) if limit else table).to_pylist()
    if json:
        print_json(rows)
        return
    if not rows:
        console.print("no matching events or tasks")
        return
    columns = [name for name in rows[0] if any(value_of(row[name]) is not None for row in rows)]
    print_table(columns, [[_cell(name, row[name]) for name in columns] for row in rows], keys=keys)
    if len(rows) < len(table):
        console.print(f"{len(table) - len(rows)} more rows; raise --limit, or filter")


def _cell(column: str, cell: Any) -> Any:
    from asyncfl.protocol.event_query import value_of

    value = value_of(cell)
    return quantity(value, "bytes") if value is not None and column.endswith("bytes") else value


def _print_differences(comparison: TraceComparison) -> None:
    """Print the seeds that only one run has, and the differences of the common seeds."""
    for which, seeds in (("one", comparison.only_one), ("other", comparison.only_other)):
        if seeds:
            console.print(f"\nonly {which} has seed {', '.join(map(str, seeds))}")
    for seed in comparison.seeds:
        if seed.same:
            continue
        beside = "" if seed.seed == seed.other_seed else f" beside seed {seed.other_seed}"
        console.print("\n".join([f"\nseed {seed.seed}{beside}", *seed.sentences("one", "other")]))
        if seed.events is not None:
            columns, rows = seed.events.rows("", "one", "other")
            print_table(["", *columns], rows)
        if seed.lines:
            lines = [[line.what, line.one, line.other, rounded_difference(line.one, line.other)] for line in seed.lines]
            print_table(["in sum", "one", "other", "change"], lines)
