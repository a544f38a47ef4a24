"""`asyncfl privacy`: noise and what it is worth, without a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from asyncfl.cli.asking import ask
from asyncfl.cli.output import console, number, print_json, print_table

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
    composition: Annotated[str, typer.Option(help="naive | naive_delta_split | advanced | analytic | rdp")] = "naive",
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


Releases = Annotated[int, typer.Option(help="releases of the same data, with equal noise")]
Delta = Annotated[float, typer.Option(help="probability of breaking the budget")]
Neighbours = Annotated[str, typer.Option(help="add_remove | replace: how data sets may differ in one record")]
Rate = Annotated[float, typer.Option(help="probability of each record to enter a release, in secret")]
Laplace = Annotated[bool, typer.Option("--laplace", help="Laplace noise on an L1 sensitivity")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


@app.command()
def epsilon(
    noise_multiplier: Annotated[float, typer.Option(help="z: noise over what one record can add")],
    releases: Releases = 1,
    delta: Delta = 1e-5,
    sampling_rate: Rate = 1.0,
    neighbours: Neighbours = "add_remove",
    laplace: Laplace = False,
    json: Json = False,
) -> None:
    """Epsilon that a noise multiplier is worth, by each accountant."""
    from asyncfl.privacy.questions import EpsilonQuestion

    asked = {name: value for name, value in locals().items() if name in EpsilonQuestion.model_fields}
    _print(asked, ask(EpsilonQuestion, asked, "asyncfl privacy epsilon").answer(), json)


@app.command()
def noise(
    epsilon: Annotated[float, typer.Option(help="budget of all releases together")],
    releases: Releases = 1,
    delta: Delta = 1e-5,
    sensitivity: Annotated[float, typer.Option(help="what one record can add: L2 norm (Laplace: L1)")] = 1.0,
    sampling_rate: Rate = 1.0,
    neighbours: Neighbours = "add_remove",
    laplace: Laplace = False,
    json: Json = False,
) -> None:
    """Smallest noise that keeps releases within an epsilon, by each accountant."""
    from asyncfl.privacy.questions import NoiseQuestion

    asked = {name: value for name, value in locals().items() if name in NoiseQuestion.model_fields}
    _print(asked, ask(NoiseQuestion, asked, "asyncfl privacy noise").answer(), json)


@app.command()
def compose(
    releases: Annotated[
        list[str], typer.Argument(help="mechanism:multiplier@ratexcount: gaussian:1.1x10 gaussian:2@0.01x9 pure:0.5")
    ],
    delta: Delta = 1e-5,
    neighbours: Neighbours = "add_remove",
    json: Json = False,
) -> None:
    """Epsilon of several sorts of releases together, by each accountant."""
    from asyncfl.privacy.questions import ComposeQuestion, read_parts

    command = "asyncfl privacy compose"
    parts = read_parts(releases, command)
    asked = {"delta": delta, "neighbours": neighbours}
    answer = ask(ComposeQuestion, asked, command).answer(parts)
    _print({"releases": releases, **asked}, answer, json)


@app.command()
def exposure(
    epsilon: Annotated[float, typer.Option(help="budget of a client")] = 60.0,
    delta: Delta = 0.01,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="z of one upload; default: NbAFL's for L = 1, constant c1/epsilon")
    ] = None,
    constant: Annotated[float, typer.Option(help="factor on c1 in NbAFL's noise")] = 1.25,
    exposures: Annotated[int, typer.Option(help="uploads of one client that are really overheard")] = 1,
    json: Json = False,
) -> None:
    """Uploads that may be overheard before a budget is spent, and the L that NbAFL needs for those that are."""
    from asyncfl.privacy.questions import ExposureQuestion

    asked = {name: value for name, value in locals().items() if name in ExposureQuestion.model_fields}
    _print(asked, ask(ExposureQuestion, asked, "asyncfl privacy exposure").answer(), json)


def _print(asked: dict[str, Any], answer: dict[str, Any], json: bool) -> None:
    """Single values, then tables, then notes."""
    if json:
        print_json({"question": asked, "answer": answer})
        return
    for name, value in answer.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            print_table(list(value[0]), [list(row.values()) for row in value])
        elif not isinstance(value, list):
            console.print(f"{name}: {number(value)}")
    for note in answer["notes"]:
        console.print(f"note: {note}")
