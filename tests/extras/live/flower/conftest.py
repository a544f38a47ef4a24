from collections.abc import Iterator

import pytest

from tests.extras.live.flower.grid import stand_in


@pytest.fixture
def flwr() -> Iterator[None]:
    """A package that has what we take of Flower."""
    with stand_in():
        yield
