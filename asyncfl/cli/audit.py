"""`asyncfl audit`: measure what a finished run reveals about its training data."""

from __future__ import annotations

import typer

from asyncfl.cli.audit_canaries import canaries
from asyncfl.cli.audit_membership import membership
from asyncfl.cli.audit_neighbours import neighbours
from asyncfl.cli.audit_reconstruct import reconstruct
from asyncfl.cli.command_group import CommandGroup

HELP = """Measure what a finished run reveals about its training data.

Each command simulates the run again and attacks it in one way. What it measures is written into the run's folder.

Example: asyncfl audit neighbours results/runs/HASH
"""

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=HELP)
app.command("neighbours")(neighbours)
app.command("canaries")(canaries)
app.command("membership")(membership)
app.command("reconstruct")(reconstruct)
