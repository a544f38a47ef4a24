"""`asyncfl privacy`: compute noise and epsilon without a run."""

from __future__ import annotations

from typing import Any

import typer

from asyncfl.cli.command_group import CommandGroup
from asyncfl.cli.output import console, format_number, print_table, print_text
from asyncfl.cli.question_command import question_command
from asyncfl.privacy.queries.epsilon_and_noise import ComposeQuestion, EpsilonQuestion, ExposureQuestion, NoiseQuestion
from asyncfl.privacy.queries.nbafl import NbaflQuestion
from asyncfl.privacy.queries.question import Question

HELP = """Compute the noise for an epsilon, and the epsilon of noise.

Example: asyncfl privacy epsilon --noise-multiplier 1.1 --releases 100
"""

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=HELP)


def _print_answer(question: Question, answer: dict[str, Any]) -> None:
    """Print the entries of `answer` in their order, a list of rows as a table, and the notes last."""
    for name, value in answer.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            _print_rows(value)
        elif not isinstance(value, list):
            console.print(f"{name}: {format_number(value)}")
    _print_notes(answer["notes"])


def _print_noise(question: Question, answer: dict[str, Any]) -> None:
    """Print the quantities as a table, then the epsilon of the noise, then notes."""
    quantities = [(name, value) for name, value in answer.items() if name not in ("worth", "notes")]
    print_table(["quantity", "value"], quantities)
    console.print()
    _print_rows(answer["worth"])
    _print_notes(answer["notes"])


def _print_rows(rows: list[dict[str, Any]]) -> None:
    print_table(list(rows[0]), [list(row.values()) for row in rows])


def _print_notes(notes: list[str]) -> None:
    for note in notes:
        print_text(f"note: {note}")


_COMMANDS: list[tuple[str, type[Question], str, str]] = [
    (
        "nbafl",
        NbaflQuestion,
        "Compute NbAFL's noise and its exact epsilon.",
        "--clients 50 --rounds 25 --exposures 2 --epsilon 50",
    ),
    ("epsilon", EpsilonQuestion, "Compute the epsilon of a noise multiplier.", "--noise-multiplier 1.1 --releases 100"),
    ("noise", NoiseQuestion, "Compute the smallest noise for an epsilon.", "--epsilon 2 --releases 100"),
    (
        "compose",
        ComposeQuestion,
        "Compute the epsilon of releases of several kinds together.",
        "gaussian:1.1x10 gaussian:2@0.01x1000 laplace:5x3 pure:0.5",
    ),
    (
        "exposure",
        ExposureQuestion,
        "Compute how many uploads may be overheard, and the L that NbAFL must assume.",
        "--epsilon 60 --exposures 3",
    ),
]
for _name, _question, _summary, _words in _COMMANDS:
    _command = f"asyncfl privacy {_name}"
    _printer = _print_noise if _question is NbaflQuestion else _print_answer
    app.command(_name)(question_command(_question, _command, _summary, f"{_command} {_words}", _printer, {}))
