"""Views of attackers on tiny arrays."""

import numpy as np
import pytest

from asyncfl.testing import view

ROWS = [[1.0, 2.0, -3.0, 0.5], [2.0, 0.0, -1.0, 0.25], [0.0, 1.0, -2.0, 4.0], [3.5, -2.0, 0.0, -1.0]]


@pytest.fixture
def make_view():
    """Return a builder of attackers' views; `others`: honest updates of the buffer. All arrays are read-only."""

    def build(honest=ROWS, others=(), bases=None, current=1.0, **more):
        bases = np.tile(np.arange(np.shape(honest)[1]), (len(honest), 1)) if bases is None else bases
        return view(honest, others, bases=bases, current=current, **more)

    return build
