"""`asyncfl bounds`: NbAFL's convergence bounds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from asyncfl.cli.asking import ask
from asyncfl.cli.output import console, number, print_json, print_table


def bounds(
    rounds: Annotated[int, typer.Option(help="T")] = 25,
    participants: Annotated[int | None, typer.Option(help="K: asks theorem 3; default: theorem 2")] = None,
    epsilon: Annotated[float, typer.Option(help="privacy budget")] = 60.0,
    delta: Annotated[float, typer.Option(help="probability of breaking it")] = 0.01,
    constant: Annotated[float, typer.Option(help="factor on c1")] = 1.25,
    clients: Annotated[int, typer.Option(help="N")] = 50,
    clip_norm: Annotated[float, typer.Option(help="C")] = 20.0,
    samples: Annotated[int, typer.Option(help="m")] = 100,
    initial_gap: Annotated[float, typer.Option(help="Theta = F(w_0) - F(w*)")] = 2.302585092994046,
    polyak_lojasiewicz: Annotated[float, typer.Option(help="l")] = 0.5,
    lipschitz: Annotated[float, typer.Option(help="beta")] = 1.0,
    smoothness: Annotated[float, typer.Option(help="rho")] = 0.5,
    dissimilarity: Annotated[float, typer.Option(help="B, |grad F_i| <= B |grad F|")] = 1.0,
    proximal_mu: Annotated[float, typer.Option(help="mu")] = 1.0,
    lambda1: Annotated[str, typer.Option(help="paper | corrected")] = "paper",
    curve: Annotated[bool, typer.Option("--curve", help="print the bound over 1..rounds")] = False,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Theorems 2 and 3 of NbAFL: the bound, whether it exists, and where it is best."""
    from asyncfl.privacy.bounds import BoundSettings, LossConstants
    from asyncfl.privacy.queries.bounds import BoundsQuestion

    options = locals()
    asked: dict[str, Any] = {
        "loss": {name: options[name] for name in LossConstants.model_fields},
        "noise": {name: options[name] for name in BoundSettings.model_fields},
        "rounds": rounds,
        "participants": participants,
        "lambda1": lambda1,
    }
    question = ask(BoundsQuestion, asked, "asyncfl bounds")
    answer = question.answer()
    if json:
        print_json({"question": asked, "answer": answer} | ({"curve": question.curve()} if curve else {}))
        return
    optima = {name: answer.pop(name, None) for name in ("best_rounds", "best_participants")}
    print_table(["quantity", "value"], list(answer.items()))
    for name, optimum in optima.items():
        if optimum is not None:
            found = ", ".join(f"{key} {number(value)}" for key, value in optimum.items())
            console.print(f"{name}: {found}")
    if curve:
        print_table(["rounds", "bound"], list(zip(*question.curve().values(), strict=True)))
