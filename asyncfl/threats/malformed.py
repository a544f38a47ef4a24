"""Malformed uploads: NaN or infinity in place of parameters, or a wrong length."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from asyncfl.base.arrays import Vector
from asyncfl.base.quantities import MeasuredIn
from asyncfl.threats.attack import Attack, AttackView


class NonFinite(Attack):
    """Uploads its honest update with some parameters replaced by values that are not finite. Source: ours."""

    kind: Literal["non_finite"] = "non_finite"
    logged: ClassVar[tuple[str, ...]] = ("events.rejected",)
    value: Literal["nan", "inf", "-inf"] = "nan"
    """Value of these parameters."""
    share: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 1.0
    """Share of the parameters to replace, at least one, evenly spaced; 0 exclusive..1."""

    def craft(self, view: AttackView) -> Vector:
        uploads = view.honest.copy()
        n_parameters = uploads.shape[1]
        count = max(1, round(self.share * n_parameters))
        uploads[:, np.arange(count) * n_parameters // count] = float(self.value)
        return uploads


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
