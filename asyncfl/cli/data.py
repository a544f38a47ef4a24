"""`asyncfl data`: list and download data sets, and draw who holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.base.component import kind_of
from asyncfl.base.errors import shortened
from asyncfl.cli.options import Assignments, CommandGroup, Force, Json, ScenarioFile, argument, option
from asyncfl.cli.output import console, print_json, print_rows, print_table, print_text

HELP = """List and download data sets, and draw their partition.

Example: asyncfl data show scenario.yaml
"""

app = typer.Typer(cls=CommandGroup, invoke_without_command=True, help=HELP)


@app.callback()
def _data(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_(json=False)


@app.command("list")
def list_(json: Json = False) -> None:
    """List data sets, and what replaces those that are not on disk.

    Example: asyncfl data list --json
    """
    from asyncfl.data import available

    rows = [
        {name: str(value) if isinstance(value, Path) else value for name, value in row.items()} for row in available()
    ]
    (print_json if json else print_rows)(rows)


@app.command()
def fetch(names: Annotated[list[str], argument("NAME", "Data sets to download.")]) -> None:
    """Download data sets and verify their checksums.

    Example: asyncfl data fetch mnist usps
    """
    from asyncfl.data import fetch as fetch_

    for path in fetch_(names):
        console.print(f"{path}")


@app.command()
def show(
    path: ScenarioFile,
    assignments: Assignments = None,
    seed: Annotated[int | None, option("Seed of the partition. Default: the scenario's first.", min=0)] = None,
    out: Annotated[Path, option("Stem of the figure's files: OUT.svg, OUT.png and OUT.pdf.")] = Path("holdings"),
    most: Annotated[int, option("Largest number of clients in the table.", "--clients", min=1)] = 20,
    force: Force = False,
    json: Annotated[bool, option("Print the counts of all clients as JSON.", "--json")] = False,
) -> None:
    """Draw and tabulate how a scenario distributes samples and classes among clients.

    Writes a figure of all clients, and prints a table of the first ones.

    Example: asyncfl data show scenario.yaml --set data.partition.kind=pathological
    """
    from asyncfl.base.files.atomic import check_free
    from asyncfl.base.streams import Streams
    from asyncfl.cli.run import read_scenario
    from asyncfl.data.class_counts import count_classes
    from asyncfl.experiments.class_counts_figure import holdings_figure
    from asyncfl.results.figure_style import saved_as

    scenario = read_scenario(path, assignments or [])
    check_free(saved_as(out), force)
    chosen = scenario.seeds[0] if seed is None else seed
    holdings = count_classes(scenario.data, Streams(chosen, data=scenario.seeding.data))
    partition = kind_of(scenario.data.partition)
    written = holdings_figure(holdings, f"Samples of each client: {partition}, seed {chosen}", out)
    if json:
        description = {
            "classes": list(holdings.class_names),
            "clients": holdings.counts.tolist(),
            "column": holdings.column,
            "owners": list(holdings.owners),
            "domains": list(holdings.domains),
            "provenance": holdings.provenance,
            "files": [str(file) for file in written],
        }
        print_json(description)
        return
    print_text(f"data: {holdings.provenance}")
    clients = range(min(most, len(holdings.sizes)))
    further = [
        (n, values) for n, values in (("domain", holdings.domains), (holdings.column, holdings.owners)) if values
    ]
    columns = ["client", *(name for name, _ in further), "samples", holdings.kind, "skew", "holds most of"]
    rows = [
        [
            *(client, *(shortened(values[client], 16) for _, values in further)),
            *(int(holdings.sizes[client]), int(holdings.classes_held[client]), round(float(holdings.skew[client]), 2)),
            holdings.largest_classes(client),
        ]
        for client in clients
    ]
    print_table(columns, rows)
    print_text((f"the first {most} of " if len(holdings.sizes) > most else "") + holdings.summary)
    for file in written:
        console.print(f"{file}")
