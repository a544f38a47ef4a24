"""What a question about noise or bounds is: a description whose faults are found together, and a plain answer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from asyncfl.component import Described


class Question(Described):
    """Base of all questions."""

    @abstractmethod
    def answer(self) -> dict[str, Any]:
        """Numbers, sentences and tables (lists of equal dicts), ready to print or for JSON; None: does not exist."""
