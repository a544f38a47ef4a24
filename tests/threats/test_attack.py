"""The base class of attacks, and settings that attacks refuse; their common laws are in `tests/testing`."""

import pytest
from pydantic import TypeAdapter

from asyncfl.threats import AnyAttack

read = TypeAdapter(AnyAttack).validate_python


@pytest.mark.parametrize(
    "faulty",
    [
        {"kind": "no_such_attack"},
        {"kind": "sign_flip", "factor": 0},
        {"kind": "gaussian", "std": float("inf")},
        {"kind": "scaling", "factor": "big"},
        {"kind": "wrong_length", "off_by": 0},
        {"kind": "adaptive", "attack": {"kind": "ipm"}, "alignment": 2},
        {"kind": "adaptive"},
        {"kind": "combined", "attacks": []},
    ],
)
def test_invalid_settings_are_refused(faulty):
    with pytest.raises(ValueError, match="validation error"):
        read(faulty)
