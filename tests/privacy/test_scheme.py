"""The base class of privacy schemes, the choice among them, and the cost of importing them."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.base.streams import Streams
from asyncfl.privacy import AdaptiveBudgets, AnyScheme, Contribution, GaussianUpload, Mechanisms, Nbafl, PrivacyContext
from asyncfl.privacy.scheme import Curious, coalition

READER = TypeAdapter(AnyScheme)


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(ValidationError, match="none, nbafl, local_gaussian"):
        READER.validate_python({"kind": "nbalf", "epsilon": 60})


GAUSSIAN = {"kind": "gaussian", "epsilon": 1.0}
LAPLACE = {"kind": "laplace", "epsilon": 2.0, "sensitivity_from": "from_l2"}
GRADIENTS = {"target": "gradient", "norm": 3.0}


@pytest.mark.parametrize(
    ("scheme", "proven"),
    [
        # 30 samples in batches of 8 are 4 steps per epoch; each of 8 steps moves two runs apart by 2 lr C = .6.
        (GaussianUpload(epsilon=6, clip_norm=3), 8 * 0.6),
        (GaussianUpload(epsilon=6, clip_norm=3, noise="epoch"), 4 * 0.6),
        (Mechanisms(client=GAUSSIAN, clip=GRADIENTS), 8 * 0.6),
        # A payload that is clipped to 3 moves by at most 6, in L1 by sqrt(25) times as much.
        (Mechanisms(client=GAUSSIAN, clip={"norm": 3.0}), 6.0),
        (Mechanisms(client=LAPLACE, clip={"norm": 3.0}), 30.0),
        (Nbafl(epsilon=60, clip_norm=3), 6.0),
        (AdaptiveBudgets(budgets=(4,), clip_norm=3, adjustment="none"), 6.0),
        # Nothing is proven if the clip norm or the budget depends on data.
        (Nbafl(epsilon=60), np.inf),
        (AdaptiveBudgets(budgets=(4,), clip_norm=3), np.inf),
    ],
)
def test_proven_sensitivity_of_an_upload(scheme, proven):
    context = PrivacyContext(5, 5, 20, 30, 2, batch_size=8, epochs=2, lr=0.1, n_parameters=25)
    assert scheme.proven_sensitivity(context, None, Contribution(0, 30)) == pytest.approx(proven)


READ: TypeAdapter[Any] = TypeAdapter(Curious)


@pytest.mark.parametrize("value", [1, 1.0, -0.1, True, [-1], [1.5], [True], "all", None])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="must be a share of the clients"):
        READ.validate_python(value)


def test_a_larger_share_adds_clients_to_a_smaller_one() -> None:
    streams = Streams(3)
    found = [coalition(share, 10, streams) for share in (0.0, 0.04, 0.06, 0.3, 0.9)]
    assert [len(one) for one in found] == [0, 0, 1, 3, 9]
    assert all(less <= more for less, more in pairwise(found))
    assert found[-1] <= set(range(10))
    assert coalition((2, 7), 10, streams) == {2, 7}
