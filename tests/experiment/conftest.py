from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

BASE: dict[str, Any] = {
    "title": "Loss by budget",
    "source": {"paper": "nbafl", "figure": 2},
    "scenario": {
        "data": {"dataset": "mnist", "source": "embedded", "clients": 6, "samples_per_client": 20},
        "protocol": {"kind": "sync", "rounds": 4},
        "privacy": {"kind": "nbafl", "epsilon": 60},
    },
    "axes": {"privacy.epsilon": [50, 60], "protocol.rounds": [2, 4]},
    "variants": {
        "L": {"one": {"privacy.exposures": 1}, "share": {"privacy.exposures": {"kind": "share", "share": 0.5}}}
    },
    "seeds": {"quick": 1, "full": [3, 5]},
    "quick": {"data.samples_per_client": 10, "axes.privacy.epsilon": [60], "variants.L": ["share"]},
    "figure": {"kind": "final", "x": "protocol.rounds", "hue": "privacy.epsilon", "panels": "L"},
    "claims": [{"check": "order", "along": "privacy.epsilon", "says": "the loss falls"}],
}


@pytest.fixture
def described() -> dict[str, Any]:
    """A sound experiment as plain values; change it freely."""
    import copy

    return copy.deepcopy(BASE)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_yaml(description: Any, name: str = "nbafl/fig2") -> Path:
        path = tmp_path / "experiments" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(description), encoding="utf-8")
        return path

    return write_yaml
