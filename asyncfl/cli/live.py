"""`asyncfl live`: a scenario as a real federation, in real time, on this machine or on several."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from asyncfl.cli.live_flower import flower
from asyncfl.cli.live_here import here
from asyncfl.cli.live_join import join
from asyncfl.cli.live_keys import keys
from asyncfl.cli.live_serve import serve

HERE = "here"
"""The command that a scenario without one is given to."""


class Group(TyperGroup):
    """Commands of which the name of one may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words that are left, with the command's name."""
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = [HERE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Hold a federation in real time. `asyncfl live scenario.yaml` is short for `asyncfl live here scenario.yaml`.",
)
app.command(HERE)(here)
app.command("serve")(serve)
app.command("join")(join)
app.command("keys")(keys)
app.command("flower")(flower)
