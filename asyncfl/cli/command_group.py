"""Groups of commands, such as `asyncfl audit`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

from asyncfl.base.errors import nearest


class CommandGroup(TyperGroup):
    """A group of commands whose error message for an unknown command says what to type instead."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for command in self.commands.values():
            command.help = joined_lines(command.help or "")

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return name, command and remaining arguments for `args`."""
        word = args[0]
        if word not in self.commands and not ctx.resilient_parsing:
            ctx.fail(self.advice(word, ctx.command_path))
        return super().resolve_command(ctx, args)

    def advice(self, word: str, path: str) -> str:
        """Return the error text for the unknown command `word`: the nearest command, or what to type before it."""
        if near := nearest(word, self.commands):
            return f"{word!r} is no command; did you mean `{path} {near}`?"
        first, *others = self.commands
        return (
            f"{word!r} is no command. Type `{path} {first} {word}`, or one of {', '.join(others)} in place of {first}; "
            f"`{path} --help` describes them."
        )


def joined_lines(text: str) -> str:
    """Return `text` with each paragraph on one line, so that the terminal breaks it at its own width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
