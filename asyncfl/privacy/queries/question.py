"""What a question about noise or bounds is: a description whose faults are found together, and a plain answer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any

from pydantic import Field

from asyncfl.component import Described
from asyncfl.privacy.accounting.events import MOST_RELEASES

Count = Annotated[int, Field(ge=1, le=MOST_RELEASES)]
"""How many there are of something."""


class Question(Described):
    """Base of all questions."""

    @abstractmethod
    def answer(self) -> dict[str, Any]:
        """Numbers, sentences and tables (lists of equal dicts), ready to print or for JSON; None: does not exist."""
