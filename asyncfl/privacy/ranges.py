"""Number types for fields: positive floats whose square neither under- nor overflows."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import AfterValidator, Field

LEAST, MOST = 1e-100, 1e100
"""Smallest and largest number in a field."""


def within(least: float, most: float, infinite: bool = False, zero: bool = False) -> AfterValidator:
    """Validate that a number is in least..most, or infinite or zero where these stand for no noise."""
    others = ", or .inf" * infinite + ", or 0" * zero

    def check(value: float) -> float:
        if least <= value <= most or (infinite and math.isinf(value)) or (zero and value == 0):
            return value
        raise ValueError(f"must be {least:g}..{most:g}{others}")

    return AfterValidator(check)


Budget = Annotated[float, Field(gt=0), within(LEAST, MOST, infinite=True)]
"""An epsilon; infinite: no noise."""
Delta = Annotated[float, Field(gt=0, lt=1), within(LEAST, 1)]
"""Probability that a privacy guarantee fails, 0..1, exclusive."""
Factor = Annotated[float, Field(gt=0, allow_inf_nan=False), within(LEAST, MOST)]
"""A noise multiplier, a clip norm, or a factor on a noise multiplier."""
