"""Numbers that are too small or too large, and the ends of the allowed ranges."""

import math

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from asyncfl.privacy import AnyScheme, PrivacyContext
from asyncfl.privacy.ledger.rows import ledger
from asyncfl.privacy.ranges import Budget, Delta, Factor
from tests.privacy.planned import model_accounts, models_of, upload_accounts, uploads_of

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
