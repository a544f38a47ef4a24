"""Commands that ask a question: its fields are their options, and its faults are told in the words of the command."""

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

from asyncfl.cli.output import print_json
from asyncfl.description import faults_of
from asyncfl.errors import Fault, ScenarioError
from asyncfl.field_texts import text_of
from asyncfl.privacy.queries.question import Question

Q = TypeVar("Q", bound=Question)

Show = Callable[[Q, dict[str, Any]], None]
"""Prints the answer to a question for reading."""

JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def question_command(
    question: type[Q],
    command: str,
    summary: str,
    example: str,
    show: Show[Q],
    more: dict[str, tuple[str, Callable[[Q], Any]]],
) -> Callable[..., None]:
    """A function for typer whose options are the fields of `question`, and of the models among them.

    command: its name in messages; summary: the first line of its help; example: a line of its use. more: name -> help
    and what is told beside the answer,
    for flags of the command's own.
    """

    def call(**given: Any) -> None:
        json = given.pop("json")
        flags = [name for name in more if given.pop(name)]
        asked = _description(question, given)
        made = build_question(question, asked, command)
        extra = {name: more[name][1](made) for name in flags}
        answer = made.answer()
        if json:
            print_json({"question": asked, "answer": answer} | extra)
        else:
            show(made, answer | extra)

    _, *details = (inspect.getdoc(question) or "").split("\n\n")
    flags = [_flag(name, text) for name, (text, _) in more.items()]
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*_parameters(question), *flags, inspect.Parameter("json", _NAMED, default=False, annotation=JSON)]
    )
    call.__annotations__ = {}
    call.__doc__ = "\n\n".join([summary, *details, f"Example: {escape(example)}"])
    return call


_NAMED = inspect.Parameter.KEYWORD_ONLY


def _flag(name: str, text: str) -> inspect.Parameter:
    return inspect.Parameter(
        name, _NAMED, default=False, annotation=Annotated[bool, typer.Option(f"--{name}", help=text)]
    )


def _parameters(model: type[BaseModel]) -> Iterator[inspect.Parameter]:
    for name, field in model.model_fields.items():
        if _is_model(field.annotation):
            yield from _parameters(field.annotation)  # type: ignore[arg-type]
            continue
        default = inspect.Parameter.empty if field.is_required() else field.default
        yield inspect.Parameter(name, _NAMED, default=default, annotation=_option(model, name))


def _option(model: type[BaseModel], name: str) -> Any:
    """What typer is told of a field. Of ranges and choices it knows nothing: the model tells all faults together."""
    text = escape(text_of(model, name).replace("null:", "left out:"))
    kind = _plain(model.model_fields[name].annotation)
    if get_origin(kind) is tuple:
        return Annotated[list[str], typer.Argument(help=text)]
    if get_origin(kind) is Literal:
        choices = [str(word) for word in get_args(kind)]
        return Annotated[str, typer.Option(help=text, metavar="|".join(choices), autocompletion=lambda: choices)]
    if kind is bool:
        return Annotated[bool, typer.Option(f"--{name.replace('_', '-')}", help=text)]
    return Annotated[kind, typer.Option(help=text)]


def _plain(annotation: Any) -> Any:
    """An annotation without the ranges in it."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, map(_plain, get_args(annotation)))
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _description(model: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    """The values of options, as the model nests them."""
    return {
        name: _description(field.annotation, given) if _is_model(field.annotation) else given[name]  # type: ignore[arg-type]
        for name, field in model.model_fields.items()
    }


def build_question(model: type[Q], description: dict[str, Any], command: str) -> Q:
    """`model` with these values.

    Raises ScenarioError that names the options (`--clip-norm`) at fault, and words of a list by themselves.
    """
    try:
        return model.model_validate(description)
    except ValidationError as error:
        faults = [_as_typed(fault, description) for fault in faults_of(error, model, description)]
        raise ScenarioError(faults, command) from None


def _as_typed(fault: Fault, description: dict[str, Any]) -> Fault:
    """A fault of a field (`noise.clip_norm`, `releases.1`) as one of what stood in the command."""
    above, _, name = fault.field.rpartition(".")
    if not name.isdigit():
        return Fault("--" + name.replace("_", "-"), fault.message)
    word = str(description[above][int(name)])
    # The fault's name says already what came.
    return Fault(word, fault.message.removesuffix(f", got {word!r}"))
