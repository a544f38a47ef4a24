"""`asyncfl data`: list, download and draw data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.base.component import kind_of
from asyncfl.base.errors import shortened
from asyncfl.cli.command_group import CommandGroup
from asyncfl.cli.options import Assignments, Force, Json, ScenarioFile
from asyncfl.cli.output import console, print_json, print_table, print_text
from asyncfl.data import Available

HELP = """List, download and draw data sets.

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

    rows = [_plain(row) for row in available()]
    if json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def _plain(row: Available) -> dict[str, object]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in row.items()}


@app.command()
def fetch(names: Annotated[list[str], typer.Argument(help="Data sets to download.", metavar="NAME")]) -> None:
    """Download data sets and verify their checksums.

    Example: asyncfl data fetch mnist usps
    """
    from asyncfl.data import fetch as fetch_

    for path in fetch_(names):
        console.print(f"{path}")


@app.command()
def sheet(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets to draw. Default: all.", metavar="NAME")] = None,
    out: Annotated[Path, typer.Option(help="PNG file to write.")] = Path("data.png"),
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Draw the embedded replacements even if the real data are on disk.")
    ] = False,
    force: Force = False,
) -> None:
    """Draw some images of each class.

    Example: asyncfl data sheet mnist svhn --out digits.png
    """
    from asyncfl.base.files.atomic import check_free
    from asyncfl.data import contact_sheet

    check_free([out], force)
    console.print(f"{contact_sheet(names or [], out, embedded)}")


@app.command()
def show(
    path: ScenarioFile,
    assignments: Assignments = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the partition. Default: the scenario's first.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Stem of the figure's files: OUT.svg, OUT.png and OUT.pdf.")] = Path(
        "holdings"
    ),
    most: Annotated[int, typer.Option("--clients", min=1, help="Largest number of clients in the table.")] = 20,
    force: Force = False,
    json: Annotated[bool, typer.Option("--json", help="Print the counts of all clients as JSON.")] = False,
) -> None:
    """Draw and tabulate how a scenario distributes samples and classes among clients.

    Writes a figure of all clients, and prints a table of the first ones.

    Example: asyncfl data show scenario.yaml --set data.partition.kind=pathological
    """
    from asyncfl.base.figure_style import saved_as
    from asyncfl.base.files.atomic import check_free
    from asyncfl.base.streams import Streams
    from asyncfl.cli.run import read_scenario
    from asyncfl.data.class_counts import count_classes
    from asyncfl.experiments.class_counts_figure import holdings_figure

    scenario = read_scenario(path, assignments or [])
    check_free(saved_as(out), force)
    chosen = scenario.seeds[0] if seed is None else seed
    holdings = count_classes(scenario.data, Streams(chosen, data=scenario.seeding.data))
    partition = kind_of(scenario.data.partition)
    written = holdings_figure(holdings, f"Samples of each client: {partition}, seed {chosen}", out)
    if json:
        print_json(
            {
                "classes": list(holdings.class_names),
                "clients": holdings.counts.tolist(),
                "column": holdings.column,
                "owners": list(holdings.owners),
                "domains": list(holdings.domains),
                "provenance": holdings.provenance,
                "files": [str(file) for file in written],
            }
        )
        return
    print_text(f"data: {holdings.provenance}")
    sizes, held, skew = holdings.sizes, holdings.classes_held, holdings.skew
    columns = ["client", "samples", holdings.kind, "skew", "holds most of"]
    further = [("domain", holdings.domains), (holdings.column, holdings.owners)]
    columns[1:1] = [name for name, values in further if values]
    rows = []
    for client in range(min(most, len(sizes))):
        about = [shortened(values[client], 16) for _, values in further if values]
        numbers = [int(sizes[client]), int(held[client]), round(float(skew[client]), 2)]
        rows.append([client, *about, *numbers, holdings.largest_classes(client)])
    print_table(columns, rows)
    left = f"the first {most} of " if len(sizes) > most else ""
    print_text(left + holdings.summary)
    for file in written:
        console.print(f"{file}")
