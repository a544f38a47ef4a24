"""`asyncfl data`: which data sets there are, where they come from, and what they look like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from asyncfl.cli.output import console, print_json, print_table
from asyncfl.data import Available

app = typer.Typer(help="Data sets: list them, fetch them, look at them.", invoke_without_command=True)


@app.callback()
def _data(context: typer.Context) -> None:
    """Data sets: list them, fetch them, look at them."""
    if context.invoked_subcommand is None:
        list_(json=False)


@app.command("list")
def list_(json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """What is on disk, and what stands in where nothing is.

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
def fetch(names: Annotated[list[str], typer.Argument(help="data sets to download")]) -> None:
    """Download data sets through torchvision and keep them for later runs.

    Example: asyncfl data fetch mnist usps
    """
    from asyncfl.data import fetch as fetch_

    for path in fetch_(names):
        console.print(f"{path}")


@app.command()
def sheet(
    names: Annotated[list[str] | None, typer.Argument(help="data sets to show; default: all")] = None,
    out: Annotated[Path, typer.Option(help="PNG file to write")] = Path("data.png"),
    embedded: Annotated[bool, typer.Option("--embedded", help="stand-ins, even where there are files")] = False,
) -> None:
    """Draw a contact sheet: some images of each class.

    Example: asyncfl data sheet mnist svhn --out digits.png
    """
    from asyncfl.data import contact_sheet

    console.print(f"{contact_sheet(names or [], out, embedded)}")
