"""Exact epsilon between two given distributions: releases whose means and noise are known for both data sets.

For N(u, s^2 I) and N(u', s'^2 I) in d dimensions, with the privacy loss L = ln p/p' under the first data set and rho =
1 - s^2/s'^2 (Gil, Alajaji, Linder 2013, Renyi divergences of Gaussians),

    K(z) = ln E e^(z L) = -d/2 (z ln(1 - rho) + ln(1 + z rho)) + z (1 + z) |u - u'|^2 / (2 s'^2 (1 + z rho))

For Laplace noise of scale b in both, per coordinate with a = |u_i - u'_i|/b,

    K(z) = ln(((1 + z) e^(z a) + z e^(-(1 + z) a)) / (1 + 2 z))

K of independent releases add up, and for any c > 0 where K is finite

    delta(epsilon) = 1/(2 pi i) int_(c - i oo)^(c + i oo) e^(K(z) - z epsilon) / (z (1 + z)) dz

With c at the saddle point the trapezoidal rule is exact to rounding however small delta is (Alghamdi et al. 2023, The
Saddle-Point Method in Differential Privacy). Either data set may come first; the larger delta counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.gaussian import Floats, exact_epsilon
from asyncfl.privacy.accounting.root_finding import brent_root

FINENESS = 8  # points of the trapezoidal rule per width of the saddle
BLOCK, MOST_POINTS = 128, 2**18  # points summed first (then as many again), and the limit
NEGLIGIBLE = 1e-13  # share of the sum at which the summation ends
_SERIES = 0.02  # largest |x| for which ln(1 + x) - x is summed as a series

BINS = 10.0 ** np.arange(-12, 4.001, 1 / 40)
"""Lower limits of the classes of Laplace shifts; each shift counts as its lower limit, so none is overstated."""


GaussianPair = tuple[float, float, float, float]
"""Release with Gaussian noise under both data sets: number of coordinates, |u - u'|^2, s, s'."""


def differ(pairs: Iterable[GaussianPair]) -> bool:
    """Return whether the two distributions of any of the releases differ."""
    return any(squared > 0 or (d > 0 and std != other) for d, squared, std, other in pairs)


def laplace_shift_counts(difference: NDArray[np.floating], scale: float) -> NDArray[np.int64]:
    """Count the coordinates of u - u' (d,) in each class of shifts |u_i - u'_i|/scale; (len(BINS),)."""
    shifts = np.abs(np.asarray(difference, dtype=np.float64)) / scale
    return np.bincount(np.searchsorted(BINS, shifts, side="right"), minlength=len(BINS) + 1)[1:].astype(np.int64)


def epsilon_of_pairs(pairs: Iterable[GaussianPair], delta: float, laplace: NDArray[np.int64] | None = None) -> float:
    """Return the smallest epsilon for which the two data sets are (epsilon, delta)-indistinguishable; infinite if
    something was released that only one of them could release.

    `delta` 0..1, exclusive; `laplace`: `laplace_shift_counts`, summed over the releases; None: no Laplace noise.
    """
    seen = np.array([pair for pair in pairs if differ([pair])], dtype=np.float64).reshape(-1, 4)
    _, squared, std, other = seen.T
    if not (std.all() and other.all()):
        return math.inf
    laplace = laplace if laplace is not None and laplace.any() else None
    alike = bool((std == other).all())
    if laplace is None and alike:
        return float(exact_epsilon(float((squared / std**2).sum()), delta))
    return max(_Loss(way, laplace).epsilon(delta) for way in ([seen] if alike else [seen, seen[:, [0, 1, 3, 2]]]))


class _Loss:
    """Distribution of the privacy loss, given by its cumulants."""

    def __init__(self, seen: Floats, laplace: NDArray[np.int64] | None) -> None:
        """`seen`: (n, 4) rows of `GaussianPair`."""
        # If the standard deviations are equal, only the distances count, and they add up.
        dimensions, squared, stds, others = seen.T
        alike = stds == others
        spreads, where = np.unique((stds + 1j * others)[~alike], return_inverse=True)
        std, other = spreads.real, spreads.imag
        of_alike = float((squared[alike] / (2 * stds[alike] ** 2)).sum())
        half_b = np.bincount(where, squared[~alike], len(spreads)) / (2 * other**2)
        self.half_d = np.append(np.bincount(where, dimensions[~alike], len(spreads)) / 2, 0.0)
        self.half_b = np.append(half_b, of_alike)
        self.rho = np.append((other - std) * (other + std) / other**2, 0.0)
        self.rest = _log1p_rest(-self.rho)
        self.shifts = np.empty(0)
        self.counts = np.empty(0)
        if laplace is not None:
            self.shifts, self.counts = BINS[laplace > 0], laplace[laplace > 0].astype(np.float64)
        least = float(self.rho.min(initial=0.0))
        self.end = -1 / least if least < 0 else math.inf  # K is finite below
        self.most = math.inf  # no loss is larger
        if not ((self.rho < 0) | ((self.rho == 0) & (self.half_b > 0))).any():
            spread = self.rho > 0
            wider = self.half_b[spread] / self.rho[spread] - self.half_d[spread] * np.log1p(-self.rho[spread])
            self.most = float(wider.sum() + (self.counts * self.shifts).sum())

    def cumulant(self, z: Any) -> Any:
        """Return K at each of `z` (m,), complex or real."""
        z = np.asarray(z)[:, None]
        scaled = z * self.rho
        spread = -self.half_d * (z * self.rest + _log1p_rest(scaled))
        total = (spread + z * (1 + z) * self.half_b / (1 + scaled)).sum(1)
        if len(self.shifts):
            a = self.shifts
            mixed = np.log1p(z * np.expm1(-(1 + 2 * z) * a) / (1 + 2 * z))
            total = total + (self.counts * (z * a + mixed)).sum(1)
        return total

    def slope(self, z: float) -> float:
        """Return K' at a real `z`."""
        rho, below = self.rho, 1 + z * self.rho
        # log1p(-rho) + rho/(1 + z rho), without what cancels.
        spread = -self.half_d * (self.rest - z * rho**2 / below)
        bend = self.half_b * ((1 + 2 * z) * below - z * (1 + z) * rho) / below**2
        total = float((spread + bend).sum())
        if len(self.shifts):
            a, far = self.shifts, np.exp(-(1 + 2 * z) * self.shifts)
            inner = (1 + z) + z * far
            part = a + (1 + far - 2 * z * a * far) / inner - 2 / (1 + 2 * z)
            total += float((self.counts * part).sum())
        return total

    def _saddle(self, epsilon: float) -> tuple[float, float]:
        """Return the minimum of K(z) - z epsilon - ln z - ln(1 + z), and its width."""

        def falls(z: float) -> float:
            return self.slope(z) - epsilon - 1 / z - 1 / (1 + z)

        low = high = 1.0 if self.end > 2 else self.end / 2
        while falls(low) > 0:
            low /= 2
        while falls(high) < 0:
            low, high = high, (2 * high if self.end == math.inf else (high + self.end) / 2)
        # Any line gives the same integral: the saddle need not be met exactly.
        z = low if low == high else brent_root(falls, low, high, 0.01 * low, 0.01)
        step = 1e-4 * min(z, self.end - z)
        curvature = (falls(z + step) - falls(z - step)) / (2 * step)
        return z, 1 / math.sqrt(curvature)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return ln delta at `epsilon`, and its rate of decrease."""
        if epsilon >= self.most:
            return -math.inf, math.inf
        z, width = self._saddle(epsilon)
        step = width / FINENESS
        top = float(self.cumulant(np.array([z]))[0]) - z * epsilon - math.log(z * (1 + z))
        total = slope = 0.0
        start, size = 0, BLOCK
        while start < MOST_POINTS:
            line = z + 1j * step * np.arange(start, start + size)
            values = np.exp(self.cumulant(line) - line * epsilon - np.log(line) - np.log(1 + line) - top)
            if start == 0:
                values[0] /= 2
            total += values.real.sum()
            slope += (values * line).real.sum()
            if np.abs(values[-1]) * size < NEGLIGIBLE * total:
                break
            start, size = start + size, start + size
        return top + math.log(total * step / math.pi), slope / total

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 for `delta`."""
        target = math.log(delta)
        mean, step = self.slope(0.0), 1e-3 * min(1.0, self.end)
        spread = math.sqrt(max(self.slope(step) - mean, 0.0) / step)
        # ln delta is concave in epsilon: Newton's steps come down from above, but for the first.
        low, high = 0.0, self.most
        at = mean + spread * math.sqrt(-2 * target)
        if not at < high:
            at = high / 2
        for _ in range(200):
            value, rate = self.log_delta(at)
            low, high = (at, high) if value > target else (low, at)
            following = at + (value - target) / rate
            if abs(following - at) <= 1e-8 * at:
                return max(following, 0.0)
            if following <= 0 and self.log_delta(0.0)[0] <= target:
                return 0.0  # delta alone is enough
            at = following if low < following < high else (low + min(high, 2 * low + 1)) / 2
        return at


def _log1p_rest(x: Any) -> Any:
    """Return ln(1 + x) - x, to full precision also for small x."""
    x = np.asarray(x)
    small = np.abs(x) < _SERIES
    series = np.where(small, x, 0)
    rest = np.zeros_like(series)
    for power in range(10, 1, -1):
        rest = (-1) ** (power + 1) / power + rest * series
    return np.where(small, rest * series**2, np.log1p(np.where(small, 0, x)) - x)
