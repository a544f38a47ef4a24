"""Questions about noise and bounds that need no run: the answers of `asyncfl privacy` and `asyncfl bounds`.

A question is a pydantic model whose faults are reported together; its answer is a plain dict.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.privacy.accounting.mechanism_events import MOST_RELEASES

Count = Annotated[int, Field(ge=1, le=MOST_RELEASES)]
"""Type of a field for a whole number >= 1."""


class Question(Described):
    """Base class of all questions: the fields are the question, `answer` computes the answer."""

    @abstractmethod
    def answer(self) -> dict[str, Any]:
        """Return numbers, sentences and tables (lists of equal dicts), ready for printing or JSON; None: does not
        exist."""
