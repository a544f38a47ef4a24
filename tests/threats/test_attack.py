"""The base class of attacks, and settings that attacks refuse; their common laws are in `tests/testing`."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from asyncfl.threats import AnyAttack, Attack

read = TypeAdapter(AnyAttack).validate_python


def test_base_attack_is_honest(make_view):
    attack, view = Attack(), make_view()
    images, labels = np.zeros((2, 1, 3, 3), np.float32), np.array([0, 1])
    assert attack.poison(images, labels, 10, np.random.default_rng(0))[1] is labels
    assert attack.craft(view) is None
    assert (attack.rate, attack.length_error, attack.lies, attack.target) == (1.0, 0, False, None)
    assert attack.triggered(images) is None
    assert attack.sees == "own"
    assert list(attack.faults(10, (1, 28, 28))) == []
    assert view.attackers == 4


@pytest.mark.parametrize(
    "faulty",
    [
        {"kind": "no_such_attack"},
        {"kind": "sign_flip", "factor": 0},
        {"kind": "sign_flip", "of": "gradient"},
        {"kind": "gaussian", "std": -1},
        {"kind": "gaussian", "std": float("inf")},
        {"kind": "alie", "z": -1},
        {"kind": "alie", "knowledge": "all"},
        {"kind": "ipm", "tau": 0},
        {"kind": "scaling", "factor": 0},
        {"kind": "scaling", "factor": "big"},
        {"kind": "backdoor", "poison_share": 0},
        {"kind": "backdoor", "corner": "middle"},
        {"kind": "non_finite", "value": "1"},
        {"kind": "wrong_length", "off_by": 0},
        {"kind": "free_rider", "std": -0.1},
        {"kind": "lying_evaluator", "decoy_score": 1.0},
        {"kind": "flooding", "times": 0.5},
        {"kind": "evaluator_bait", "factor": -1},
        {"kind": "adaptive", "attack": {"kind": "ipm"}, "alignment": 2},
        {"kind": "adaptive"},
        {"kind": "combined", "attacks": []},
        {"kind": "label_flip", "tau": 1},
    ],
)
def test_invalid_settings_are_refused(faulty):
    with pytest.raises(ValueError, match="validation error"):
        read(faulty)
