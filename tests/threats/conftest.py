"""Views of attackers on tiny arrays."""

import numpy as np
import pytest

from asyncfl.threats import AttackView

ROWS = [[1.0, 2.0, -3.0, 0.5], [2.0, 0.0, -1.0, 0.25], [0.0, 1.0, -2.0, 4.0], [3.5, -2.0, 0.0, -1.0]]


def frozen(values):
    array = np.array(values, dtype=np.float32)
    array.flags.writeable = False
    return array


@pytest.fixture
def make_view():
    """Return a builder of attackers' views; `others`: honest updates of the buffer. All arrays are read-only."""

    def build(honest=ROWS, others=(), bases=None, current=None, seed=0, collected=None):
        honest = frozen(honest)
        width = honest.shape[1]
        known = frozen(np.reshape(others, (-1, width)))
        return AttackView(
            honest=honest,
            known=known,
            bases=frozen(np.tile(np.arange(width), (len(honest), 1)) if bases is None else bases),
            current=frozen(np.ones(width) if current is None else current),
            collected=len(honest) + len(known) if collected is None else collected,
            version=3,
            randoms=tuple(np.random.default_rng([seed, row]) for row in range(len(honest))),
        )

    return build
