"""Uploads of the wrong length."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack


def _not_zero(value: int) -> int:
    if value == 0:
        raise ValueError("must not be 0: an upload of the right length is no attack")
    return value


class WrongLength(Attack):
    """Uploads a vector whose length differs from the model's, which the server must reject. Source: ours."""

    kind: Literal["wrong_length"] = "wrong_length"
    logged: ClassVar[tuple[str, ...]] = ("events.rejected",)
    off_by: Annotated[int, AfterValidator(_not_zero), MeasuredIn("parameters")] = 1
    """Number of parameters too many (> 0) or too few (< 0)."""

    @property
    def length_error(self) -> int:
        return self.off_by
