"""The base class of privacy schemes, the choice among them, and the cost of importing them."""

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.privacy import (
    AdaptiveBudgets,
    AnyScheme,
    Contribution,
    GaussianUpload,
    Mechanisms,
    Nbafl,
    PrivacyContext,
)

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
