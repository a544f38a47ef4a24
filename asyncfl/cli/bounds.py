"""`asyncfl bounds`: compute NbAFL's convergence bounds."""

from __future__ import annotations

from typing import Any

from asyncfl.cli.output import console, format_number, print_table
from asyncfl.cli.question_command import question_command
from asyncfl.privacy.queries.bounds import BoundsQuestion


def _print_answer(question: BoundsQuestion, answer: dict[str, Any]) -> None:
    """Print NbAFL's convergence bound with its constants, the best rounds and participants, and the curve if asked for.

    The last three are removed from `answer`.
    """
    apart = {name: answer.pop(name, None) for name in ("best_rounds", "best_participants", "curve")}
    curve = apart.pop("curve")
    print_table(["quantity", "value"], list(answer.items()))
    for name, optimum in apart.items():
        if optimum is not None:
            console.print(f"{name}: " + ", ".join(f"{key} {format_number(value)}" for key, value in optimum.items()))
    if curve is not None:
        print_table(["rounds", "bound"], list(zip(*curve.values(), strict=True)))


bounds = question_command(
    BoundsQuestion,
    "asyncfl bounds",
    "Compute NbAFL's convergence bounds, and where they are smallest.",
    "asyncfl bounds --rounds 25 --participants 20 --epsilon 50 --curve",
    _print_answer,
    {"curve": ("Print the bound over 1..rounds too.", BoundsQuestion.curve)},
)
