"""Commands that are made from a question (`asyncfl.privacy.queries`): the question's fields become options."""

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
from asyncfl.cli.options import Json
from asyncfl.cli.output import print_json
from asyncfl.privacy.queries.question import Question

Q = TypeVar("Q", bound=Question)

PrintAnswer = Callable[[Q, dict[str, Any]], None]
"""Function that prints the answer to a question for people."""


def question_command(
    question: type[Q],
    command: str,
    summary: str,
    example: str,
    print_answer: PrintAnswer[Q],
    flags: dict[str, tuple[str, Callable[[Q], Any]]],
) -> Callable[..., None]:
    """Make and return a function for typer that answers `question` and prints the answer.

    Args:
        question: Its fields, and the fields of models among them, become the options.
        command: Full name of the command, for error messages.
        summary: First line of the help.
        example: Example for the help.
        print_answer: Prints the answer unless JSON is wanted.
        flags: Name of a further flag -> its help, and the function whose result the flag adds to the answer.
    """

    def call(**options: Any) -> None:
        json = options.pop("json")
        set_flags = [name for name in flags if options.pop(name)]
        description = _nested(question, options)
        built = build_question(question, description, command)
        extra = {name: flags[name][1](built) for name in set_flags}
        answer = built.answer()
        if json:
            print_json({"question": description, "answer": answer} | extra)
        else:
            print_answer(built, answer | extra)

    _, *details = (inspect.getdoc(question) or "").split("\n\n")
    parameters = [
        *_parameters(question),
        *(_flag(name, text) for name, (text, _) in flags.items()),
        inspect.Parameter("json", _KEYWORD, default=False, annotation=Json),
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    call.__doc__ = "\n\n".join([summary, *details, f"Example: {escape(example)}"])
    return call


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _flag(name: str, text: str) -> inspect.Parameter:
    return inspect.Parameter(
        name, _KEYWORD, default=False, annotation=Annotated[bool, typer.Option(f"--{name}", help=text)]
    )


def _parameters(model: type[BaseModel]) -> Iterator[inspect.Parameter]:
    """Yield a keyword parameter for each field of a model, and for each field of the models among these."""
    for name, field in model.model_fields.items():
        if _is_model(field.annotation):
            yield from _parameters(field.annotation)  # type: ignore[arg-type]
            continue
        default = inspect.Parameter.empty if field.is_required() else field.default
        yield inspect.Parameter(name, _KEYWORD, default=default, annotation=_option(model, name))


def _option(model: type[BaseModel], name: str) -> Any:
    """Return the type and typer's option for a field.

    The option has no range or choices: the model checks them, and reports all faults at once.
    """
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
    """Return the values of options, nested as the model nests its fields: `{"noise": {"clip_norm": 1.0}}`.

    options: name of each innermost field -> its value.
    """
    return {
        name: _nested(field.annotation, options) if _is_model(field.annotation) else options[name]  # type: ignore[arg-type]
        for name, field in model.model_fields.items()
    }


def build_question(model: type[Q], description: dict[str, Any], command: str) -> Q:
    """Build a question from the values of its fields.

    Raises:
        ScenarioError: Names the options at fault (`--clip-norm`); of a list, the words at fault.
    """
    try:
        return model.model_validate(description)
    except ValidationError as error:
        faults = [_fault_of_option(fault, description) for fault in faults_of(error, model, description)]
        raise ScenarioError(faults, command) from None


def _fault_of_option(fault: Fault, description: dict[str, Any]) -> Fault:
    """Return the fault of a field (`noise.clip_norm`, `releases.1`) as that of the option or word that was typed.

    description: nested values of the fields.
    """
    above, _, name = fault.field.rpartition(".")
    if not name.isdigit():
        return Fault("--" + name.replace("_", "-"), fault.message)
    word = str(description[above][int(name)])
    # The fault's field is the word itself, so the message need not repeat it.
    return Fault(word, fault.message.removesuffix(f", got {word!r}"))
