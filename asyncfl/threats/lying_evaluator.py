"""Lying evaluator: wrong scores for others' models.

A detector that scores the buffer at a client mixes in random models (decoys) to audit it. Scores at or below
`decoy_score` are taken for decoys, whose accuracy is that of chance; a liar that answers these truthfully passes the
audit and lies about the rest.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.quantities import MeasuredIn
from asyncfl.threats.attack import Attack


class LyingEvaluator(Attack):
    """Answers false scores when it is asked to evaluate models; uploads honest updates. Source: ours, against SAFL."""

    kind: Literal["lying_evaluator"] = "lying_evaluator"
    answer: Literal["complement", "mirror"] = "complement"
    """`complement`: 1 - accuracy; `mirror`: lowest + highest - accuracy of those lied about, so that the order turns
    round and the range stays."""
    decoy_score: Annotated[float, Field(ge=0, lt=1), MeasuredIn("share")] | None = None
    """Accuracy up to which a model is taken for a decoy and answered truthfully, 0..1; null: lies about all."""

    @property
    def lies(self) -> bool:
        return True

    def lie(self, scores: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
        """The false scores, 0..1."""
        about = np.ones(len(scores), dtype=bool) if self.decoy_score is None else scores > self.decoy_score
        answers = scores.copy()
        if about.any():
            turn = 1.0 if self.answer == "complement" else scores[about].min() + scores[about].max()
            answers[about] = turn - scores[about]
        return answers
