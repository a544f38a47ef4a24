"""Non-finite uploads: NaN or infinity in place of parameters."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from asyncfl.base.messages import Vector
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
        """Return the honest updates with the same `share` of parameters replaced by `value` in each."""
        uploads = view.honest.copy()
        n_parameters = uploads.shape[1]
        count = max(1, round(self.share * n_parameters))
        uploads[:, np.arange(count) * n_parameters // count] = float(self.value)
        return uploads
