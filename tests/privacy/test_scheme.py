"""Privacy schemes: the choice among them, what all have in common, and the ends of their ranges."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.base.errors import Fault
from asyncfl.base.streams import Streams
from asyncfl.privacy import AdaptiveBudgets, AnyScheme, Contribution, GaussianUpload, Mechanisms, Nbafl, PrivacyContext
from asyncfl.privacy.exposures import Exposures, MeasuredExposures, ShareExposures, exposure_faults
from asyncfl.privacy.ledger.rows import ledger
from asyncfl.privacy.ranges import Budget, Delta, Factor
from asyncfl.privacy.scheme import Curious, coalition
from tests.privacy.planned import model_accounts, models_of, upload_accounts, uploads_of

READER = TypeAdapter(AnyScheme)


GAUSSIAN = {"kind": "gaussian", "epsilon": 1.0}
PLAIN_LAPLACE = {"kind": "laplace", "epsilon": 1}
LAPLACE = {"kind": "laplace", "epsilon": 2.0, "sensitivity_from": "from_l2"}
GRADIENTS = {"target": "gradient", "norm": 3.0}


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("nbalf", {"epsilon": 60}, "none, nbafl, local_gaussian"),
        ("dp_fedavg", {"noise_multiplier": 1, "neighbours": "all"}, "'replace' or 'zero_out'"),
        ("dp_fedavg", {"noise_multiplier": 4, "adaptive": {"fraction_noise": 2}}, r"half the noise .* \(2\), got 2"),
        ("dp_sgd", {}, "either noise_multiplier or epsilon, got neither"),
        ("dp_sgd", {"noise_multiplier": 1, "epsilon": 1}, "either noise_multiplier or epsilon, got both"),
        ("mechanisms", {}, "client or server must be given"),
        ("mechanisms", {"client": {**PLAIN_LAPLACE, "composition": "rdp"}}, "needs delta > 0, got 0"),
        ("mechanisms", {"client": {**GAUSSIAN, "calibration": "classical", "composition": "rdp"}}, "has no meaning"),
        ("mechanisms", {"client": PLAIN_LAPLACE, "clip": {"order": 2}}, "needs clip.order 1, got 2"),
        ("mechanisms", {"client": PLAIN_LAPLACE, "clip": {"target": "gradient"}}, "use clip.target: update or"),
        ("mechanisms", {"client": GAUSSIAN, "clip": {"target": "gradient", "order": 1}}, "clipped in L2"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(kind, fields, said):
    with pytest.raises(ValidationError, match=said):
        READER.validate_python({"kind": kind, **fields})


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


def assumed_exposures(rule, rounds, participants, clients):
    scheme = Nbafl.model_construct(epsilon=60.0, exposures=rule)
    return scheme.assumed_exposures(rounds, participants, clients)


@pytest.mark.parametrize(("rounds", "expected"), [(5, 1), (10, 2), (14, 3), (15, 3), (25, 5), (30, 6)])
def test_a_share_of_the_rounds_is_rounded_up(rounds, expected):
    assert assumed_exposures(ShareExposures(share=0.2), rounds, 50, 50) == expected


@pytest.mark.parametrize(("participants", "expected"), [(10, 1), (20, 2), (25, 3), (40, 4), (50, 5)])
def test_a_share_of_the_participations_is_rounded_up(participants, expected):
    share = ShareExposures(share=0.2, of="participations")
    assert assumed_exposures(share, 25, participants, 50) == expected


def test_more_exposures_than_rounds_are_a_fault():
    (fault,) = exposure_faults(assumed_exposures(30, 25, 50, 50), 25)
    message = "must be 0..rounds (25), got 30; lower privacy.exposures or raise protocol.rounds"
    assert fault == Fault("exposures", message)
    assert list(exposure_faults(25, 25)) == list(exposure_faults(MeasuredExposures(), 0)) == []


def test_a_user_defined_rule_may_return_a_number_or_defer():
    class Own(Exposures):
        kind: str = "own"
        uploads: int | None = None

        def number(self, rounds, participants, clients):
            return self.uploads

    assert assumed_exposures(Own(uploads=0), 25, 5, 10) == 0
    assert assumed_exposures(Own(uploads=26), 25, 5, 10) == 26
    assert assumed_exposures(Own(), 25, 5, 10) == MeasuredExposures()
    (fault,) = exposure_faults(-1, 25)
    assert fault.message.startswith("must be 0..rounds (25), got -1;")
    assert list(exposure_faults(0, 25)) == []


CONTEXT = PrivacyContext(clients=4, participants=2, rounds=5, smallest_samples=40, exposures=1, epochs=2)
SAMPLES = np.full(4, 40)


@pytest.mark.parametrize(
    ("annotation", "allowed", "said"),
    [
        (Budget, (1e-100, 6.0, 1e100, math.inf), r"must be 1e-100\.\.1e\+100, or \.inf"),
        (Factor, (1e-100, 1.0, 1e100), r"must be 1e-100\.\.1e\+100"),
        (Delta, (1e-100, 1e-5, 0.99), r"must be 1e-100\.\.1"),
    ],
)
def test_numbers_whose_square_over_or_underflows_are_refused(annotation, allowed, said):
    field = TypeAdapter(annotation)
    assert [field.validate_python(value) for value in allowed] == list(allowed)
    for value in (1e-200, 1e-320):
        with pytest.raises(ValidationError, match=said):
            field.validate_python(value)
    for value in (0, -1):
        with pytest.raises(ValidationError, match="greater than 0"):
            field.validate_python(value)
    with pytest.raises(ValidationError):
        field.validate_python(math.nan)
    with pytest.raises(ValidationError, match=said if annotation is not Delta else "less than 1"):
        field.validate_python(1e200)


@pytest.mark.parametrize("extreme", [1e-100, 1e100])
@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "nbafl", "field": "epsilon"},
        {"kind": "nbafl", "field": "epsilon", "b_rule": "amplification"},
        {"kind": "nbafl", "field": "constant", "epsilon": 1},
        {"kind": "nbafl", "field": "clip_norm", "epsilon": 1},
        {"kind": "local_gaussian", "field": "epsilon", "noise": "epoch"},
        {"kind": "dp_fedavg", "field": "noise_multiplier"},
        {"kind": "dp_sgd", "field": "noise_multiplier"},
        {"kind": "dp_sgd", "field": "epsilon"},
        {"kind": "mechanisms", "field": "client", "mechanism": {"kind": "gaussian", "composition": "advanced"}},
        {"kind": "mechanisms", "field": "client", "mechanism": {"kind": "laplace"}},
    ],
)
def test_ledger_is_valid_at_the_ends_of_the_ranges(fields, extreme):
    others = {name: value for name, value in fields.items() if name not in ("field", "mechanism")}
    value = {**fields["mechanism"], "epsilon": extreme} if "mechanism" in fields else extreme
    scheme = TypeAdapter(AnyScheme).validate_python({**others, fields["field"]: value})
    clip_norm = scheme.start(CONTEXT).clip_norm(np.ones(2))
    uploads = {"server": uploads_of(scheme, CONTEXT, SAMPLES, [0, 1, 2, 5], clip_norm)}
    models = {"server": models_of(scheme, CONTEXT, [2, 2], clip_norm)}
    accounts = upload_accounts(scheme, CONTEXT, uploads), model_accounts(scheme, CONTEXT, models)
    found = ledger(scheme, CONTEXT, SAMPLES, *accounts, clip_norm)
    assert scheme.notes(CONTEXT) is not None
    for name in ("basic", "advanced", "rdp", "exact"):
        column = found[f"{name}_epsilon"]
        assert column[0] == 0
        assert (column >= 0).all(), "no NaN either"
