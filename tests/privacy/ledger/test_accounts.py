"""Noise multipliers of releases."""

from __future__ import annotations

import numpy as np
import pytest

from asyncfl.privacy.release import Release


def test_multiplier_is_noise_scale_over_sensitivity():
    for distribution, std, sensitivity, multiplier in (
        ("gaussian", 3.0, 2.0, 1.5),
        ("laplace", 3.0, 2.0, 1.5 / 2**0.5),
        ("gaussian", 3.0, np.inf, 0.0),
        ("gaussian", 3.0, 0.0, np.inf),
        ("laplace", 0.0, 0.0, np.inf),
    ):
        release = Release(distribution, std, sensitivity, 1, "replace", "proven", 1.0, 0.0)
        assert release.multiplier == pytest.approx(multiplier)
