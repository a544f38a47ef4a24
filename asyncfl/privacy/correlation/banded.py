"""Banded Toeplitz factorisations: the noise of a version takes back part of that of the last b - 1 versions."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.arrays import Floats
from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.correlation.encoder import Encoder
from asyncfl.privacy.correlation.factorisation import Draw, Factorisation
from asyncfl.privacy.correlation.streaming_matrix import inverse_of_banded
from asyncfl.privacy.correlation.toeplitz import (
    inverse_coefficients,
    optimal_coefficients,
    sensitivity,
    square_root_coefficients,
)

Coefficients = Literal["optimal", "square_root"]


@lru_cache(maxsize=64)
def _coefficients(kind: Coefficients, bands: int, versions: int) -> Floats:
    if kind == "optimal":
        return optimal_coefficients(bands, versions)
    return square_root_coefficients(min(bands, versions))


@lru_cache(maxsize=64)
def _stds(kind: Coefficients, bands: int, versions: int) -> Floats:
    inverse = inverse_coefficients(_coefficients(kind, bands, versions), versions)
    return np.asarray(np.sqrt(np.cumsum(np.square(inverse))))


@lru_cache(maxsize=16)
def _encoder(kind: Coefficients, bands: int, versions: int) -> Encoder:
    coefficients = _coefficients(kind, bands, versions)
    version = np.repeat(np.arange(1, versions + 1), len(coefficients))
    below = np.tile(np.arange(len(coefficients)), versions)
    row = version - 1 + below
    kept = (row < versions) & (coefficients[below] > 0)
    return Encoder(row[kept], version[kept], coefficients[below][kept], np.arange(1, versions + 1))


class Banded(Factorisation):
    """Noise by a banded Toeplitz matrix C: memory of one vector per band.

    Source: Choquette-Choo et al. 2023 ((Amplified) Banded Matrix Factorization), restricted to Toeplitz matrices as by
    McKenna 2024 (Scaling up the Banded Matrix Factorization Mechanism).
    """

    kind: Literal["banded"] = "banded"
    bands: Annotated[int, Field(ge=1, le=1000, examples=[8]), MeasuredIn("versions")]
    """b: versions over which noise is correlated; 1: independent noise. The best is about `protocol.min_separation`,
    with which a client's updates are hidden as if they were alone."""
    coefficients: Coefficients = "optimal"
    """Entries of C below its diagonal: `optimal`, of the least mean squared error of the models over all versions,
    found by a quasi-Newton method; or `square_root`, the closed form 1, 1/2, 3/8, ... near it (Kalinin and Lampert
    2024)."""

    @property
    def most_versions(self) -> int:
        return min(100_000, 4_000_000 // self.bands)

    def start(self, versions: int) -> Any:
        return _coefficients(self.coefficients, self.bands, versions), ()

    def next(self, state: Any, draw: Draw) -> tuple[NDArray[np.floating], Any]:
        coefficients, last = state
        noise, last = inverse_of_banded(coefficients).next(last, draw())
        return noise, (coefficients, last)

    def std(self, version: int, versions: int) -> float:
        return float(_stds(self.coefficients, self.bands, versions)[version - 1])

    def encoder(self, versions: int) -> Encoder:
        return _encoder(self.coefficients, self.bands, versions)

    def sensitivity(self, versions: int, participations: int, separation: int) -> float:
        return sensitivity(_coefficients(self.coefficients, self.bands, versions), versions, participations, separation)

    def separate_columns(self, separation: int) -> bool:
        return self.bands <= separation
