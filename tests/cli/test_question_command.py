"""Commands made from a question: options, answers and faults."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from asyncfl.cli.question_command import question_command
from asyncfl.component import Described
from asyncfl.errors import ScenarioError
from asyncfl.privacy.queries.question import Question


class Noise(Described):
    """A part of the question."""

    clip_norm: float = Field(default=1.5, gt=0)
    """Largest norm [l2]."""


class Sum(Question):
    """Sum of numbers.

    A second paragraph.
    """

    words: tuple[Annotated[str, Field(pattern="^[1-9]$")], ...]
    """Numbers to add."""
    how: Literal["sum", "mean"] = "sum"
    """Way to combine them."""
    twice: bool = False
    """Whether each counts twice."""
    most: Annotated[int, Field(ge=1)] | None = None
    """Limit; null: none."""
    noise: Noise = Noise()
    """Noise to add."""

    def answer(self) -> dict[str, Any]:
        value = sum(map(int, self.words)) / (len(self.words) if self.how == "mean" else 1)
        return {"value": value * (2 if self.twice else 1), "most": self.most, "norm": self.noise.clip_norm}


@pytest.fixture
def run() -> Any:
    """Calls the command; answers that it prints are collected in `run.printed`."""
    app = typer.Typer()
    printed: list[Any] = []
    flags = {"largest": ("Print the largest too.", lambda question: max(question.words))}
    app.command()(
        question_command(
            Sum, "asyncfl sum", "Add.", "asyncfl sum 1 [3]", lambda question, answer: printed.append(answer), flags
        )
    )

    def call(*words: str) -> Any:
        return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})

    call.printed = printed  # type: ignore[attr-defined]
    return call


def test_the_help_describes_the_fields(run: Any) -> None:
    shown = " ".join(run("--help").output.split())
    assert "Add. A second paragraph. Example: asyncfl sum 1 [3]" in shown
    for text in (
        "Numbers to add. [required]",
        "sum|mean",
        "Limit; left out: none.",
        "Largest norm [l2]. [default: 1.5]",
    ):
        assert text in shown


def test_options_fill_the_fields_and_flags_extend_the_answer(run: Any) -> None:
    result = run("1", "5", "3", "--how", "mean", "--twice", "--largest", "--clip-norm", "0.5")
    assert (result.exit_code, result.output) == (0, "")
    assert run.printed == [{"value": 6.0, "most": None, "norm": 0.5, "largest": "5"}]
    assert json.loads(run("4", "2", "--most", "7", "--json").output) == {
        "question": {"words": ["4", "2"], "how": "sum", "twice": False, "most": 7, "noise": {"clip_norm": 1.5}},
        "answer": {"value": 6.0, "most": 7, "norm": 1.5},
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("1", "--clip-norm", "0"), "asyncfl sum: --clip-norm: must be greater than 0, got 0.0"),
        (("1", "0"), "asyncfl sum: 0: String should match pattern '^[1-9]$'"),
        (("1", "--how", "none"), "asyncfl sum: --how: must be 'sum' or 'mean', got 'none'"),
    ],
)
def test_faults_name_the_option_or_word(run: Any, words: tuple[str, ...], message: str) -> None:
    error = run(*words).exception
    assert isinstance(error, ScenarioError)
    assert str(error) == message
