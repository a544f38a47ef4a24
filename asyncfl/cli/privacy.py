"""`asyncfl privacy`: noise and what it is worth, without a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asyncfl.cli.asking import ask
from asyncfl.cli.output import console, number, print_json, print_table

if TYPE_CHECKING:
    from asyncfl.privacy.queries.question import Question

app = typer.Typer(help="Noise for a budget, and the budget that noise is really worth.", no_args_is_help=True)


@app.callback()
def _privacy() -> None:
    """Noise for a budget, and the budget that noise is really worth."""


def _show(answer: dict[str, Any]) -> None:
    """Single values, then tables, then notes."""
    for name, value in answer.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            _show_rows(value)
        elif not isinstance(value, list):
            console.print(f"{name}: {number(value)}")
    _show_notes(answer["notes"])


def _show_noise(answer: dict[str, Any]) -> None:
    """The many quantities as a table, then what the noise is worth, then notes."""
    quantities = [(name, value) for name, value in answer.items() if name not in ("epsilons", "notes")]
    print_table(["quantity", "value"], quantities)
    console.print()
    _show_rows(answer["worth"])
    _show_notes(answer["notes"])


def _show_rows(rows: list[dict[str, Any]]) -> None:
    print_table(list(rows[0]), [list(row.values()) for row in rows])


def _show_notes(notes: list[str]) -> None:
    for note in notes:
        console.print(f"note: {note}")


def _answer(
    command: str, question: type[Question], options: dict[str, Any], show: Callable[[dict[str, Any]], None] = _show
) -> None:
    """Asks a question and prints its answer by `show`, or with the option `json` as JSON.

    options: of the command by name; the question takes those that are its fields.
    """
    asked = {name: value for name, value in options.items() if name in question.model_fields}
    answer = ask(question, asked, f"asyncfl privacy {command}").answer()
    if options["json"]:
        print_json({"question": asked, "answer": answer})
    else:
        show(answer)


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
    from asyncfl.privacy.queries.nbafl import NbaflQuestion

    _answer("nbafl", NbaflQuestion, locals(), _show_noise)


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
    from asyncfl.privacy.queries.releases import EpsilonQuestion

    _answer("epsilon", EpsilonQuestion, locals())


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
    from asyncfl.privacy.queries.releases import NoiseQuestion

    _answer("noise", NoiseQuestion, locals())


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
    from asyncfl.privacy.queries.releases import ComposeQuestion

    _answer("compose", ComposeQuestion, locals())


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
    from asyncfl.privacy.queries.releases import ExposureQuestion

    _answer("exposure", ExposureQuestion, locals())
