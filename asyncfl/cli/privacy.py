"""`asyncfl privacy` and `asyncfl bounds`: noise, epsilon and convergence bounds without a run.

The fields of a question (`asyncfl.privacy.queries`) become the options of its command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError
from rich.markup import escape

from asyncfl.base.description import faults_of
from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.field_texts import text_of
from asyncfl.cli.command_group import CommandGroup
from asyncfl.cli.options import Json
from asyncfl.cli.output import console, format_number, print_json, print_table, print_text
from asyncfl.privacy.queries import Question
from asyncfl.privacy.queries.bounds import BoundsQuestion
from asyncfl.privacy.queries.epsilon_and_noise import (
    ComposeQuestion,
    EpsilonQuestion,
    ExposureQuestion,
    NbaflQuestion,
    NoiseQuestion,
)

HELP = """Compute the noise for an epsilon, and the epsilon of noise.

Example: asyncfl privacy epsilon --noise-multiplier 1.1 --releases 100
"""


app = typer.Typer(cls=CommandGroup, no_args_is_help=True, help=HELP)
Q = TypeVar("Q", bound=Question)
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _command(
    question: type[Q],
    command: str,
    summary: str,
    example: str,
    print_answer: Callable[[Q, dict[str, Any]], None],
    curve: Callable[[Q], Any] | None = None,
) -> Callable[..., None]:
    """Make a function for typer that answers `question` and prints the answer.

    Its fields, and the fields of models among them, become options. curve: answer to the option `--curve`.
    """

    def call(**options: Any) -> None:
        json, with_curve = options.pop("json"), options.pop("curve", False)
        description = _nested(question, options)
        built = _build(question, description, command)
        extra = {"curve": curve(built)} if curve is not None and with_curve else {}
        answer = built.answer()
        if json:
            print_json({"question": description, "answer": answer} | extra)
        else:
            print_answer(built, answer | extra)

    _, *details = (inspect.getdoc(question) or "").split("\n\n")
    parameters = [*_parameters(question), inspect.Parameter("json", _KEYWORD, default=False, annotation=Json)]
    if curve is not None:
        flag = Annotated[bool, typer.Option("--curve", help="Print the bound over 1..rounds too.")]
        parameters.insert(-1, inspect.Parameter("curve", _KEYWORD, default=False, annotation=flag))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    call.__doc__ = "\n\n".join([summary, *details, f"Example: {escape(f'{command} {example}')}"])
    return call


def _parameters(model: type[BaseModel]) -> Iterator[inspect.Parameter]:
    """Yield a keyword parameter for each field of a model, and for each field of the models among these."""
    for name, field in model.model_fields.items():
        if _is_model(field.annotation):
            yield from _parameters(field.annotation)  # type: ignore[arg-type]
            continue
        default = inspect.Parameter.empty if field.is_required() else field.default
        yield inspect.Parameter(name, _KEYWORD, default=default, annotation=_option(model, name))


def _option(model: type[BaseModel], name: str) -> Any:
    """Return the type and typer's option for a field."""
    # No range and no choices: the model checks them, and reports all faults at once.
    text = escape(text_of(model, name).replace("null:", "left out:"))
    kind = _without_range(model.model_fields[name].annotation)
    if get_origin(kind) is tuple:
        return Annotated[list[str], typer.Argument(help=text)]
    if get_origin(kind) is Literal:
        choices = [str(word) for word in get_args(kind)]
        return Annotated[str, typer.Option(help=text, metavar="|".join(choices), autocompletion=lambda: choices)]
    if kind is bool:
        return Annotated[bool, typer.Option(f"--{name.replace('_', '-')}", help=text)]
    return Annotated[kind, typer.Option(help=text)]


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


def _build(model: type[Q], description: dict[str, Any], command: str) -> Q:
    """Build a question. Raises ScenarioError with the options at fault (`--clip-norm`); of a list, the words."""
    try:
        return model.model_validate(description)
    except ValidationError as error:
        faults = [_fault_of_option(fault, description) for fault in faults_of(error, model, description)]
        raise ScenarioError(faults, command) from None


def _fault_of_option(fault: Fault, description: dict[str, Any]) -> Fault:
    """Return the fault of a field (`noise.clip_norm`, `releases.1`) as that of the option or word that was typed."""
    above, _, name = fault.field.rpartition(".")
    if not name.isdigit():
        return Fault("--" + name.replace("_", "-"), fault.message)
    word = str(description[above][int(name)])
    # The fault's field is the word itself, so the message need not repeat it.
    return Fault(word, fault.message.removesuffix(f", got {word!r}"))


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


def _print_bounds(question: BoundsQuestion, answer: dict[str, Any]) -> None:
    """Print NbAFL's convergence bound with its constants, the best rounds and participants, and the curve if asked
    for."""
    apart = {name: answer.pop(name, None) for name in ("best_rounds", "best_participants", "curve")}
    curve = apart.pop("curve")
    print_table(["quantity", "value"], list(answer.items()))
    for name, optimum in apart.items():
        if optimum is not None:
            console.print(f"{name}: " + ", ".join(f"{key} {format_number(value)}" for key, value in optimum.items()))
    if curve is not None:
        print_table(["rounds", "bound"], list(zip(*curve.values(), strict=True)))


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
    _printer = _print_noise if _question is NbaflQuestion else _print_answer
    app.command(_name)(_command(_question, f"asyncfl privacy {_name}", _summary, _words, _printer))

bounds = _command(
    BoundsQuestion,
    "asyncfl bounds",
    "Compute NbAFL's convergence bounds, and where they are smallest.",
    "--rounds 25 --participants 20 --epsilon 50 --curve",
    _print_bounds,
    BoundsQuestion.curve,
)
