"""`asyncfl live`: run a scenario as a real federation, in real time, on one machine or several."""

from __future__ import annotations

from typing import Any

import typer

from asyncfl.cli.command_group import CommandGroup
from asyncfl.cli.live_flower import flower
from asyncfl.cli.live_here import here
from asyncfl.cli.live_join import join
from asyncfl.cli.live_keys import keys
from asyncfl.cli.live_serve import serve

HERE = "here"
"""Command that runs when a scenario is given without a command."""

HELP = """Run a scenario as a real federation, in real time.

`asyncfl live scenario.yaml` is short for `asyncfl live here scenario.yaml`.

Example: asyncfl live scenario.yaml --shape --speedup 10
"""


class LiveGroup(CommandGroup):
    """The commands of `asyncfl live`; `here` may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `here` before arguments that begin with neither a command nor the help option, and parse them."""
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = [HERE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=LiveGroup,
    no_args_is_help=True,
    help=HELP,
)
app.command(HERE)(here)
app.command("serve")(serve)
app.command("join")(join)
app.command("keys")(keys)
app.command("flower")(flower)
