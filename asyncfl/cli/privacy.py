"""`asyncfl privacy`: noise and what it is worth, without a run."""

from __future__ import annotations

from typing import Annotated

import typer

from asyncfl.cli.asking import ask
from asyncfl.cli.output import console, print_json, print_table

app = typer.Typer(help="Noise for a budget, and the budget that noise is really worth.", no_args_is_help=True)


@app.callback()
def _privacy() -> None:
    """Noise for a budget, and the budget that noise is really worth."""


@app.command()
def nbafl(
    clients: Annotated[int, typer.Option(help="N")] = 50,
    participants: Annotated[int | None, typer.Option(help="K, clients drawn per round; default: all")] = None,
    rounds: Annotated[int, typer.Option(help="T")] = 25,
    exposures: Annotated[int, typer.Option(help="L, overheard uploads of one client")] = 1,
    epsilon: Annotated[float, typer.Option(help="privacy budget of the run")] = 60.0,
    delta: Annotated[float, typer.Option(help="probability of breaking it")] = 0.01,
    constant: Annotated[float, typer.Option(help="factor on c1 = sqrt(2 ln(1.25/delta))")] = 1.25,
    clip_norm: Annotated[float, typer.Option(help="C")] = 20.0,
    samples: Annotated[int, typer.Option(help="m, samples of the smallest data set")] = 100,
    sensitivity: Annotated[str, typer.Option(help="2C/m | 2C | 2C/N")] = "2C/m",
    composition: Annotated[str, typer.Option(help="naive | naive_delta_split | analytic | rdp")] = "naive",
    b_rule: Annotated[str, typer.Option(help="paper | amplification | none")] = "paper",
    parameters: Annotated[int | None, typer.Option(help="size of the model, to tell the noise's norm")] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Noise of NbAFL's clients and server (eqs. 5 and 7), and the exact epsilon of it."""
    from asyncfl.privacy.report import NbaflQuestion

    asked = {name: value for name, value in locals().items() if name in NbaflQuestion.model_fields}
    answer = ask(NbaflQuestion, asked, "asyncfl privacy nbafl").answer()
    if json:
        print_json({"question": asked, "answer": answer})
        return
    worth, notes = answer.pop("worth"), answer.pop("notes")
    print_table(["quantity", "value"], list(answer.items()))
    console.print()
    print_table(list(worth[0]), [list(row.values()) for row in worth])
    for note in notes:
        console.print(f"note: {note}")
