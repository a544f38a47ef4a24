"""The scope of a budget for each adversary."""

from typing import Any

import pytest
from pydantic import ValidationError

from asyncfl.privacy.stop_at import StopAt


@pytest.mark.parametrize(
    ("adversary", "of", "holds_uploads", "by_models"),
    [
        ("server", "uploads", False, False),
        ("both", "all", False, False),
        ("eavesdropper", "uploads", False, False),
        ("eavesdropper", "models", True, True),
        ("eavesdropper", "all", True, False),
        ("eavesdropper", "all", False, True),
        ("curious", "uploads", True, False),
        ("public", "all", True, True),
        ("public", "models", False, True),
    ],
)
def test_scope_for_each_adversary(adversary: Any, of: Any, holds_uploads: bool, by_models: bool) -> None:
    stop_at = StopAt(epsilon=3.0, adversary=adversary, of=of)
    assert stop_at.counts_models(holds_uploads) == by_models
    assert stop_at.adversary_is_server is (adversary in ("server", "both"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"accountant": "naive", "delta": 0.0},
            "delta has no meaning with accountant: naive, which adds up claims, got 0;",
        ),
        ({"adversary": "server", "of": "models"}, "of: models has no meaning with adversary: server"),
        ({"adversary": "both", "of": "models"}, "of: models has no meaning with adversary: both"),
        ({"adversary": "public"}, "of: uploads has no meaning with adversary: public"),
        ({"delta": 1.0}, "less than 1"),
        ({"epsilon": 0.0}, "greater than 0"),
    ],
)
def test_contradictory_fields_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        StopAt.model_validate({"epsilon": 1.0, **fields})
