"""Options made from the fields of a question, and what a command does with them."""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any, Literal, get_args

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from asyncfl.cli.question_command import question_command
from asyncfl.component import Described
from asyncfl.errors import ScenarioError
from asyncfl.privacy.queries.question import Question


class Noise(Described):
    """What is added."""

    clip_norm: Annotated[float, Field(gt=0)] = 1.5
    """Largest norm [l2]."""


class Asked(Question):
    """How many there are.

    A second paragraph.
    """

    words: tuple[Annotated[str, Field(pattern="^[1-9]$")], ...]
    """Numbers to add."""
    how: Literal["sum", "mean"] = "sum"
    """How they are put together."""
    twice: bool = False
    """Whether each counts twice."""
    most: Annotated[int, Field(ge=1)] | None = None
    """Limit; null: none."""
    noise: Noise = Noise()
    """What is added."""

    def answer(self) -> dict[str, Any]:
        value = sum(map(int, self.words)) / (len(self.words) if self.how == "mean" else 1)
        return {"value": value * (2 if self.twice else 1), "most": self.most, "norm": self.noise.clip_norm}


def _command(shown: list[Any]) -> Any:
    more = {
        "largest": ("The largest of them.", lambda asked: max(asked.words)),
        "first": ("The first.", lambda asked: asked.words[0]),
    }
    return question_command(
        Asked, "asyncfl ask", "Ask.", "asyncfl ask 1 2 [3]", lambda made, told: shown.append((made, told)), more
    )


def test_options_are_the_fields_of_the_question_and_of_what_it_holds() -> None:
    call = _command([])
    parameters = inspect.signature(call).parameters.values()
    required = inspect.Parameter.empty
    assert [(one.name, one.default) for one in parameters] == [
        ("words", required), ("how", "sum"), ("twice", False), ("most", None), ("clip_norm", 1.5),
        ("largest", False), ("first", False), ("json", False),
    ]  # fmt: skip
    assert {one.kind for one in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    about = {one.name: get_args(one.annotation) for one in parameters}
    kinds = {name: kind for name, (kind, _) in about.items()}
    assert kinds == {
        "words": list[str], "how": str, "twice": bool, "most": int | None, "clip_norm": float,
        "largest": bool, "first": bool, "json": bool,
    }  # fmt: skip
    helps = {name: option.help for name, (_, option) in about.items()}
    assert helps == {
        "words": "Numbers to add.", "how": "How they are put together.", "twice": "Whether each counts twice.",
        "most": "Limit; left out: none.", "clip_norm": r"Largest norm \[l2].", "largest": "The largest of them.",
        "first": "The first.", "json": "Print JSON.",
    }  # fmt: skip
    assert (about["how"][1].metavar, about["how"][1].autocompletion()) == ("sum|mean", ["sum", "mean"])
    flags = [about[name][1].default for name in ("twice", "largest", "first", "json")]
    assert flags == ["--twice", "--largest", "--first", "--json"]
    assert call.__doc__ == "Ask.\n\nA second paragraph.\n\nExample: asyncfl ask 1 2 [3]"


def test_the_answer_is_shown_or_told_as_json_with_what_flags_add() -> None:
    shown: list[Any] = []
    app = typer.Typer()
    app.command()(_command(shown))

    def run(*words: str) -> Any:
        return CliRunner().invoke(app, list(words))

    result = run("1", "5", "3", "--how", "mean", "--twice", "--largest", "--clip-norm", "0.5")
    assert (result.exit_code, result.output) == (0, "")
    ((made, told),) = shown
    assert made == Asked(words=("1", "5", "3"), how="mean", twice=True, noise=Noise(clip_norm=0.5))
    assert told == {"value": 6.0, "most": None, "norm": 0.5, "largest": "5"}
    told = json.loads(run("4", "2", "--most", "7", "--first", "--json").output)
    assert told == {
        "question": {"words": ["4", "2"], "how": "sum", "twice": False, "most": 7, "noise": {"clip_norm": 1.5}},
        "answer": {"value": 6.0, "most": 7, "norm": 1.5},
        "first": "4",
    }
    assert len(shown) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("1", "--clip-norm", "0"), "asyncfl ask: --clip-norm: must be greater than 0, got 0.0"),
        (("1", "0"), "asyncfl ask: 0: String should match pattern '^[1-9]$'"),
        (("1", "--how", "none"), "asyncfl ask: --how: must be 'sum' or 'mean', got 'none'"),
    ],
)
def test_faults_are_those_of_what_was_typed(words: tuple[str, ...], message: str) -> None:
    app = typer.Typer()
    app.command()(_command([]))
    raised = CliRunner().invoke(app, list(words)).exception
    assert isinstance(raised, ScenarioError)
    assert str(raised) == message
