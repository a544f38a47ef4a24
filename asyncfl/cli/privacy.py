"""`asyncfl privacy` and `asyncfl bounds`: noise, epsilon and convergence bounds without a run.

The fields of a question (`asyncfl.privacy.queries`) become the options of its command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError
from rich.markup import escape

from asyncfl.base.description import faults_of
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.field_texts import text_of
from asyncfl.cli.options import CommandGroup, Json, option
from asyncfl.cli.output import console, format_number, print_json, print_rows, print_table, print_text
from asyncfl.privacy.queries import Question
from asyncfl.privacy.queries.convergence_bounds import BoundsQuestion
from asyncfl.privacy.queries.epsilon_and_noise import (
    ComposeQuestion,
    EpsilonQuestion,
    ExposureQuestion,
    NbaflQuestion,
    NoiseQuestion,
)

BOUNDS = "Compute NbAFL's convergence bounds, and where they are smallest."
HELP = """Compute the noise for an epsilon, and the epsilon of noise.

Example: asyncfl privacy epsilon --noise-multiplier 1.1 --releases 100
"""

app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=HELP)
Answer = dict[str, Any]


def _print_answer(answer: Answer) -> None:
    """Print the entries of `answer` in their order, a list of rows as a table, and the notes last."""
    notes = answer.pop("notes")
    for name, value in answer.items():
        if not isinstance(value, list):
            console.print(f"{name}: {format_number(value)}")
        elif value and isinstance(value[0], dict):
            print_rows(value)
    print_text(*(f"note: {note}" for note in notes))


def _print_noise(answer: Answer) -> None:
    """Print the quantities as a table, then the epsilon of the noise, then notes."""
    worth = {name: answer.pop(name) for name in ("worth", "notes")}
    print_table(["quantity", "value"], list(answer.items()))
    console.print()
    _print_answer(worth)


def _print_bounds(answer: Answer) -> None:
    """Print NbAFL's convergence bound with its constants, the best rounds and participants, and the curve if asked
    for."""
    curve = answer.pop("curve", None)
    best = {name: found for name in ("best_rounds", "best_participants") if (found := answer.pop(name, None))}
    print_table(["quantity", "value"], list(answer.items()))
    for name, optimum in best.items():
        console.print(f"{name}: " + ", ".join(f"{key} {format_number(value)}" for key, value in optimum.items()))
    if curve is not None:
        print_table(["rounds", "bound"], list(zip(*curve.values(), strict=True)))


_COMMANDS: dict[str, tuple[type[Question], Callable[[Answer], None], str, str]] = {
    "privacy nbafl": (
        *(NbaflQuestion, _print_noise, "Compute NbAFL's noise and its exact epsilon."),
        "--clients 50 --rounds 25 --exposures 2 --epsilon 50",
    ),
    "privacy epsilon": (
        *(EpsilonQuestion, _print_answer, "Compute the epsilon of a noise multiplier."),
        "--noise-multiplier 1.1 --releases 100",
    ),
    "privacy noise": (
        *(NoiseQuestion, _print_answer, "Compute the smallest noise for an epsilon."),
        "--epsilon 2 --releases 100",
    ),
    "privacy compose": (
        *(ComposeQuestion, _print_answer, "Compute the epsilon of releases of several kinds together."),
        "gaussian:1.1x10 gaussian:2@0.01x1000 laplace:5x3 pure:0.5",
    ),
    "privacy exposure": (
        *(ExposureQuestion, _print_answer),
        "Compute how many uploads may be overheard, and the L that NbAFL must assume.",
        "--epsilon 60 --exposures 3",
    ),
    "bounds": (
        *(BoundsQuestion, _print_bounds, BOUNDS),
        "--rounds 25 --participants 20 --epsilon 50 --curve",
    ),
}
"""Command -> question, how its answer is printed, summary and options of the example."""


def _command(name: str) -> Callable[..., None]:
    """Make a function for typer that answers a question. Its fields, and those of models in it, become options."""
    question, print_answer, summary, example = _COMMANDS[name]

    def call(**options: Any) -> None:
        json, with_curve = options.pop("json"), options.pop("curve", False)
        description = _nested(question, options)
        try:
            built = question.model_validate(description)
        except ValidationError as error:
            faults = [_fault_of_option(fault, description) for fault in faults_of(error, question, description)]
            raise ScenarioError(faults, f"asyncfl {name}") from None
        curve = {"curve": built.curve()} if with_curve and isinstance(built, BoundsQuestion) else {}
        answer = built.answer()
        if json:
            print_json({"question": description, "answer": answer} | curve)
        else:
            print_answer(answer | curve)

    parameters = list(_parameters(question))
    if question is BoundsQuestion:
        parameters.append(_keyword("curve", False, option("Print the bound over 1..rounds too.", "--curve"), bool))
    parameters.append(inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    _, *details = (inspect.getdoc(question) or "").split("\n\n")
    call.__doc__ = "\n\n".join([summary, *details, f"Example: {escape(f'asyncfl {name} {example}')}"])
    return call


def _keyword(name: str, default: Any, how: Any, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, how])


def _parameters(model: type[BaseModel]) -> Iterator[inspect.Parameter]:
    """Yield a keyword parameter for each field of a model, and for each field of the models among these."""
    for name, field in model.model_fields.items():
        if _is_model(field.annotation):
            yield from _parameters(field.annotation)  # type: ignore[arg-type]
            continue
        # No range and no choices: the model checks them, and reports all faults at once.
        text, kind = escape(text_of(model, name).replace("null:", "left out:")), _without_range(field.annotation)
        how = option(text, *([f"--{name.replace('_', '-')}"] if kind is bool else []))
        if get_origin(kind) is tuple:
            how, kind = typer.Argument(help=text), list[str]
        elif get_origin(kind) is Literal:
            words = list(map(str, get_args(kind)))
            how, kind = option(text, metavar="|".join(words), autocompletion=words.copy), str
        yield _keyword(name, inspect.Parameter.empty if field.is_required() else field.default, how, kind)


def _without_range(annotation: Any) -> Any:
    """Return the type of a field without pydantic's constraints."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, map(_without_range, get_args(annotation)))
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _nested(model: type[BaseModel], options: dict[str, Any]) -> dict[str, Any]:
    """Return the values of options, nested as the model nests its fields: `{"noise": {"clip_norm": 1.0}}`."""
    return {
        name: _nested(field.annotation, options) if _is_model(field.annotation) else options[name]  # type: ignore[arg-type]
        for name, field in model.model_fields.items()
    }


def _fault_of_option(fault: Fault, description: dict[str, Any]) -> Fault:
    """Return the fault of a field (`noise.clip_norm`, `releases.1`) as that of the option or word that was typed."""
    above, _, name = fault.field.rpartition(".")
    if not name.isdigit():
        return Fault("--" + name.replace("_", "-"), fault.message)
    word = str(description[above][int(name)])
    # The fault's field is the word itself, so the message need not repeat it.
    return Fault(word, fault.message.removesuffix(f", got {word!r}"))


for _name in _COMMANDS:
    if _name.startswith("privacy "):
        app.command(_name.removeprefix("privacy "))(_command(_name))

bounds = _command("bounds")
