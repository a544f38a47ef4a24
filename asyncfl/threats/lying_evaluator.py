"""Lying evaluator: false scores for the models of others.

A detector that lets a client score the buffer adds random models (decoys) as an audit. The attacker takes models with
an accuracy of at most `decoy_score` for decoys, whose accuracy is that of chance. It answers these truthfully, passes
the audit, and lies about the rest.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.arrays import Floats
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack


class LyingEvaluator(Attack):
    """Answers score requests by false scores; uploads honest updates. Source: ours, against SAFL."""

    kind: Literal["lying_evaluator"] = "lying_evaluator"
    lies: ClassVar[bool] = True
    answer: Literal["complement", "mirror"] = "complement"
    """`complement`: 1 - accuracy; `mirror`: lowest + highest - accuracy, which reverses the order and keeps
    the range."""
    decoy_score: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] | None = None
    """Accuracy up to which a model is taken for a decoy and scored truthfully, 0..1; null: all scores are false."""

    def lie(self, scores: Floats, random: np.random.Generator) -> Floats:
        about = np.ones(len(scores), dtype=bool) if self.decoy_score is None else scores > self.decoy_score
        answers = scores.copy()
        if about.any():
            turn = 1.0 if self.answer == "complement" else scores[about].min() + scores[about].max()
            answers[about] = turn - scores[about]
        return answers
