"""`asyncfl trace`: read the events of a run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.cli import trace_views
from asyncfl.errors import Fault, InputError, ScenarioError

if TYPE_CHECKING:
    from asyncfl.storage import Run


class Grouping(StrEnum):
    """What a row of `--tabulate` stands for."""

    CLIENT = "client"
    VERSION = "version"
    BASE_VERSION = "base_version"
    SEED = "seed"
    STALENESS = "staleness"


class Format(StrEnum):
    """Formats that a trace is exported to."""

    PERFETTO = "perfetto"


def _kinds() -> list[str]:
    from asyncfl.trace.events import Kind

    return [str(kind) for kind in Kind]


_LARGEST = 2**63 - 1
"""No number of a run is larger. Events of no client, task or version hold -1."""


def trace(
    run: Annotated[Path, typer.Argument(help="folder of a run")],
    client: Annotated[list[int] | None, typer.Option(help="only these clients", min=-1, max=_LARGEST)] = None,
    kind: Annotated[list[str] | None, typer.Option(help="only these kinds of events", autocompletion=_kinds)] = None,
    task: Annotated[int | None, typer.Option(help="only this task", min=-1, max=_LARGEST)] = None,
    version: Annotated[
        int | None, typer.Option(help="only while this version was current", min=-1, max=_LARGEST)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="only this seed", min=0, max=_LARGEST)] = None,
    since: Annotated[float | None, typer.Option(help="from this virtual second on")] = None,
    until: Annotated[float | None, typer.Option(help="up to this virtual second")] = None,
    limit: Annotated[int, typer.Option(help="most rows to print; 0: all", min=0, max=_LARGEST)] = 50,
    count: Annotated[bool, typer.Option("--count", help="count events by kind instead")] = False,
    follow: Annotated[
        int | None, typer.Option(help="tell what became of this task instead", min=0, max=_LARGEST)
    ] = None,
    tabulate: Annotated[
        Grouping | None,
        typer.Option(help="fates, durations and staleness instead, a row for each of these; times are of the dispatch"),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="say where this other run differs instead; exit status 1 if it does")
    ] = None,
    export: Annotated[Format | None, typer.Option(help="write the trace to --out in this format instead")] = None,
    out: Annotated[Path | None, typer.Option(help="file to export to; a name in .gz is compressed")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Print the events of a run, in the order in which they happened; or follow, tabulate, compare or export them.

    Example: asyncfl trace results/runs/HASH --kind lost --client 3
    """
    from asyncfl.storage import Run
    from asyncfl.trace.query import counts, select

    given = {
        name: value for name, value in locals().items() if value is not None and value is not False and value != []
    }
    _check(given, kind)
    loaded = Run.load(run)
    events = loaded.tables["events"]
    seeds = events["seed"].unique().to_pylist()
    if seed is not None and seed not in seeds:
        known = ", ".join(map(str, sorted(seeds)))
        raise ScenarioError([Fault("--seed", f"must be one of the run's ({known}), got {seed}")])
    if follow is not None:
        trace_views.print_life(_following(events, follow, seed), json=json)
    elif tabulate is not None:
        from asyncfl.trace.scoring_requests import scoring_requests_of
        from asyncfl.trace.tabulate import tabulate as table_of
        from asyncfl.trace.tasks import tasks_of

        tasks = tasks_of(events).select(clients=client, task=task, seed=seed, since_s=since, until_s=until)
        # Requests are of no task, and of a time other than that of a dispatch.
        requests = scoring_requests_of(events) if (task, since, until) == (None, None, None) else []
        trace_views.print_rows(table_of(tasks, tabulate.value, requests), limit=limit, json=json)
    elif compare is not None:
        if not trace_views.print_comparison(loaded, Run.load(compare), (str(run), str(compare)), seed, json=json):
            raise typer.Exit(1)
    elif export is not None and out is not None:
        _export(loaded, out, run.resolve().name, seed, client)
    else:
        chosen = select(
            events,
            clients=client,
            kinds=kind,
            task=task,
            version=version,
            seed=seed,
            since_s=since,
            until_s=until,
        )
        if count:
            trace_views.print_counts(counts(chosen), json=json)
        else:
            trace_views.print_rows(chosen, limit=limit, json=json, without=("seq",))


FILTERS = ("client", "kind", "task", "version", "seed", "since", "until")

SERVES = {
    "count": FILTERS,
    "follow": ("seed",),
    "tabulate": ("client", "task", "seed", "since", "until"),
    "compare": ("seed",),
    "export": ("client", "seed", "out"),
}
"""Option that asks for something else than events -> options that it takes notice of, besides --json and --limit."""


def _check(given: dict[str, Any], kinds: list[str] | None) -> None:
    """Raise ScenarioError for options that are wrong in themselves or go without effect."""
    known = _kinds()
    faults = []
    if unknown := [name for name in kinds or [] if name not in known]:
        faults.append(Fault("--kind", f"must be one of {', '.join(known)}, got {', '.join(unknown)}"))
    asked = [name for name in SERVES if name in given]
    if len(asked) > 1:
        faults.append(Fault(f"--{asked[1]}", f"cannot go with --{asked[0]}; ask for one at a time"))
    elif asked:
        useless = [name for name in (*FILTERS, "out") if name in given and name not in SERVES[asked[0]]]
        faults += [Fault(f"--{name}", f"has no effect on --{asked[0]}; leave it out") for name in useless]
    if "export" in given and "out" not in given:
        faults.append(Fault("--out", "is missing; name the file to write"))
    if "out" in given and not asked:
        faults.append(Fault("--out", "has no effect without --export; add --export perfetto"))
    if faults:
        raise ScenarioError(faults)


def _following(events: Any, task: int, seed: int | None) -> Any:
    from asyncfl.trace.follow import follow

    try:
        return follow(events, task, seed)
    except InputError as error:
        options = {"task": "--follow", "seed": "--seed"}
        raise ScenarioError([Fault(options.get(f.field, f.field), f.message) for f in error.faults]) from None


def _export(run: Run, out: Path, title: str, seed: int | None, clients: list[int] | None) -> None:
    """Write the trace for Perfetto and say what is in the file, and what is not."""
    from asyncfl.cli.output import console
    from asyncfl.trace.epsilon_curves import epsilon_curves
    from asyncfl.trace.perfetto import write_perfetto
    from asyncfl.trace.query import select

    events = run.tables["events"] if seed is None else select(run.tables["events"], seed=seed)
    table = run.tables["spending"] if seed is None else select(run.tables["spending"], seed=seed)
    spent, missing = epsilon_curves(table)
    notes = [f"spent epsilon not available: {reason}" for reason in missing]
    written = write_perfetto(events, out, title=title, spent=spent, notes=notes, clients=clients)
    for note in notes:
        console.print(note)
    console.print(f"{out}: {written} events; open it at https://ui.perfetto.dev")
